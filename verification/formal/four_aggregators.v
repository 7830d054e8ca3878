(* Figure 1 and section 2.1: what mean, standard deviation, maximum and minimum tell apart.

   The paper: "different aggregators fail to discriminate between different messages when using a single GNN layer"; "four
   aggregators are insufficient to describe the neighbourhood accurately" where the degree is high.

   Formalised here, over every real field and for multisets of known size, given in increasing order:
     four_determined      the four aggregators determine every multiset of at most 4 elements;
     five_not_determined  they do not determine those of 5: {0, 0, 3, 3, 4} and {0, 1, 1, 4, 4};
     scalers_do_not_help  nor do they with any scalers, the size being the same.
   σ² stands for σ = √σ², which is the same up to an injection. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
Require Import proposition_1.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Four.
Variable R : realFieldType.
Implicit Types x y : seq R.
(* Equation 3, squared; mean is Equation 1. *)
Definition var x := (\sum_(a <- x) a ^+ 2) / (size x)%:R - mean x ^+ 2.
(* Equation 2, of a multiset in increasing order. *)
Definition maximum x := last 0 x.
Definition minimum x := head 0 x.
Definition agree x y := [/\ mean x = mean y, var x = var y, maximum x = maximum y & minimum x = minimum y].

Lemma two_determined (p q p' q' : R) :
  p + q = p' + q' -> p ^+ 2 + q ^+ 2 = p' ^+ 2 + q' ^+ 2 -> perm_eq [:: p; q] [:: p'; q'].
Proof.
move=> E1 E2; have two0 : 2%:R != 0 :> R by rewrite pnatr_eq0.
have E3 : p * q = p' * q'.
  apply: (mulIf two0); have -> : p * q * 2%:R = (p + q) ^+ 2 - (p ^+ 2 + q ^+ 2) by ring.
  by rewrite E1 E2; ring.
have : (p - p') * (p - q') == 0.
  have -> : (p - p') * (p - q') = p ^+ 2 - (p' + q') * p + p' * q' by ring.
  by rewrite -E1 -E3; apply/eqP; ring.
rewrite mulf_eq0 !subr_eq0 => /orP[] /eqP E; move: E1; rewrite E; first by move/addrI->.
by rewrite addrC => /addIr ->; rewrite (perm_catC [:: q'] [:: p']).
Qed.

Theorem four_determined x y : sorted <=%R x -> sorted <=%R y ->
  size x = size y -> (size x <= 4)%N -> agree x y -> x = y.
Proof.
move=> ox oy sz le [Em Ev Emax Emin].
case: x ox sz le Em Ev Emax Emin => [|a x] ox; first by case: y {oy} => //.
case: y oy => [//|a' y] oy [sz] le Em Ev Emax Emin; rewrite /minimum /= in Emin; rewrite -{a'}Emin in oy Em Ev Emax *.
have n0 : (size (a :: x))%:R != 0 :> R by rewrite pnatr_eq0.
have ES : \sum_(b <- a :: x) b = \sum_(b <- a :: y) b.
  by move: Em; rewrite /mean /= -sz; apply: mulIf; rewrite invr_eq0.
have EQ : \sum_(b <- a :: x) b ^+ 2 = \sum_(b <- a :: y) b ^+ 2.
  by move: Ev; rewrite /var Em => /addIr; rewrite /= -sz; apply: mulIf; rewrite invr_eq0.
move: ES EQ; rewrite !big_cons => /addrI ES /addrI EQ; congr (_ :: _).
clear Em Ev n0; move: sz le ES EQ Emax ox oy; rewrite /maximum /=.
case: x => [|b [|c [|d [|e x]]]]; case: y => [|b' [|c' [|d' [|e' y]]]] //= _ _; rewrite !big_cons !big_nil !addr0.
- by move=> ->.
- by move=> ES _ Ec _ _; move: ES; rewrite Ec => /addIr ->.
- move=> ES EQ Ed /and4P[_ bc _ _] /and4P[_ bc' _ _]; move: ES EQ; rewrite Ed !addrA => /addIr ES /addIr EQ.
  have := two_determined ES EQ => /(sorted_eq le_trans le_anti); rewrite /= !andbT => /(_ bc bc').
  by case=> -> ->.
Qed.


Definition X5 : seq R := [:: 0; 0; 3%:R; 3%:R; 4%:R].
Definition Y5 : seq R := [:: 0; 1; 1; 4%:R; 4%:R].

Lemma five_different : X5 != Y5.
Proof. by rewrite /X5 /Y5 !eqseq_cons eqxx /= eq_sym oner_eq0. Qed.

Theorem five_not_determined :
  [/\ sorted <=%R X5, sorted <=%R Y5, size X5 = 5%N, size Y5 = 5%N & X5 != Y5] /\ agree X5 Y5.
Proof.
split; first by split; rewrite ?five_different //= ?lexx ?ler0n ?ler01 ?ler1n ?ler_nat.
have Em : mean X5 = mean Y5 by rewrite /mean /= !big_cons !big_nil; congr (_ / _); ring.
by split=> //; rewrite /var Em; congr (_ - _); rewrite /= !big_cons !big_nil; congr (_ / _); ring.
Qed.

Theorem scalers_do_not_help (s : nat -> R) :
  [/\ s (size X5) * mean X5 = s (size Y5) * mean Y5, s (size X5) * var X5 = s (size Y5) * var Y5,
     s (size X5) * maximum X5 = s (size Y5) * maximum Y5 & s (size X5) * minimum X5 = s (size Y5) * minimum Y5].
Proof. by have [_ [-> -> -> ->]] := five_not_determined. Qed.
End Four.

(* Proposition 1: "The moments of a multiset (as defined in Equation 4) exhibit a valid example using n aggregators."

   In symbols, with μ(X) = E[X] and M_k(X) = (E[(X - μ)^k])^(1/k) for 1 < k ≤ n: if |X| = |Y| = n, μ(X) = μ(Y) and
   M_k(X) = M_k(Y) for all 1 < k ≤ n, then X = Y.

   Formalised here, for every n:
     central_moments_determine   over every field of characteristic 0, with E[(X - μ)^k] = M_k^k in place of M_k;
     signed_rootP                over every real closed field (ℝ is one) the real k-th root that the proof needs: of every
                                 number for odd k, with its sign, and of a number that is not negative for even k;
     proposition_1               the paper's statement: the n aggregators are the mean and M_2 … M_n with that root;
     absolute_value_fails        with the root of the absolute value |E[(X - μ)^k]| in its place, which is what the text
                                 before Equation 4 says (Equation 4 itself has none), the statement is false: {0, 0, 3} and
                                 {-1, 2, 2} agree on all k.
   Left out: ε, which the text adds for the gradient's sake; and the note on multisets of unknown size. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp.real_closed Require Import polyrcf.
Require Import power_sums.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section CentralMoments.
Variable F : fieldType.
Hypothesis char0 : [char F] =i pred0.
Implicit Types X Y : seq F.

(* Equation 1, and what is under the root of Equation 4. *)
Definition mean X := (\sum_(x <- X) x) / (size X)%:R.
Definition moment X k := (\sum_(x <- X) (x - mean X) ^+ k) / (size X)%:R.

(* "Notice how Σ r_i = 0", R = {x - μ}. *)
Lemma centred_sum X : (size X)%:R != 0 :> F -> psum [seq x - mean X | x <- X] 1 = 0.
Proof.
move=> n0; rewrite /psum big_map (eq_bigr (fun x => x - mean X)) => [|x _]; last by rewrite expr1.
by rewrite big_split /= sumrN big_const_seq count_predT iter_addr addr0 -[_ *+ size X]mulr_natr /mean divfK ?subrr.
Qed.

Theorem central_moments_determine X Y : size X = size Y -> mean X = mean Y ->
  (forall k, (1 < k <= size X)%N -> moment X k = moment Y k) -> perm_eq X Y.
Proof.
move=> sz em eqM; have [s0|sgt0] := posnP (size X).
  by rewrite (size0nil s0) (size0nil (etrans (esym sz) s0)).
have n0 : (size X)%:R != 0 :> F by rewrite (charf0P _).1 // -lt0n.
apply: (@perm_map_inj _ _ (fun x => x - mean X)); first by apply: addIr.
apply: power_sums_determine => //; first by rewrite !size_map.
move=> [|[|k]] //; rewrite size_map => klt.
  by rewrite centred_sum // [in RHS]em centred_sum // -sz.
have := eqM k.+2 klt; rewrite /moment -sz => /(mulIf (invr_neq0 n0)).
by rewrite /psum !big_map -em.
Qed.
End CentralMoments.

Section SignedRoot.
Variable R : rcfType.
Implicit Types m r : R.

Lemma positive_root k m : (0 < k)%N -> 0 <= m -> exists2 r, 0 <= r & r ^+ k = m.
Proof.
move=> k0 m0; have b1 : 1 <= m + 1 by rewrite ler_addr.
have b0 : 0 <= m + 1 by apply: le_trans b1.
have I : (('X^k - m%:P).[0] <= 0 <= ('X^k - m%:P).[m + 1]).
  rewrite !(hornerD, hornerN, hornerC, hornerXn) expr0n eqn0Ngt k0 sub0r oppr_le0 m0 /= subr_ge0.
  apply: (@le_trans _ _ (m + 1)); first by rewrite ler_addl ler01.
  by rewrite -{1}[m + 1]expr1 ler_weexpn2l.
have [r /andP[r0 _]] := poly_ivt b0 I.
rewrite rootE !(hornerD, hornerN, hornerC, hornerXn) subr_eq0 => /eqP E.
by exists r.
Qed.

Lemma signed_root_exists k m : exists r,
  (0 < k)%N && (odd k || (0 <= m)) ==> (r ^+ k == m) && ((0 <= m) ==> (0 <= r)).
Proof.
have [k0|] := ltnP 0 k; last by exists 0.
have [m0|m0] := leP 0 m.
  by have [r r0 E] := positive_root k0 m0; exists r; rewrite E r0 eqxx; case: (odd k).
have [o|_] := boolP (odd k); last by exists 0.
have [||r r0 E] := @positive_root k (- m) => //; first by rewrite oppr_ge0 ltW.
by exists (- r); rewrite exprNn E -signr_odd o expr1 mulN1r opprK eqxx.
Qed.

(* The root of Equation 4: for odd k it has the sign of its argument. *)
Definition signed_root k m : R := xchoose (signed_root_exists k m).

Lemma signed_rootP k m : (0 < k)%N -> odd k || (0 <= m) -> signed_root k m ^+ k = m.
Proof.
move=> k0 km; have /implyP H := xchooseP (signed_root_exists k m).
by have /andP[/eqP] := H (introT andP (conj k0 km)).
Qed.

Lemma even_moment_ge0 (X : seq R) k : ~~ odd k -> 0 <= moment X k.
Proof. by move=> ek; rewrite divr_ge0 ?ler0n // sumr_ge0 // => x _; rewrite exprn_even_ge0. Qed.

(* The n aggregators: the mean is the first. *)
Definition M k (X : seq R) := if k == 1%N then mean X else signed_root k (moment X k).

Lemma M_power k X : (1 < k)%N -> M k X ^+ k = moment X k.
Proof.
case: k => [|[|k]] // _; rewrite /M /= signed_rootP //.
by case: (boolP (odd k.+2)) => //= ok; rewrite even_moment_ge0.
Qed.

Theorem proposition_1 (X Y : seq R) : size X = size Y ->
  (forall k, (0 < k <= size X)%N -> M k X = M k Y) -> perm_eq X Y.
Proof.
move=> sz E; have [s0|sgt0] := posnP (size X).
  by rewrite (size0nil s0) (size0nil (etrans (esym sz) s0)).
apply: central_moments_determine => //; first exact: char_num.
  by have := E 1%N; rewrite /M /= sgt0 => /(_ isT).
move=> k /andP[k1 kn]; rewrite -!M_power //; congr (_ ^+ _); apply: E; by rewrite (ltnW k1).
Qed.

(* Mirroring about the mean changes the signs of the odd moments, and nothing else. *)
Theorem absolute_value_fails : exists X Y : seq R,
  [/\ size X = 3%N, size Y = 3%N, ~~ perm_eq X Y, mean X = mean Y & forall k, `|moment X k| = `|moment Y k|].
Proof.
have three : 3%:R != 0 :> R by rewrite pnatr_eq0.
have mX : mean [:: 0; 0; 3%:R : R] = 1 by rewrite /mean !big_cons big_nil /= !add0r addr0 divff.
have mY : mean [:: -1; 2%:R; 2%:R : R] = 1.
  by rewrite /mean !big_cons big_nil /= (_ : _ + _ = 3%:R) ?divff //; ring.
exists [:: 0; 0; 3%:R], [:: -1; 2%:R; 2%:R]; split; rewrite ?mX ?mY //.
  apply/negP => /perm_mem /(_ 0); rewrite !inE eqxx /= eq_sym oppr_eq0 oner_eq0 /=.
  by rewrite eq_sym pnatr_eq0.
move=> k; rewrite /moment mX mY !big_cons !big_nil /= !addr0.
rewrite (_ : 0 - 1 = - 1 :> R) ?sub0r // (_ : 3%:R - 1 = 2%:R :> R); last by ring.
rewrite (_ : -1 - 1 = - 2%:R :> R); last by ring.
rewrite (_ : 2%:R - 1 = 1 :> R); last by ring.
rewrite expr1n !normrM; congr (_ * _).
have -> : (-1 : R) ^+ k + ((-1) ^+ k + 2%:R ^+ k) = (-1) ^+ k * ((- 2%:R) ^+ k + (1 + 1)).
  by rewrite [(- 2%:R) ^+ k]exprNn mulrDr mulrA -expr2 sqrr_sign mul1r mulrDr mulr1 addrA addrC.
by rewrite normrM normrX normrN1 expr1n mul1r.
Qed.
End SignedRoot.

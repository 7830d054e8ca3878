(* Theorem 2 as an equivalence, without a shift and without a sign condition.

   Formalised here, over every real field, for every countable feature space χ with at least two features, every B and every
   scaler s:
     theorem_2_sharp   some f makes s(|X|) E[f(x)] injective on multisets of 1 … B elements if and only if s is injective and
                       nowhere 0 on 1 … B.
   Necessary: {a, …, a} of two sizes with one value of s, and {a, …, a}, {b, …, b} of a size where s is 0. Sufficient: E[f] > 0,
   so the sign of s(|X|) is known from the value, and on each sign theorem_2.v's h is injective for a scaler that agrees with
   ± s there. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import theorem_2.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Sharp.
Variables (R : realFieldType) (chi : countType) (B : nat) (s : nat -> R).
Variables a b : chi.
Hypothesis ab : a != b.

Definition inj_on := forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s i = s j -> i = j.
Definition nonzero_on := forall i, (0 < i <= B)%N -> s i != 0.

Lemma sum_nseq (f : chi -> R) x i : \sum_(y <- nseq i x) f y = i%:R * f x.
Proof. by rewrite big_nseq iter_addr addr0 mulr_natl. Qed.

Lemma scaled_mean_nseq (u : nat -> R) (f : chi -> R) x i : (0 < i)%N -> scaled_mean u f (nseq i x) = u i * f x.
Proof. by move=> i0; rewrite /scaled_mean sum_nseq size_nseq mulrAC divff ?mul1r // pnatr_eq0 -lt0n. Qed.

(* The scaler times e where that is positive, and large different values elsewhere. *)
Let big : R := \sum_(i < B.+1) `|s i| + 1.
Let part (e : R) (i : nat) : R := if 0 < e * s i then e * s i else big + i%:R.

Lemma below_big i : (i <= B)%N -> `|s i| < big.
Proof.
move=> iB; rewrite /big (bigD1 (Ordinal (iB : (i < B.+1)%N))) //= -addrA ltr_addl.
by rewrite ltr_paddl // sumr_ge0 // => j _; apply: normr_ge0.
Qed.

Lemma big_gt0 : 0 < big.
Proof. by rewrite ltr_paddl ?ltr01 // sumr_ge0 // => j _; apply: normr_ge0. Qed.

Lemma part_pos e i : 0 < part e i.
Proof. by rewrite /part; case: ifP => // _; rewrite ltr_paddr ?ler0n ?big_gt0. Qed.

Lemma part_inj e : `|e| = 1 -> inj_on ->
  forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> part e i = part e j -> i = j.
Proof.
move=> e1 si; have e0 : e != 0 by rewrite -normr_gt0 e1 ltr01.
have lt k l : (0 < k <= B)%N -> 0 < e * s k -> e * s k = big + l%:R -> False.
  move=> /andP[_ kB] _ E; have := below_big kB.
  have -> : `|s k| = `|e * s k| by rewrite normrM e1 mul1r.
  have ge : 0 <= big + l%:R by rewrite addr_ge0 ?ler0n // ltW // big_gt0.
  by rewrite E (ger0_norm ge) gtr_addl ltNge ler0n.
move=> i j iB jB; rewrite /part; case: ifP => pi; case: ifP => pj E.
- by apply: si => //; apply: (mulfI e0).
- by case: (lt i j).
- by case: (lt j i).
- by move/addrI: E => /eqP; rewrite eqr_nat => /eqP.
Qed.

Theorem theorem_2_sharp : (exists f : chi -> R, injective_up_to_B B (scaled_mean s f)) <-> (inj_on /\ nonzero_on).
Proof.
split=> [[f H]|[si s0]].
  split=> [i j iB jB E|i iB].
    case/andP: (iB) => i0 _; case/andP: (jB) => j0 _.
    have /perm_size : perm_eq (nseq i a) (nseq j a).
      by apply: H; rewrite ?size_nseq // (scaled_mean_nseq _ _ _ i0) (scaled_mean_nseq _ _ _ j0) E.
    by rewrite !size_nseq.
  apply/eqP => E; case/andP: (iB) => i0 _.
  have /perm_mem /(_ a) : perm_eq (nseq i a) (nseq i b).
    by apply: H; rewrite ?size_nseq // !(scaled_mean_nseq _ _ _ i0) E !mul0r.
  by rewrite !mem_nseq i0 eqxx (negPf ab).
have [K1 H1] := @offset_exists R B (part 1); have [K2 H2] := @offset_exists R B (part (-1)).
pose K := `|K1| + `|K2| + 1.
have K1K : K1 <= K by apply: (le_trans (ler_norm K1)); rewrite /K -addrA ler_addl addr_ge0 ?ler01.
have K2K : K2 <= K by apply: (le_trans (ler_norm K2)); rewrite /K addrAC ler_addr addr_ge0 ?ler01.
have Z := pcan_inj (@pickleK chi).
have I1 : inj_on -> forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> part 1 i = part 1 j -> i = j.
  by apply: part_inj; rewrite normr1.
have I2 : inj_on -> forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> part (-1) i = part (-1) j -> i = j.
  by apply: part_inj; rewrite normrN1.
pose F := f pickle B.+1 K : chi -> R.
have J e : (forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> part e i = part e j -> i = j) ->
    (forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> part e j < part e i -> (part e i / part e j - 1)^-1 < K) ->
    forall X Y, (0 < size X <= B)%N -> (0 < size Y <= B)%N -> scaled_mean (part e) F X = scaled_mean (part e) F Y -> perm_eq X Y.
  move=> inj kb X Y; exact: (@h_injective R chi pickle Z B B.+1 (part e) K (ltnSn B) (fun i _ => part_pos e i) inj kb X Y).
have {H1}J1 := J 1 (I1 si) (fun i j iB jB l => lt_le_trans (H1 i j iB jB l) K1K).
have {H2}J2 := J (-1) (I2 si) (fun i j iB jB l => lt_le_trans (H2 i j iB jB l) K2K).
have Fpos x : 0 < F x.
  by rewrite /F /f ltr_paddl ?invr_ge0 ?exprn_ge0 ?ler0n // /K ltr_paddl ?ltr01 // addr_ge0.
have meanpos X : (0 < size X)%N -> 0 < (\sum_(x <- X) F x) / (size X)%:R.
  move=> X0; rewrite divr_gt0 ?ltr0n //; case: X X0 => // x X _; rewrite big_cons ltr_paddr //.
  by rewrite sumr_ge0 // => y _; rewrite ltW.
have same e X : 0 < e * s (size X) -> scaled_mean (part e) F X = e * scaled_mean s F X.
  by move=> p; rewrite /scaled_mean /part p [RHS]mulrA.
have sgn X : (0 < size X)%N -> Num.sg (scaled_mean s F X) = Num.sg (s (size X)).
  by move=> X0; rewrite /scaled_mean sgrM (gtr0_sg (meanpos X X0)) mulr1.
exists F => X Y XB YB E; case/andP: (XB) => X0 _; case/andP: (YB) => Y0 _.
have ES : Num.sg (s (size X)) = Num.sg (s (size Y)) by rewrite -!sgn // E.
have [n|p|z] := ltgtP (s (size X)) 0; last by have := s0 _ XB; rewrite z eqxx.
  have n' : s (size Y) < 0 by rewrite -sgr_lt0 -ES sgr_lt0.
  by apply: J2 => //; rewrite (same (-1)) ?mulN1r ?oppr_gt0 // (same (-1)) ?mulN1r ?oppr_gt0 // E.
have p' : 0 < s (size Y) by rewrite -sgr_gt0 -ES sgr_gt0.
by apply: J1 => //; rewrite (same 1) ?mul1r // (same 1) ?mul1r // E.
Qed.
End Sharp.

(* Proposition 1 says that the moments determine a multiset, and not how well: the inverse of its map is not Lipschitz.

   Formalised here, over every real field, at n = 3:
     moments_not_bilipschitz   for every constant C there is 0 < t ≤ 1 such that X = {1 + t, 1 - t, -2} and Y = {1, 1, -2},
                               which are at distance t, have the same mean, and central moments of orders 2 and 3 that
                               differ by less than t / C.
   They differ by 2 t²/3 and 2 t²: half of the digits are lost where two elements meet. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
Require Import proposition_1.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Section NotBiLipschitz.
Variable R : realFieldType.
Definition X (t : R) := [:: 1 + t; 1 - t; - 2%:R].
Definition Y : seq R := [:: 1; 1; - 2%:R].
Lemma mean0 t : mean (X t) = 0.
Proof. by rewrite /mean /X !big_cons big_nil (_ : _ + _ = 0) ?mul0r //; ring. Qed.
Lemma Y_is_X0 : Y = X 0. Proof. by rewrite /X addr0 subr0. Qed.
Theorem moments_not_bilipschitz (C : R) : 0 < C -> exists2 t : R, 0 < t <= 1 &
  [/\ mean (X t) = mean Y, C * `|moment (X t) 2 - moment Y 2| < t & C * `|moment (X t) 3 - moment Y 3| < t].
Proof.
move=> C0; set t := (2%:R * C + 1)^-1; have d0 : 0 < 2%:R * C + 1 by rewrite addr_gt0 ?mulr_gt0 ?ltr0n ?ltr01.
have t0 : 0 < t by rewrite invr_gt0.
have t1 : t <= 1 by rewrite invf_le1 // ler_addr mulr_ge0 ?ler0n ?ltW.
have three : 3%:R != 0 :> R by rewrite pnatr_eq0.
have key : C * (2%:R * t ^+ 2) < t.
  have -> : C * (2%:R * t ^+ 2) = (2%:R * C * t) * t by ring.
  have td : t * (2%:R * C + 1) = 1 by rewrite mulVf ?lt0r_neq0.
  have -> : 2%:R * C * t = t * (2%:R * C + 1) - t by ring.
  rewrite td.
  by rewrite gtr_pmull // gtr_addl oppr_lt0.
exists t; rewrite ?t0 ?t1 //; split; first by rewrite Y_is_X0 !mean0.
  rewrite (_ : _ - _ = 2%:R * t ^+ 2 / 3%:R); last first.
    by rewrite Y_is_X0 /moment !mean0 /X !big_cons !big_nil /=; apply: (mulIf three); rewrite mulrBl !divfK //; ring.
  have g2 : 0 <= 2%:R * t ^+ 2 by rewrite mulr_ge0 ?ler0n // sqr_ge0.
  have g3 : 0 <= 2%:R * t ^+ 2 / 3%:R by rewrite divr_ge0 // ler0n.
  have le : C * (2%:R * t ^+ 2 / 3%:R) <= C * (2%:R * t ^+ 2).
    by rewrite ler_pmul2l // ler_pdivr_mulr ?ltr0n // ler_pemulr // ler1n.
  by rewrite (ger0_norm g3) (le_lt_trans le key).
rewrite (_ : _ - _ = 2%:R * t ^+ 2); last first.
  by rewrite Y_is_X0 /moment !mean0 /X !big_cons !big_nil /=; apply: (mulIf three); rewrite mulrBl !divfK //; ring.
have g2 : 0 <= 2%:R * t ^+ 2 by rewrite mulr_ge0 ?ler0n // sqr_ge0.
by rewrite (ger0_norm g2).
Qed.
End NotBiLipschitz.

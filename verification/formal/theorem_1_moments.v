(* Theorem 1 for the moments: "at least n aggregators are needed", without Borsuk-Ulam.

   In symbols: for every n ≥ 1 there are two different multisets of n reals with Σ x^k = Σ y^k for all k < n. Since central
   moments are polynomials in the power sums, the first n - 1 moments of Proposition 1 agree on them as well, so that
   Proposition 1 is sharp.

   Formalised here for every n and every real closed field, by construction:
     shared_power_sums     if Π (x - s_i) and Π (x - t_i) differ by a constant, s and t share p_0 … p_(n-1) (Newton);
     sign_alternates       P(x) = x (x - 2) … (x - 2(n-1)) changes its sign between neighbours of -1, 1, …, 2n - 1, where
                           it is an odd integer, so P - 1/2 does as well;
     n_roots               hence P - 1/2 has n roots (intermediate value theorem for polynomials);
     n_minus_1_power_sums_collide   so the roots of P and of P - 1/2 are the two multisets;
     n_minus_1_moments_collide      the same in the words of Proposition 1: mean and M_2 … M_(n-1) agree.
   For other aggregators see theorem_1.ml, where they need be continuous only. *)
From mathcomp Require Import all_ssreflect all_algebra zify.
From mathcomp.algebra_tactics Require Import ring.
From mathcomp.real_closed Require Import polyrcf.
Require Import power_sums proposition_1.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma shared_power_sums (R : idomainType) (s t : seq R) (c : R) :
  size s = size t -> poly_of s - poly_of t = c%:P -> forall k, (k < size s)%N -> psum s k = psum t k.
Proof.
move=> sz E; set n := size s.
have [A sA EA] := newton_identities s n; have [B sB EB] := newton_identities t n.
set S := fun u : seq R => \sum_(k < n) (psum u k)%:P * 'X^(n.-1 - k) : {poly R}.
rewrite -/(S s) in EA; rewrite -/(S t) in EB.
have sS u : (size (S u) <= n)%N.
  apply: (leq_trans (size_sum _ _ _)); apply/bigmax_leqP => k _.
  rewrite mul_polyC (leq_trans (size_scale_leq _ _)) // size_polyXn.
  by have := ltn_ord k; lia.
have ED : (poly_of s)^`() = (poly_of t)^`().
  by apply/eqP; rewrite -subr_eq0 -derivB E derivC.
have key : poly_of s * (S s - S t) = B - A - c%:P * S t.
  have : poly_of s * S s + A = poly_of t * S t + B by rewrite -EA -EB ED.
  have -> : poly_of t = poly_of s - c%:P by rewrite -E opprB addrC subrK.
  by move=> H; rewrite mulrBr (_ : poly_of s * S s = (poly_of s - c%:P) * S t + B - A); [ring | rewrite -H addrK].
have S0 : S s - S t = 0.
  apply/eqP; apply: contraT => D0; have : (size (poly_of s * (S s - S t))%R <= n)%N.
    rewrite key (leq_trans (size_add _ _)) // geq_max size_opp mul_polyC (leq_trans (size_scale_leq _ _)) // andbT.
    have sB' : (size B <= n)%N by rewrite /n sz.
    by rewrite (leq_trans (size_add _ _)) // geq_max size_opp sB' sA.
  rewrite size_monicM ?monic_prod_XsubC // size_prod_XsubC /=.
  by rewrite -/n -{2}[n]addn0 leq_add2l leqn0 size_poly_eq0 (negPf D0).
move=> k kn; have /(congr1 (fun p : {poly R} => p`_(n.-1 - k))) := subr0_eq S0.
have coefS u : (S u)`_(n.-1 - k) = psum u k.
  rewrite coef_sum (bigD1 (Ordinal kn)) //= coefCM coefXn eqxx mulr1 big1 ?addr0 // => i ik.
  rewrite coefCM coefXn; case: eqP => [Ei|]; last by rewrite mulr0.
  by move: ik; rewrite -val_eqE /= => /eqP[]; have := ltn_ord i; move: kn Ei; rewrite -/n; lia.
by rewrite !coefS.
Qed.

Section Sharp.
Variables (R : rcfType) (n : nat).
Hypothesis n_gt0 : (0 < n)%N.
Let nodes : seq R := [seq (2 * i)%N%:R | i <- iota 0 n].
Let P := poly_of nodes.
Let c : R := 2%:R^-1.
Let a (j : nat) : R := ((2 * j)%N%:Z - 1)%:~R.
Let w (j : nat) : int := \prod_(i <- iota 0 n) ((2 * j)%N%:Z - 1 - (2 * i)%N%:Z).

Lemma P_at_odd j : P.[a j] = (w j)%:~R.
Proof.
rewrite /P /poly_of horner_prod big_map /w rmorph_prod /=; apply: eq_bigr => i _.
by rewrite hornerXsubC /a [in RHS]rmorphB /=.
Qed.

Lemma integer_sign_alternates j : (j < n)%N -> w j * w j.+1 < 0.
Proof.
move=> jn; rewrite /w -big_split /= (bigD1_seq j) ?iota_uniq ?mem_iota //=.
rewrite (_ : ((2 * j)%N%:Z - 1 - (2 * j)%N%:Z) * ((2 * j.+1)%N%:Z - 1 - (2 * j)%N%:Z) = -1); last by lia.
rewrite mulN1r oppr_lt0; apply: prodr_gt0 => i ij.
have [lt|gt|E] := ltngtP i j; last by rewrite E eqxx in ij.
  by apply: mulr_gt0; lia.
by rewrite -mulrNN; apply: mulr_gt0; lia.
Qed.

Lemma sign_alternates j : (j < n)%N -> (P - c%:P).[a j] * (P - c%:P).[a j.+1] < 0.
Proof.
move=> jn; rewrite !hornerD !hornerN !hornerC !P_at_odd; move: (integer_sign_alternates jn); move: (w j) (w j.+1) => x y xy.
have c0 : 0 < c by rewrite invr_gt0 ltr0n.
have c1 : c < 1 by rewrite invf_lt1 ?ltr0n // ltr1n.
have pos (z : int) : 0 < z -> 0 < z%:~R - c :> R.
  by move=> z0; rewrite subr_gt0 (lt_le_trans c1) // -[1]/(1%:~R) ler_int; lia.
have neg (z : int) : z < 0 -> z%:~R - c < 0 :> R.
  by move=> z0; rewrite subr_lt0 (lt_trans _ c0) // -[0]/(0%:~R) ltr_int.
have [x0|x0|x0] := ltgtP x 0; last by rewrite x0 mul0r ltxx in xy.
  by rewrite nmulr_rlt0 ?neg // pos // -(nmulr_rlt0 _ x0).
by rewrite pmulr_rlt0 ?pos // neg // -(pmulr_rlt0 _ x0).
Qed.

Lemma n_roots m : (m <= n)%N -> exists rs : seq R,
  [/\ size rs = m, all (root (P - c%:P)) rs, uniq rs & all (fun x => x < a m) rs].
Proof.
elim: m => [|m IHm] mn; first by exists [::].
have [rs [sz ar ur lr]] := IHm (ltnW mn).
have am : a m < a m.+1 by rewrite ltr_int; lia.
have sg : Num.sg (P - c%:P).[a m] * Num.sg (P - c%:P).[a m.+1] = -1.
  by rewrite -sgrM; apply: ltr0_sg; apply: sign_alternates.
have [x] := ivt_sign (ltW am) sg; rewrite in_itv /= => /andP[ax xa] rx; exists (rcons rs x); split; rewrite ?size_rcons ?sz //.
- by rewrite all_rcons rx ar.
- rewrite rcons_uniq ur andbT; apply/negP => /(allP lr) lt.
  by have := lt_trans lt ax; rewrite ltxx.
- by rewrite all_rcons xa; apply/allP => y /(allP lr) ya; apply: lt_trans ya am.
Qed.

Theorem n_minus_1_power_sums_collide :
  exists s t : seq R, [/\ size s = n, size t = n, ~~ perm_eq s t & forall k, (k < n)%N -> psum s k = psum t k].
Proof.
have [rs [sz ar ur _]] := n_roots (leqnn n).
have szP : size P = n.+1 by rewrite size_prod_XsubC size_map size_iota.
have c0 : c != 0 by rewrite invr_eq0 pnatr_eq0.
have lt1 : (size (- c%:P : {poly R})%R < size P)%N by rewrite size_opp szP (leq_ltn_trans (size_polyC_leq1 _)).
have szQ : size (P - c%:P) = n.+1 by rewrite size_addl.
have lQ : lead_coef (P - c%:P) = 1 by rewrite lead_coefDl //; apply/eqP; rewrite -monicE monic_prod_XsubC.
have EQ : P - c%:P = poly_of rs.
  by rewrite (all_roots_prod_XsubC _ ar) ?szQ ?sz ?uniq_rootsE // lQ scale1r.
exists nodes, rs; split=> //; first by rewrite size_map size_iota.
  apply/negP => pe; move: EQ; rewrite /P /poly_of (perm_big _ pe) /= => /eqP.
  by rewrite -subr_eq0 addrC addKr oppr_eq0 polyC_eq0 (negPf c0).
have sn : size nodes = n by rewrite size_map size_iota.
have := @shared_power_sums R nodes rs c; rewrite sn sz => H k kn; apply: H => //.
by rewrite -EQ -/P opprB addrC subrK.
Qed.

(* The central moment of order k is a polynomial in p_0 … p_k. *)
Lemma moment_from_power_sums (X Y : seq R) k : size X = size Y ->
  (forall j, (j <= k)%N -> psum X j = psum Y j) -> mean X = mean Y -> moment X k = moment Y k.
Proof.
move=> sz E Em; rewrite /moment sz Em; congr (_ / _); set mu := mean Y.
have expand (Z : seq R) : \sum_(x <- Z) (x - mu) ^+ k = \sum_(i < k.+1) ((- mu) ^+ i *+ 'C(k, i)) * psum Z (k - i).
  rewrite (eq_bigr (fun x => \sum_(i < k.+1) ((- mu) ^+ i *+ 'C(k, i)) * x ^+ (k - i))) => [|x _].
    by rewrite exchange_big /=; apply: eq_bigr => i _; rewrite big_distrr.
  by rewrite exprDn; apply: eq_bigr => i _; rewrite mulrC mulrnAl.
by rewrite !expand; apply: eq_bigr => i _; rewrite E // leq_subr.
Qed.

Theorem n_minus_1_moments_collide :
  exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq X Y & forall k, (0 < k < n)%N -> M k X = M k Y].
Proof.
have [X [Y [sX sY ne E]]] := n_minus_1_power_sums_collide; exists X, Y; split => // k /andP[k0 kn].
have Em : (1 < n)%N -> mean X = mean Y.
  move=> n1; rewrite /mean sX sY; congr (_ / _).
  by have := E 1%N n1; rewrite /psum; under eq_bigr do rewrite expr1; under [RHS]eq_bigr do rewrite expr1.
have n1 : (1 < n)%N by apply: leq_ltn_trans kn.
rewrite /M; case: eqP => _; first exact: Em.
congr (signed_root _ _); apply: moment_from_power_sums; rewrite ?sX ?sY //; last exact: Em.
by move=> j jk; apply: E; apply: leq_ltn_trans kn.
Qed.
End Sharp.

(* Section 2.2, degree-based scalers.

   The paper: sum is "the composition of a mean aggregator and a linear-degree amplifying scaler S_amp(d) = d";
   S(d, α) = (log(d + 1)/δ)^α for d > 0 (Equation 6) is a scaler, "as long as the function is injective for d > 0"; "a
   linear amplification at each layer will cause an exponential amplification after multiple layers", and the logarithmic
   one is proposed "to reduce this effect".

   Formalised here:
     sum_is_scaled_mean          Σ x = |X| E[X] for every multiset that is not empty, over every field of characteristic 0;
     S_injective                 S(·, α) is injective on d > 0 for every α ≠ 0 (the paper calls α = 0 "no scaling");
     layers_amplify              on a d-regular graph, L layers x <- S · mean multiply a constant signal by S^L;
     logarithm_amplifies_less    for degrees d > d_0 ≥ 1, 1 < log(d + 1)/log(d_0 + 1) < d/d_0: normalised at d_0, the
                                 logarithmic scaler amplifies less than the linear one in every layer, hence over L of them
                                 (logarithm_amplifies_less_over_layers). Both are exponential in L.
   The logarithm is any strictly increasing function of a real field with log(xy) = log x + log y, and x^α is
   exp(α log x) with any strictly increasing exp; that the real functions are such is not formalised. *)
From mathcomp Require Import all_ssreflect all_algebra zify.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem sum_is_scaled_mean (F : fieldType) (X : seq F) : [char F] =i pred0 -> (0 < size X)%N ->
  \sum_(x <- X) x = (size X)%:R * ((\sum_(x <- X) x) / (size X)%:R).
Proof. by move=> char0 X0; rewrite mulrC divfK // (charf0P _).1 // -lt0n. Qed.

(* (n + 2)^n < (n + 1)^(n + 1), by induction on the exponent: (n + 2)^k (n + 1 - k) ≤ (n + 1)^(k + 1). *)
Lemma power_step n : (0 < n)%N -> (n.+2 ^ n < n.+1 ^ n.+1)%N.
Proof.
move=> n0; have H k : (k <= n)%N -> (n.+2 ^ k * (n.+1 - k) + (0 < k) <= n.+1 ^ k.+1)%N.
  elim: k => [|k IHk] kn; first by rewrite expn0 mul1n subn0 addn0 expn1.
  have {}IHk := IHk (ltnW kn); rewrite /= subSS [(n.+1 ^ _)%N]expnS.
  apply: leq_trans (leq_mul (leqnn n.+1) (leq_trans (leq_addr _ _) IHk)).
  have a0 : (0 < n.+2 ^ k)%N by rewrite expn_gt0.
  have -> : (n.+2 ^ k.+1 * (n - k) = n.+2 ^ k * (n.+2 * (n - k)))%N by rewrite expnS; lia.
  have -> : (n.+1 * (n.+2 ^ k * (n.+1 - k)) = n.+2 ^ k * (n.+1 * (n.+1 - k)))%N by lia.
  have lt : (n.+2 * (n - k) < n.+1 * (n.+1 - k))%N by nia.
  by rewrite addn1 ltn_mul2l a0.
by have := H n (leqnn n); rewrite subSnn muln1 n0 addn1.
Qed.

(* (d + 1)^d_0 < (d_0 + 1)^d for 1 ≤ d_0 < d: the logarithm's concavity, at naturals. *)
Lemma power_exchange d_0 d : (0 < d_0 < d)%N -> (d.+1 ^ d_0 < d_0.+1 ^ d)%N.
Proof.
case/andP => d0 lt; rewrite -(subnKC lt); elim: (d - d_0.+1)%N => [|e IHe]; first by rewrite addn0 power_step.
rewrite addnS; set c := (d_0.+1 + e)%N in IHe *.
have c0 : (0 < c)%N by [].
rewrite -(ltn_exp2r _ _ c0).
have -> : ((c.+2 ^ d_0) ^ c = (c.+2 ^ c) ^ d_0)%N by rewrite -!expnM mulnC.
have -> : ((d_0.+1 ^ c.+1) ^ c = (d_0.+1 ^ c) ^ c.+1)%N by rewrite -!expnM mulnC.
apply: (@ltn_trans ((c.+1 ^ c.+1) ^ d_0)); first by rewrite ltn_exp2r // power_step.
by rewrite -expnM mulnC expnM ltn_exp2r.
Qed.

Section Logarithm.
Variables (R : realFieldType) (log exp : R -> R).
Hypothesis logM : forall x y, 0 < x -> 0 < y -> log (x * y) = log x + log y.
Hypothesis log_increasing : forall x y, 0 < x -> x < y -> log x < log y.
Hypothesis exp_increasing : forall x y, x < y -> exp x < exp y.

Lemma log1 : log 1 = 0.
Proof. by apply: (@addrI _ (log 1)); rewrite addr0 -logM ?mulr1 ?ltr01. Qed.

Lemma log_gt0 d : (0 < d)%N -> 0 < log d.+1%:R.
Proof. by move=> d0; rewrite -log1 log_increasing ?ltr01 // ltr1n. Qed.

Lemma log_power (x : R) k : 0 < x -> log (x ^+ k) = k%:R * log x.
Proof.
move=> x0; elim: k => [|k IHk]; first by rewrite expr0 log1 mul0r.
by rewrite exprS logM ?exprn_gt0 // IHk -[k.+1]add1n natrD mulrDl mul1r.
Qed.

(* Equation 6; Equation 5 is α = 1. *)
Definition S (delta alpha : R) (d : nat) : R := exp (alpha * log (log d.+1%:R / delta)).

Lemma log_injective x y : 0 < x -> 0 < y -> log x = log y -> x = y.
Proof.
move=> x0 y0 E; case: (ltgtP x y) => // lt.
  by have := log_increasing x0 lt; rewrite E ltxx.
by have := log_increasing y0 lt; rewrite E ltxx.
Qed.

Lemma exp_injective x y : exp x = exp y -> x = y.
Proof. by move=> E; case: (ltgtP x y) => // /exp_increasing; rewrite E ltxx. Qed.

Theorem S_injective (delta alpha : R) : 0 < delta -> alpha != 0 ->
  forall d e, (0 < d)%N -> (0 < e)%N -> S delta alpha d = S delta alpha e -> d = e.
Proof.
move=> delta0 alpha0 d e d0 e0 /exp_injective /(mulfI alpha0).
move/(log_injective (divr_gt0 (log_gt0 d0) delta0) (divr_gt0 (log_gt0 e0) delta0)).
move/(mulIf (invr_neq0 (lt0r_neq0 delta0))) /(log_injective (ltr0Sn _ _) (ltr0Sn _ _)) /eqP.
by rewrite eqr_nat eqSS => /eqP.
Qed.

Theorem logarithm_amplifies_less d_0 d : (0 < d_0 < d)%N ->
  1 < log d.+1%:R / log d_0.+1%:R < d%:R / d_0%:R.
Proof.
case/andP => d0 lt; have l0 := log_gt0 d0; have n0 : 0 < d_0%:R :> R by rewrite ltr0n.
rewrite ltr_pdivl_mulr // mul1r log_increasing ?ltr0n ?ltr_nat //=.
have key : d_0%:R * log d.+1%:R < d%:R * log d_0.+1%:R.
  by rewrite -!log_power ?ltr0Sn // -!natrX log_increasing ?ltr0n ?expn_gt0 // ltr_nat power_exchange // d0.
by rewrite ltr_pdivr_mulr // mulrAC ltr_pdivl_mulr // [_ * d_0%:R]mulrC.
Qed.

Theorem logarithm_amplifies_less_over_layers d_0 d L : (0 < d_0 < d)%N -> (0 < L)%N ->
  1 < (log d.+1%:R / log d_0.+1%:R) ^+ L < (d%:R / d_0%:R) ^+ L.
Proof.
move=> dd L0; have /andP[one less] := logarithm_amplifies_less dd.
have pos := lt_trans ltr01 one.
by rewrite exprn_egt1 // (ltr_expn2r _ (ltW pos) less) -lt0n L0.
Qed.
End Logarithm.

Section Layers.
Variables (R : fieldType) (V : finType) (neighbours : V -> seq V) (d : nat) (S_d : R).
Hypothesis regular : forall i, size (neighbours i) = d.
Hypothesis d_nonzero : d%:R != 0 :> R.

(* One layer with the mean aggregator and the scaler's value S_d = S(d); no weights. *)
Definition layer (x : V -> R) (i : V) : R := S_d * ((\sum_(j <- neighbours i) x j) / (size (neighbours i))%:R).

Theorem layers_amplify L (c : R) i : iter L layer (fun=> c) i = S_d ^+ L * c.
Proof.
elim: L i => [|L IHL] i; first by rewrite expr0 mul1r.
rewrite /= /layer (eq_bigr (fun=> S_d ^+ L * c)) => [|j _]; last exact: IHL.
by rewrite big_const_seq count_predT iter_addr addr0 -mulr_natr regular mulfK // exprS mulrA.
Qed.
End Layers.

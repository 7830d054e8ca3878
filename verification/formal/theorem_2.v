(* Theorem 2: "The mean aggregation composed with any scaling linear to an injective function on the neighbourhood size can
   generate injective functions on bounded multisets of countable elements."

   In symbols, as the proof has it: Z is an injection of the feature space χ into the naturals, N > |X|,
     f(x) = N^(-Z(x)) + K,   h(X) = s(|X|) E[f(x)],   K > 1/(γ - 1),   γ = min { s(i)/s(j) : s(i) > s(j) };
   then h(X) = h(Y) only if X = Y.

   Formalised here, over every real field, for sizes 1 … B (the empty multiset has no mean):
     digits_unique, exponents_unique   "the Z(j)-th digit i after the decimal point in the base N representation": sums of
                                       fewer than N powers of N determine their exponents;
     size_from_h                       "the value of |X| can be uniquely inferred from the value of h(X)";
     h_injective                       the proof's h is injective. γ is as repaired: over s(i) > s(j), since with the
                                       printed ≥ it would be 1 and no K would do;
     theorem_2                         the statement: for every countable χ, every B and every s that is injective on
                                       1 … B there are b and f such that (s + b)(|X|) E[f] is injective. The shift b is
                                       the proof's own, and what "linear to" has to mean;
     theorem_2_positive                no shift is needed where s is positive, as the paper's scalers are;
     sum_injective                     Xu et al.'s sum is the case s(d) = d.
   Z may take the value 0 here, so f(x) lies in (K, K + 1], which is all that the proof uses; Z(x) ∈ [1, N], as printed,
   would bound the number of features. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

Lemma digits_unique N m (c d : nat -> nat) :
  (forall i, c i < N) -> (forall i, d i < N) ->
  \sum_(i < m) c i * N ^ i = \sum_(i < m) d i * N ^ i -> forall i, i < m -> c i = d i.
Proof.
move=> cN dN; elim: m c d cN dN => [|m IHm] c d cN dN //.
rewrite !big_ord_recl !expn0 !muln1.
have shift (f : nat -> nat) : \sum_(i < m) f (bump 0 i) * N ^ bump 0 i = (\sum_(i < m) f i.+1 * N ^ i) * N.
  by rewrite big_distrl /=; apply: eq_bigr => i _; rewrite /bump /= add1n expnS mulnCA mulnC -mulnA mulnC.
rewrite !shift /= => E.
have N0 : 0 < N by apply: leq_ltn_trans (cN 0).
have E0 : c 0 = d 0.
  by move: (congr1 (modn^~ N) E); rewrite /= ![_ + _ * N]addnC !modnMDl !modn_small.
move: E; rewrite E0 => /addnI /eqP; rewrite eqn_pmul2r // => /eqP E [|i] // im.
exact: (IHm (fun i => c i.+1) (fun i => d i.+1) _ _ E).
Qed.

Lemma sum_by_count N m (u : seq nat) : all (fun e => e < m) u ->
  \sum_(e <- u) N ^ e = \sum_(i < m) count_mem (i : nat) u * N ^ i.
Proof.
elim: u => [|x u IHu] /=; first by move=> _; rewrite big_nil big1.
case/andP => xm /IHu E; rewrite big_cons E (eq_bigr (fun i : 'I_m => (x == i) * N ^ i + count_mem (i : nat) u * N ^ i)).
  rewrite big_split /=; congr (_ + _); rewrite (bigD1 (Ordinal xm)) //= eqxx mul1n big1 ?addn0 // => i ix.
  by rewrite -[x == i]/(val (Ordinal xm) == val i) val_eqE eq_sym (negPf ix).
by move=> i _; rewrite mulnDl.
Qed.

Lemma exponents_unique N (u v : seq nat) : size u < N -> size v < N ->
  \sum_(e <- u) N ^ e = \sum_(e <- v) N ^ e -> perm_eq u v.
Proof.
move=> uN vN; set m := (\max_(e <- u ++ v) e).+1.
have ltm e : e \in u ++ v -> e < m by move=> ein; rewrite ltnS (big_rem e) //= leq_maxl.
rewrite !(@sum_by_count N m); try by apply/allP => e ein; apply: ltm; rewrite mem_cat ein ?orbT.
have cN (w : seq nat) : size w < N -> forall i, count_mem i w < N.
  by move=> wN i; apply: leq_ltn_trans (count_size _ _) wN.
move/(@digits_unique N m (fun i => count_mem i u) (fun i => count_mem i v) (cN _ uN) (cN _ vN)) => E.
apply/allP => e ein; apply/eqP; exact: E (ltm _ ein).
Qed.

Local Open Scope ring_scope.

Section Theorem2.
Variables (R : realFieldType) (chi : eqType) (Z : chi -> nat).
Hypothesis Z_inj : injective Z.
Variables (B N : nat) (s : nat -> R) (K : R).
Hypothesis BN : (B < N)%N.
Hypothesis s_pos : forall i, (0 < i <= B)%N -> 0 < s i.
Hypothesis s_inj : forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s i = s j -> i = j.
Hypothesis K_big : forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s j < s i -> (s i / s j - 1)^-1 < K.

Definition f (x : chi) : R := (N%:R ^+ Z x)^-1 + K.
Definition h (X : seq chi) : R := s (size X) * ((\sum_(x <- X) f x) / (size X)%:R).

Let code (X : seq chi) : R := \sum_(x <- X) (N%:R ^+ Z x)^-1.

Lemma N_gt0 : (0 < N)%N. Proof. exact: leq_ltn_trans BN. Qed.

Lemma term_bounds x : 0 <= ((N%:R ^+ Z x)^-1 : R) <= 1.
Proof.
rewrite invr_ge0 exprn_ge0 ?ler0n //= invf_le1 ?exprn_gt0 ?ltr0n ?N_gt0 //.
by rewrite exprn_ege1 // ler1n N_gt0.
Qed.

Lemma hE X : (0 < size X)%N -> h X = s (size X) * (code X / (size X)%:R + K).
Proof.
move=> X0; rewrite /h /f big_split /= mulrDl big_const_seq count_predT iter_addr addr0.
by rewrite -[K *+ _]mulr_natr mulfK // pnatr_eq0 -lt0n.
Qed.

Lemma mean_bounds X : (0 < size X)%N -> 0 <= code X / (size X)%:R <= 1.
Proof.
move=> X0; have n0 : 0 < (size X)%:R :> R by rewrite ltr0n.
rewrite ler_pdivr_mulr // mul1r divr_ge0 ?ler0n ?sumr_ge0 //= => [|x _]; last by case/andP: (term_bounds x).
rewrite -[(size X)%:R]addr0 -iter_addr -count_predT -big_const_seq; apply: ler_sum => x _.
by case/andP: (term_bounds x).
Qed.

Lemma size_from_h X Y : (0 < size X <= B)%N -> (0 < size Y <= B)%N -> s (size Y) < s (size X) -> h X <> h Y.
Proof.
move=> sX sY lt; case/andP: (sX) => X0 _; case/andP: (sY) => Y0 _; rewrite !hE //.
have [/andP[mX _] /andP[_ mY]] := (mean_bounds X0, mean_bounds Y0).
have pX := s_pos sX; have pY := s_pos sY.
have big : s (size Y) * (1 + K) < s (size X) * K.
  have := K_big sX sY lt; rewrite -div1r ltr_pdivr_mulr ?subr_gt0 ?ltr_pdivl_mulr ?mul1r //.
  rewrite -[1 < _](ltr_pmul2l pY) mulr1 mulrCA mulrBr mulr1 [s (size Y) * (s (size X) / _)]mulrC divfK ?lt0r_neq0 // mulrBr ltr_subr_addr.
  by rewrite [K * s (size X)]mulrC [K * s _]mulrC mulrDr mulr1.
move=> E; move: big; rewrite ltNge => /negP; apply.
apply: (@le_trans _ _ (s (size X) * (code X / (size X)%:R + K))).
  by rewrite ler_pmul2l // ler_addr.
by rewrite E ler_pmul2l // ler_add2r.
Qed.

Theorem h_injective X Y : (0 < size X <= B)%N -> (0 < size Y <= B)%N -> h X = h Y -> perm_eq X Y.
Proof.
move=> sX sY E.
have sz : size X = size Y.
  apply: s_inj => //; case: (ltgtP (s (size X)) (s (size Y))) => // lt.
    by case: (size_from_h sY sX lt).
  by case: (size_from_h sX sY lt).
case/andP: (sX) => X0 XB; move: E; rewrite !hE -?sz // => /(mulfI (lt0r_neq0 (s_pos sX))) /addIr.
move/(mulIf (invr_neq0 _)); rewrite pnatr_eq0 -lt0n X0 => /(_ isT) E.
set D := \max_(x <- X ++ Y) Z x.
have leD x : x \in X ++ Y -> (Z x <= D)%N by move=> xin; rewrite /D (big_rem x) //= leq_maxl.
have N0 : N%:R != 0 :> R by rewrite pnatr_eq0 -lt0n N_gt0.
have nat_code W : {subset W <= X ++ Y} -> N%:R ^+ D * code W = (\sum_(e <- [seq (D - Z x)%N | x <- W]) (N ^ e))%N%:R.
  move=> sub; rewrite /code big_distrr /= big_map natr_sum; apply: eq_big_seq => x /sub /leD le.
  by rewrite natrX -{1}(subnK le) exprD mulfK // expf_neq0.
have {E} : (\sum_(e <- [seq (D - Z x)%N | x <- X]) (N ^ e) = \sum_(e <- [seq (D - Z x)%N | x <- Y]) (N ^ e))%N.
  apply/eqP; rewrite -(eqr_nat R) -!nat_code ?E // => x xin; by rewrite mem_cat xin ?orbT.
move/exponents_unique; rewrite !size_map -sz => /(_ (leq_ltn_trans XB BN) (leq_ltn_trans XB BN)).
move/(perm_map (fun e => (D - e)%N)); rewrite -!map_comp => P.
apply: (perm_map_inj Z_inj).
have back W : {subset W <= X ++ Y} -> [seq Z x | x <- W] = [seq ((fun e => (D - e)%N) \o (fun x => (D - Z x)%N)) x | x <- W].
  by move=> sub; apply/eq_in_map => x /sub /leD le /=; rewrite subKn.
by rewrite !back // => x xin; rewrite mem_cat xin ?orbT.
Qed.
End Theorem2.

Section AnyCountableSpace.
Variables (R : realFieldType) (chi : countType) (B : nat).

(* An offset K > 1/(s(i)/s(j) - 1) for all i and j: one more than the sum of all these numbers. *)
Lemma offset_exists (s : nat -> R) : exists K : R,
  forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s j < s i -> (s i / s j - 1)^-1 < K.
Proof.
pose v i j : R := `|(s i / s j - 1)^-1|.
exists (\sum_(i < B.+1) \sum_(j < B.+1) v i j + 1).
move=> i j /andP[_ iB] /andP[_ jB] _; apply: (@le_lt_trans _ _ (v i j)); first exact: ler_norm.
rewrite -[v i j]addr0; apply: ler_lt_add; last exact: ltr01.
rewrite (bigD1 (Ordinal (iB : i < B.+1)%N)) //= (bigD1 (Ordinal (jB : j < B.+1)%N)) //= -addrA ler_addl addr_ge0 //.
  by rewrite sumr_ge0 // => k _; apply: normr_ge0.
by rewrite sumr_ge0 // => k _; rewrite sumr_ge0 // => l _; apply: normr_ge0.
Qed.

Definition scaled_mean (s : nat -> R) (f : chi -> R) (X : seq chi) : R :=
  s (size X) * ((\sum_(x <- X) f x) / (size X)%:R).

Definition injective_up_to_B (h : seq chi -> R) :=
  forall X Y, (0 < size X <= B)%N -> (0 < size Y <= B)%N -> h X = h Y -> perm_eq X Y.

Theorem theorem_2_positive (s : nat -> R) :
  (forall i, (0 < i <= B)%N -> 0 < s i) ->
  (forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s i = s j -> i = j) ->
  exists f : chi -> R, injective_up_to_B (scaled_mean s f).
Proof.
move=> s_pos s_inj; have [K K_big] := offset_exists s.
by exists (f pickle B.+1 K) => X Y; apply: (h_injective (pcan_inj (@pickleK chi)) (ltnSn B) s_pos s_inj K_big).
Qed.

Theorem theorem_2 (s : nat -> R) :
  (forall i j, (0 < i <= B)%N -> (0 < j <= B)%N -> s i = s j -> i = j) ->
  exists b : R, exists f : chi -> R, injective_up_to_B (scaled_mean (fun d => s d + b) f).
Proof.
move=> s_inj; pose b : R := \sum_(i < B.+1) `|s i| + 1; exists b.
apply: theorem_2_positive => [i /andP[_ iB]|i j iB jB /addIr]; last exact: s_inj.
rewrite addrA ltr_paddl // ?ltr01 // (bigD1 (Ordinal (iB : i < B.+1)%N)) //= addrA addr_ge0 ?sumr_ge0 //.
by rewrite -ler_subl_addl sub0r -normrN ler_norm.
Qed.

Theorem sum_injective : exists f : chi -> R, injective_up_to_B (fun X => \sum_(x <- X) f x).
Proof.
have [||f H] := @theorem_2_positive (fun d => d%:R).
- by move=> i /andP[i0 _]; rewrite ltr0n.
- by move=> i j _ _ /eqP; rewrite eqr_nat => /eqP.
exists f => X Y X0 Y0 E; apply: H => //; rewrite /scaled_mean.
have n0 Z : (0 < size Z <= B)%N -> (size Z)%:R != 0 :> R by case/andP => Z0 _; rewrite pnatr_eq0 -lt0n.
by rewrite ![_%:R * (_ / _)]mulrC !divfK ?n0.
Qed.
End AnyCountableSpace.

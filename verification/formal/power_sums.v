(* Power sums and multisets: the algebra behind Proposition 1.

   The paper (proof of Proposition 1): "all the symmetric power sums p_k = Σ r_i^k (k ≤ n) are uniquely determined by the
   moments", hence the elementary symmetric sums e_k (Newton's identities), hence the coefficients of
   P(x) = Π (x - r_i) (Vieta's formulas), hence its roots R.

   Formalised here, for every n and over every integral domain of characteristic 0 (ℤ, ℚ and ℝ among them):
     newton_identities             X^m P' = P · Σ_(k<m) p_k X^(m-1-k) + A with deg A < n: all of Newton's identities, as one
                                   identity of polynomials, whose coefficients are the a_i of Vieta's formulas;
     polynomial_determines_roots   one P has one multiset of roots. This is unique factorisation, and what is used where
                                   the paper cites the fundamental theorem of algebra;
     power_sums_determine          p_1 … p_n determine the multiset;
     one_kind_suffices             so the mean alone does, if it is taken of the messages x, x², …, x^n: Theorem 1 counts
                                   real outputs, not kinds of aggregators;
     order_statistics_determine    the note after Theorem 1: n aggregators are sufficient, the k-th smallest elements.

   A multiset is a sequence up to permutation (perm_eq). *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section PowerSums.
Variable R : idomainType.
Implicit Types s t : seq R.

Definition psum s k := \sum_(x <- s) x ^+ k.
Definition poly_of s : {poly R} := \prod_(x <- s) ('X - x%:P).

Lemma psum0 s : psum s 0 = (size s)%:R.
Proof. by rewrite /psum (eq_bigr (fun=> 1)) // big_const_seq count_predT iter_addr addr0. Qed.

(* The last step of the paper's proof: P determines R. *)
Lemma polynomial_determines_roots s t : poly_of s = poly_of t -> perm_eq s t.
Proof.
elim: s t => [|x s IHs] t.
  rewrite /poly_of big_nil => /(congr1 (fun p : {poly R} => size p)).
  by rewrite size_poly1 size_prod_XsubC => -[] /esym/size0nil->.
move=> E; have xt : x \in t.
  by rewrite -root_prod_XsubC -/(poly_of t) -E /poly_of big_cons rootM root_XsubC eqxx.
have Pt := perm_to_rem xt; rewrite perm_sym (permPl Pt) perm_cons perm_sym.
apply: IHs; apply: (@mulfI _ ('X - x%:P)); first by rewrite polyXsubC_eq0.
have -> : ('X - x%:P) * poly_of s = poly_of (x :: s) by rewrite /poly_of big_cons.
by rewrite E /poly_of (perm_big _ Pt) big_cons.
Qed.

(* Newton's identities: P' / P = Σ 1/(X - r_i) = Σ_k p_k X^(-k-1), cleared of its denominators and cut off at m. *)
Lemma newton_identities s m :
  exists2 A : {poly R}, (size A <= size s)%N &
    'X^m * (poly_of s)^`() = poly_of s * (\sum_(k < m) (psum s k)%:P * 'X^(m.-1 - k)) + A.
Proof.
elim: s => [|x s [A szA IHs]].
  by exists 0; rewrite ?size_poly0 // /poly_of big_nil derivE mulr0 addr0 big1 ?mulr0 // => k _;
     rewrite /psum big_nil polyC0 mul0r.
exists ((x ^+ m)%:P * poly_of s + ('X - x%:P) * A).
  rewrite (leq_trans (size_add _ _)) // geq_max; apply/andP; split.
    by rewrite mul_polyC (leq_trans (size_scale_leq _ _)) // size_prod_XsubC.
  have [->|A0] := eqVneq A 0; first by rewrite mulr0 size_poly0.
  by rewrite mulrC size_Mmonic ?monicXsubC // size_XsubC addn2.
have -> : poly_of (x :: s) = ('X - x%:P) * poly_of s by rewrite /poly_of big_cons.
rewrite derivM derivXsubC mul1r mulrDr mulrCA IHs.
have -> : \sum_(k < m) (psum (x :: s) k)%:P * 'X^(m.-1 - k) =
    \sum_(k < m) (x ^+ k)%:P * 'X^(m.-1 - k) + \sum_(k < m) (psum s k)%:P * 'X^(m.-1 - k) :> {poly R}.
  by rewrite -big_split /=; apply: eq_bigr => k _; rewrite /psum big_cons polyCD mulrDl.
set G := \sum_(k < m) (x ^+ k)%:P * 'X^(m.-1 - k).
have EX : 'X^m = ('X - x%:P) * G + (x ^+ m)%:P.
  rewrite polyC_exp; apply/eqP; rewrite -subr_eq subrXX; apply/eqP; congr (_ * _).
  by apply: eq_bigr => k _; rewrite polyC_exp mulrC.
set S := \sum_(k < m) _; move: (x ^+ m)%:P EX => c EX.
move: (poly_of s) (x%:P) => q y in EX *.
by rewrite EX; ring.
Qed.

Lemma size_deriv_le (p : {poly R}) a : (size p <= a.+1)%N -> (size p^`() <= a)%N.
Proof. by move=> sp; apply/leq_sizeP=> i ai; rewrite coef_deriv nth_default ?mul0rn // (leq_trans sp). Qed.

Lemma coefM_top (p q : {poly R}) a b :
  (size p <= a.+1)%N -> (size q <= b.+1)%N -> (p * q)`_(a + b) = p`_a * q`_b.
Proof.
move=> sp sq; rewrite coefM (bigD1 (inord a)) //= inordK ?ltnS ?leq_addr // addKn big1 ?addr0 // => i.
rewrite -val_eqE /= inordK ?ltnS ?leq_addr // => ia.
have [lt|le] := ltnP i a.
  by rewrite [q`__]nth_default ?mulr0 // (leq_trans sq) // -addnBAC ?(ltnW lt) // -add1n leq_add2r subn_gt0.
by rewrite [p`__]nth_default ?mul0r // (leq_trans sp) // ltn_neqAle eq_sym ia.
Qed.

Hypothesis char0 : [char R] =i pred0.

(* If P and Q, monic of degree n, have equal p_0 … p_n, then Newton's identities make W = P' Q - P Q' small; but with
   D = P - Q ≠ 0 of degree d < n, the coefficient of W at d + n - 1 is (d - n) times D's leading one, which is not 0. *)
Theorem power_sums_determine s t :
  size s = size t -> (forall k, (0 < k <= size s)%N -> psum s k = psum t k) -> perm_eq s t.
Proof.
move=> sz eqp; apply: polynomial_determines_roots; set n := size s in sz eqp.
set P := poly_of s; set Q := poly_of t.
have szP : size P = n.+1 by rewrite size_prod_XsubC.
have szQ : size Q = n.+1 by rewrite size_prod_XsubC -sz.
have [A sA EA] := newton_identities s n.+1; have [B sB EB] := newton_identities t n.+1.
have ES : \sum_(k < n.+1) (psum s k)%:P * 'X^(n.+1.-1 - k) = \sum_(k < n.+1) (psum t k)%:P * 'X^(n.+1.-1 - k).
  apply: eq_bigr => -[[|k] kn] _ /=; last by rewrite eqp.
  by rewrite !psum0 -sz.
set W := P^`() * Q - P * Q^`().
have szW : (size W <= n.-1)%N.
  have [->|W0] := eqVneq W 0; first by rewrite size_poly0.
  have EW : 'X^(n.+1) * W = A * Q - B * P.
    rewrite /W mulrBr mulrA EA mulrCA EB ES -/P -/Q.
    by move: (\sum_(k < _) _) => S; ring.
  have: (size ('X^(n.+1) * W)%R <= n + n)%N.
    rewrite EW (leq_trans (size_add _ _)) // geq_max size_opp; apply/andP; split.
      by rewrite (leq_trans (size_mul_leq _ _)) // szQ addnS /= leq_add2r.
    by rewrite (leq_trans (size_mul_leq _ _)) // szP addnS /= leq_add2r sz.
  by rewrite size_monicM ?monicXn // size_polyXn addSn /= addSn -addnS leq_add2l; case: (n).
set D := P - Q; have [D0|D0] := eqVneq D 0; first by apply/eqP; rewrite -subr_eq0 -/D D0.
have EWD : W = D^`() * Q - D * Q^`() by rewrite /W /D derivB; ring.
have szD : (size D <= n)%N.
  have := monic_prod_XsubC s predT id; have := monic_prod_XsubC t predT id.
  rewrite -/(poly_of s) -/(poly_of t) -/P -/Q !monicE /lead_coef szP szQ /= => /eqP lQ /eqP lP.
  apply/leq_sizeP => j; rewrite leq_eqVlt => /predU1P[<-|ltj]; first by rewrite coefB lP lQ subrr.
  by rewrite coefB !nth_default ?subrr // ?szP ?szQ.
have [n0|ngt0] := posnP n; first by move: szD; rewrite n0 leqn0 size_poly_eq0 (negPf D0).
have {}sDgt0 : (0 < size D)%N by rewrite lt0n size_poly_eq0.
set d := (size D).-1; have sdE : size D = d.+1 by rewrite prednK.
have lQn : Q`_n = 1.
  by have := monic_prod_XsubC t predT id; rewrite -/(poly_of t) -/Q monicE /lead_coef szQ /= => /eqP.
have dQ : Q^`()`_n.-1 = n%:R by rewrite coef_deriv prednK // lQn.
have sdQ : (size Q^`() <= n.-1.+1)%N by rewrite prednK // size_deriv_le // szQ.
have top : W`_(d + n.-1) = (d%:R - n%:R) * lead_coef D.
  rewrite EWD coefB [in X in _ - X]coefM_top ?sdE // dQ mulrBl [n%:R * _]mulrC; congr (_ - _).
  have [d0|dgt0] := posnP d.
    have -> : D^`() = 0.
      by apply/polyP=> i; rewrite coef_deriv coef0 nth_default ?mul0rn // sdE d0.
    by rewrite mul0r coef0 d0 mul0r.
  rewrite -[in LHS](prednK ngt0) -[in LHS](prednK dgt0).
  have -> : (d.-1.+1 + n.-1.+1.-1 = d.-1 + n)%N by rewrite /= -[in RHS](prednK ngt0) addSnnS.
  rewrite coefM_top ?szQ // ?lQn ?mulr1; last by rewrite prednK // size_deriv_le // sdE.
  by rewrite coef_deriv prednK // mulr_natl.
have : W`_(d + n.-1) = 0 by apply/leq_sizeP: (d + n.-1)%N (leq_addl d n.-1); apply: szW.
rewrite top => /eqP; rewrite mulf_eq0 lead_coef_eq0 (negPf D0) orbF -opprB oppr_eq0 -natrB; last first.
  by rewrite /d -ltnS prednK // ltnW.
rewrite (charf0P _).1 // subn_eq0 leqNgt.
by rewrite /d prednK // szD.
Qed.
End PowerSums.

Section OneKind.
Variable F : fieldType.
Hypothesis char0 : [char F] =i pred0.

(* The mean of the messages m(x), x in the neighbourhood. *)
Definition mean_of (m : F -> F) (s : seq F) := (\sum_(x <- s) m x) / (size s)%:R.

Theorem one_kind_suffices s t : size s = size t ->
  (forall k, (0 < k <= size s)%N -> mean_of (fun x => x ^+ k) s = mean_of (fun x => x ^+ k) t) -> perm_eq s t.
Proof.
move=> sz E; apply: power_sums_determine => // k kn; have := E k kn; rewrite /mean_of -sz.
by apply/mulIf; rewrite invr_eq0 (charf0P _).1 // -lt0n; case/andP: kn => k0 kn; apply: leq_trans kn.
Qed.
End OneKind.

Section OrderStatistics.
Variable R : realDomainType.

(* The k-th smallest item of X, counted from 0. *)
Definition kth_smallest k (s : seq R) := nth 0 (sort <=%R s) k.

Theorem order_statistics_determine (s t : seq R) : size s = size t ->
  (forall k, (k < size s)%N -> kth_smallest k s = kth_smallest k t) -> perm_eq s t.
Proof.
move=> sz E; rewrite -(perm_sort <=%R s) perm_sym -(perm_sort <=%R t) perm_sym.
suff -> : sort <=%R s = sort <=%R t by [].
by apply: (@eq_from_nth _ 0); rewrite !size_sort // => k /E.
Qed.
End OrderStatistics.

(* Proposition 1's number of moments is sharp for every width: however many ReLU networks the messages are, the first n - 1
   moments of all of them do not tell apart all multisets of n reals.

   Formalised here, over every real closed field, for every n ≥ 1 and every finite list of nets (piecewise_linear.v):
     moments_of_networks_collide   two different multisets of n elements on which Σ f(x)^k agrees for every net f and every
                                   k < n.
   The pair of theorem_1_moments.v is moved into an interval on which all the nets are affine, and power sums of an affine
   image come from power sums. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
Require Import power_sums proposition_1 theorem_1_moments piecewise_linear.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Networks.
Variable R : rcfType.

Lemma psum_affine (X Y : seq R) (p q : R) m : (forall k, (k < m)%N -> psum X k = psum Y k) ->
  forall k, (k < m)%N -> psum [seq p * x + q | x <- X] k = psum [seq p * x + q | x <- Y] k.
Proof.
move=> E k km; have expand (Z : seq R) : psum [seq p * x + q | x <- Z] k =
    \sum_(i < k.+1) (p ^+ (k - i) * q ^+ i *+ 'C(k, i)) * psum Z (k - i).
  rewrite /psum big_map (eq_bigr (fun x => \sum_(i < k.+1) (p ^+ (k - i) * q ^+ i *+ 'C(k, i)) * x ^+ (k - i))) => [|x _].
    by rewrite exchange_big /=; apply: eq_bigr => i _; rewrite big_distrr.
  rewrite exprDn; apply: eq_bigr => i _; rewrite exprMn mulrnAl; congr (_ *+ _).
  by rewrite mulrAC.
by rewrite !expand; apply: eq_bigr => i _; rewrite E // (leq_ltn_trans (leq_subr _ _)).
Qed.

Lemma bounded (X : seq R) : exists2 c : R, 0 < c & forall x, x \in X -> `|x| < c.
Proof.
exists (\sum_(x <- X) `|x| + 1); first by rewrite ltr_paddl ?ltr01 // sumr_ge0.
move=> x xX; rewrite (big_rem x) //= -addrA ltr_addl ltr_paddl ?ltr01 // sumr_ge0 //.
Qed.

Theorem moments_of_networks_collide (fs : seq (net R)) n : (0 < n)%N ->
  exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq X Y & forall j k, (j < size fs)%N -> (k < n)%N ->
    psum (map (eval (nth (@Input R) fs j)) X) k = psum (map (eval (nth (@Input R) fs j)) Y) k].
Proof.
move=> n0; have [X [Y [sX sY ne E]]] := n_minus_1_power_sums_collide R n0.
have [a [b [_ ab _ A]]] := affine_piece fs (@ltr01 R).
have [c c0 bd] := bounded (X ++ Y).
pose m := (a + b) / 2%:R; pose e := (b - a) / 2%:R / c.
have h0 : 0 < (b - a) / 2%:R by rewrite divr_gt0 ?subr_gt0 ?ltr0n.
have e0 : 0 < e by rewrite divr_gt0.
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
have am : a = m - (b - a) / 2%:R by apply: (mulIf two); rewrite mulrBl !divfK //; ring.
have bm : b = m + (b - a) / 2%:R by apply: (mulIf two); rewrite mulrDl !divfK //; ring.
have tab x : x \in X ++ Y -> a <= e * x + m <= b.
  move=> /bd lt; have : `|e * x| <= (b - a) / 2%:R.
    rewrite normrM (gtr0_norm e0) -[X in _ <= X](divfK (lt0r_neq0 c0)) ler_pmul2l //; exact: ltW.
  move: am bm; move: ((b - a) / 2%:R) => w -> ->; rewrite ler_norml => /andP[lo hi].
  by rewrite [m - w]addrC [m + w]addrC !ler_add2r lo hi.
exists [seq e * x + m | x <- X], [seq e * x + m | x <- Y]; split; rewrite ?size_map //.
  apply: contra ne; apply: perm_map_inj => x y /addIr; exact: mulfI (lt0r_neq0 e0) _ _.
move=> j k jn kn; have [p [q F]] := A j jn.
have im Z : {subset Z <= X ++ Y} ->
    map (eval (nth (@Input R) fs j)) [seq e * x + m | x <- Z] = [seq (p * e) * x + (p * m + q) | x <- Z].
  by move=> sub; rewrite -map_comp; apply/eq_in_map => x /sub /tab xab /=; rewrite F //; ring.
rewrite !im; first exact: psum_affine E k kn.
  by move=> x xY; rewrite mem_cat xY orbT.
by move=> x xX; rewrite mem_cat xX.
Qed.
End Networks.

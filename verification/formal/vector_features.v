(* Vector features: Theorem 1 is about scalars, and the features of a node are vectors of D numbers.

   A ReLU network R^D -> R, restricted to a line o + t e, is a ReLU network of t. So what piecewise_linear.v proves of scalars
   holds for vectors, on every line of the feature space.

   Formalised here, over every real field, for every D, every line (o any point, e not 0) and every finite list of networks:
     relu_sum_of_vectors_not_injective    for every n ≥ 2 two different multisets of n vectors of the line with the same sums of
                                          every network;
     pna_layer_of_vectors_not_injective   for every n ≥ 5 two different multisets of n vectors of the line that a layer cannot
                                          tell apart, whatever the scalers are and whatever function U is applied.
   Not formalised: that fewer than nD continuous aggregators, of any form, collide on n vectors of R^D. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import piecewise_linear.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section VectorFeatures.
Variables (R : realFieldType) (D : nat).

(* Functions R^D -> R that are built from the coordinates and constants with +, scalar multiples and ReLU. *)
Inductive vector_net :=
  Coordinate of 'I_D | VConst of R | VAdd of vector_net & vector_net | VScale of R & vector_net | VRelu of vector_net.

Fixpoint veval (f : vector_net) (x : 'rV[R]_D) : R :=
  match f with
  | Coordinate i => x 0 i
  | VConst c => c
  | VAdd g h => veval g x + veval h x
  | VScale c g => c * veval g x
  | VRelu g => Num.max 0 (veval g x)
  end.


Fixpoint along (o e : 'rV[R]_D) (f : vector_net) : net R :=
  match f with
  | Coordinate i => Add (Const (o 0 i)) (Scale (e 0 i) (Input R))
  | VConst c => Const c
  | VAdd g h => Add (along o e g) (along o e h)
  | VScale c g => Scale c (along o e g)
  | VRelu g => Relu (along o e g)
  end.

Lemma eval_along o e f t : eval (along o e f) t = veval f (o + t *: e).
Proof. by elim: f => [i|c|g IHg h IHh|c g IHg|g IHg] //=; rewrite ?IHg ?IHh // !mxE mulrC. Qed.

Variables o e : 'rV[R]_D.
Hypothesis e0 : e != 0.
Definition point (t : R) : 'rV[R]_D := o + t *: e.

Lemma point_inj : injective point.
Proof.
move=> s t /addrI /eqP; rewrite -subr_eq0 -scalerBl scaler_eq0 (negPf e0) orbF subr_eq0.
by move/eqP.
Qed.

Lemma evals_along f X : [seq veval f x | x <- map point X] = [seq eval (along o e f) t | t <- X].
Proof. by rewrite -map_comp; apply: eq_map => t /=; rewrite eval_along. Qed.

Theorem relu_sum_of_vectors_not_injective (fs : seq vector_net) (n : nat) : (1 < n)%N ->
  exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq (map point X) (map point Y) &
    forall f, List.In f fs -> \sum_(x <- map point X) veval f x = \sum_(y <- map point Y) veval f y].
Proof.
move=> n2; have [X [Y [sX sY ne E]]] := relu_sum_not_injective [seq along o e f | f <- fs] n2.
exists X, Y; split=> //; first by apply: contra ne => /(perm_map_inj point_inj).
move=> f; elim: fs E => //= g fs IH E [<-|]; last by apply: IH => k kn; exact: (E k.+1).
by have := E 0%N isT; rewrite /= !big_map; under eq_bigr do rewrite eval_along; under [in RHS]eq_bigr do rewrite eval_along.
Qed.

Theorem pna_layer_of_vectors_not_injective (fs : seq vector_net) (n : nat) (T : Type) (U : seq (R * R * R * R) -> T)
    (S : seq (nat -> R)) :
  (4 < n)%N -> exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq (map point X) (map point Y) &
    let layer Z := U [seq (let V := map (veval f) Z in let c := s (size Z) in
      (c * mean V, c * variance V, c * maximum V, c * minimum V)) | f <- fs, s <- S] in
    layer (map point X) = layer (map point Y)].
Proof.
move=> n5; have [X [Y [sX sY ne E]]] := pna_layer_not_injective [seq along o e f | f <- fs] U S n5.
exists X, Y; split=> //; first by apply: contra ne => /(perm_map_inj point_inj).
have same Z : [seq (let V := map (veval f) (map point Z) in let c := s (size (map point Z)) in
      (c * mean V, c * variance V, c * maximum V, c * minimum V)) | f <- fs, s <- S] =
  [seq (let V := map (eval f) Z in let c := s (size Z) in
      (c * mean V, c * variance V, c * maximum V, c * minimum V)) | f <- [seq along o e f | f <- fs], s <- S].
  by elim: fs {E} => //= f fs ->; congr (_ ++ _); apply: eq_map => s; rewrite evals_along size_map.
by rewrite /= !same; exact: E.
Qed.
End VectorFeatures.

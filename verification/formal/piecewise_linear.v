(* What Theorem 1 does not say: with piecewise linear messages no number of channels is enough.

   Theorem 1 forbids fewer than n outputs, and Proposition 1 shows n that suffice. PNA has few aggregators and many
   messages, the channels of M, which is a linear layer or a ReLU network. Every such message is affine on some interval,
   and all of finitely many are affine on a common one. There they carry no more than x itself does.

   net is every function R -> R that is built from x and constants with +, scalar multiples and ReLU: each coordinate of a
   ReLU network of any depth and width along a line of the feature space (abs, max, min and leaky ReLU included).

   Formalised here, over every real field, for every finite list of nets:
     affine_piece              every interval has a subinterval on which all the nets are affine;
     relu_sum_not_injective    for every n ≥ 2 two different multisets of n elements with the same sums, hence means, of
                               every net;
     pna_not_injective         for every n ≥ 5 the same for mean, variance, maximum and minimum of every net;
     pna_layer_not_injective   for every n ≥ 5 two different multisets of n elements that a layer cannot tell apart, whatever
                               the scalers are and whatever function U is applied to all scaled aggregates.
   The pair is the image of {0, 0, 3, 3, 4} and {0, 1, 1, 4, 4}, with zeros added to both, inside a common affine piece. How
   wide that piece is, is not said: for a linear M it is the whole line, for a trained network see verification/piecewise_linear.py. *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp.algebra_tactics Require Import ring.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section PiecewiseLinear.
Variable R : realFieldType.

Inductive net := Input | Const of R | Add of net & net | Scale of R & net | Relu of net.

Fixpoint eval (f : net) (x : R) : R :=
  match f with
  | Input => x
  | Const c => c
  | Add g h => eval g x + eval h x
  | Scale c g => c * eval g x
  | Relu g => Num.max 0 (eval g x)
  end.

Definition affine_on (a b : R) (f : net) := exists p q : R, forall x, a <= x <= b -> eval f x = p * x + q.

Lemma affine_sub a b a' b' f : a <= a' -> b' <= b -> affine_on a b f -> affine_on a' b' f.
Proof.
move=> aa bb [p [q E]]; exists p, q => x /andP[ax xb]; apply: E.
by rewrite (le_trans aa ax) (le_trans xb bb).
Qed.

Lemma affine_piece1 f a b : a < b -> exists a' b', [/\ a <= a', a' < b', b' <= b & affine_on a' b' f].
Proof.
elim: f a b => [|c|g IHg h IHh|c g IHg|g IHg] a b ab.
- by exists a, b; split=> //; exists 1, 0 => x _ /=; rewrite mul1r addr0.
- by exists a, b; split=> //; exists 0, c => x _ /=; rewrite mul0r add0r.
- have [a1 [b1 [aa1 ab1 bb1 Ag]]] := IHg _ _ ab; have [a2 [b2 [aa2 ab2 bb2 Ah]]] := IHh _ _ ab1.
  exists a2, b2; split=> //; [exact: le_trans aa2|exact: le_trans bb1|].
  have [p [q E]] := affine_sub aa2 bb2 Ag; have [p' [q' E']] := Ah.
  by exists (p + p'), (q + q') => x xab /=; rewrite E // E' //; ring.
- have [a1 [b1 [aa1 ab1 bb1 [p [q E]]]]] := IHg _ _ ab; exists a1, b1; split=> //.
  by exists (c * p), (c * q) => x xab /=; rewrite E //; ring.
have [a1 [b1 [aa1 ab1 bb1 [p [q E]]]]] := IHg _ _ ab.
have [am mb] := midf_lt ab1; set m := (a1 + b1) / 2%:R in am mb.
have up x y : 0 <= p -> x <= y -> p * x + q <= p * y + q by move=> p0 xy; rewrite ler_add2r ler_wpmul2l.
have down x y : p <= 0 -> x <= y -> p * y + q <= p * x + q by move=> p0 xy; rewrite ler_add2r ler_wnmul2l.
have left : exists a' b', [/\ a <= a', a' < b', b' <= b & forall x, a' <= x <= b' -> a1 <= x <= b1 /\ x <= m].
  exists a1, m; split=> //; first exact: le_trans (ltW mb) bb1.
  by move=> x /andP[-> xm]; rewrite (le_trans xm (ltW mb)).
have right : exists a' b', [/\ a <= a', a' < b', b' <= b & forall x, a' <= x <= b' -> a1 <= x <= b1 /\ m <= x].
  exists m, b1; split=> //; first exact: le_trans aa1 (ltW am).
  by move=> x /andP[mx ->]; rewrite (le_trans (ltW am) mx).
have pos a' b' : a <= a' -> a' < b' -> b' <= b -> (forall x, a' <= x <= b' -> a1 <= x <= b1 /\ 0 <= p * x + q) ->
    exists a'' b'', [/\ a <= a'', a'' < b'', b'' <= b & affine_on a'' b'' (Relu g)].
  move=> h1 h2 h3 H; exists a', b'; split=> //; exists p, q => x /H[xab ge] /=.
  by rewrite E //; apply/max_idPr.
have neg a' b' : a <= a' -> a' < b' -> b' <= b -> (forall x, a' <= x <= b' -> a1 <= x <= b1 /\ p * x + q <= 0) ->
    exists a'' b'', [/\ a <= a'', a'' < b'', b'' <= b & affine_on a'' b'' (Relu g)].
  move=> h1 h2 h3 H; exists a', b'; split=> //; exists 0, 0 => x /H[xab ge] /=.
  by rewrite E // mul0r addr0; apply/max_idPl.
have [v0|/ltW v0] := leP 0 (p * m + q); have [p0|/ltW p0] := leP 0 p.
- have [a' [b' [h1 h2 h3 H]]] := right; apply: (pos a' b') => // x /H[xab mx]; split=> //.
  exact: le_trans v0 (up _ _ p0 mx).
- have [a' [b' [h1 h2 h3 H]]] := left; apply: (pos a' b') => // x /H[xab mx]; split=> //.
  exact: le_trans v0 (down _ _ p0 mx).
- have [a' [b' [h1 h2 h3 H]]] := left; apply: (neg a' b') => // x /H[xab mx]; split=> //.
  exact: le_trans (up _ _ p0 mx) v0.
- have [a' [b' [h1 h2 h3 H]]] := right; apply: (neg a' b') => // x /H[xab mx]; split=> //.
  exact: le_trans (down _ _ p0 mx) v0.
Qed.

(* Every interval has a subinterval on which all the nets are affine. *)
Lemma affine_piece (fs : seq net) a b : a < b ->
  exists a' b', [/\ a <= a', a' < b', b' <= b & forall k, (k < size fs)%N -> affine_on a' b' (nth Input fs k)].
Proof.
elim: fs a b => [|f fs IH] a b ab; first by exists a, b.
have [a1 [b1 [h1 h2 h3 A]]] := affine_piece1 f ab; have [a2 [b2 [g1 g2 g3 As]]] := IH _ _ h2.
exists a2, b2; split=> //; [exact: le_trans g1|exact: le_trans h3|].
by move=> [|k] kn //=; [exact: affine_sub A|exact: As].
Qed.

Theorem relu_sum_not_injective (fs : seq net) (n : nat) : (1 < n)%N ->
  exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq X Y &
    forall k, (k < size fs)%N -> \sum_(x <- X) eval (nth Input fs k) x = \sum_(y <- Y) eval (nth Input fs k) y].
Proof.
case: n => [|[|n]] // _; have [a [b [_ ab _ A]]] := affine_piece fs (@ltr01 R).
have [am mb] := midf_lt ab; set m := (a + b) / 2%:R in am mb.
exists [:: a, b & nseq n m], [:: m, m & nseq n m]; split; rewrite /= ?size_nseq //.
  apply/negP => /perm_mem /(_ a); rewrite !inE eqxx mem_nseq /= => /esym.
  by rewrite (lt_eqF am) /= andbF.
move=> k kn; have [p [q E]] := A k kn; rewrite !big_cons !addrA; congr (_ + _).
have two : m * 2%:R = a + b by rewrite divfK // pnatr_eq0.
rewrite !E ?lexx ?(ltW ab) ?(ltW am) ?(ltW mb) //.
have -> : p * a + q + (p * b + q) = p * (a + b) + q + q by ring.
by rewrite -two; ring.
Qed.

(* Mean, variance, maximum and minimum of a multiset. *)
Definition mean (X : seq R) := (\sum_(x <- X) x) / (size X)%:R.
Definition variance (X : seq R) := (\sum_(x <- X) (x - mean X) ^+ 2) / (size X)%:R.
Definition maximum (X : seq R) : R := foldr Num.max (head 0 X) X.
Definition minimum (X : seq R) : R := foldr Num.min (head 0 X) X.

Lemma fold_max (h v : R) X : h <= v -> {in X, forall x, x <= v} -> foldr Num.max h X <= v.
Proof.
move=> hv; elim: X => //= x X IH le; rewrite le_maxl le ?inE ?eqxx //= IH // => y yX.
by apply: le; rewrite inE yX orbT.
Qed.

Lemma fold_max_ge (h v : R) X : v \in X -> v <= foldr Num.max h X.
Proof. by elim: X => //= x X IH; rewrite inE le_maxr => /predU1P[->|/IH ->]; rewrite ?lexx ?orbT. Qed.

Lemma fold_min (h v : R) X : v <= h -> {in X, forall x, v <= x} -> v <= foldr Num.min h X.
Proof.
move=> hv; elim: X => //= x X IH le; rewrite le_minr le ?inE ?eqxx //= IH // => y yX.
by apply: le; rewrite inE yX orbT.
Qed.

Lemma fold_min_le (h v : R) X : v \in X -> foldr Num.min h X <= v.
Proof. by elim: X => //= x X IH; rewrite inE le_minl => /predU1P[->|/IH ->]; rewrite ?lexx ?orbT. Qed.

Lemma head_in (v : R) X : v \in X -> head 0 X \in X.
Proof. by case: X => //= x X _; rewrite inE eqxx. Qed.

Lemma maximumP (v : R) X : v \in X -> all (fun x => x <= v) X -> maximum X = v.
Proof.
move=> vX /allP le; apply/le_anti; rewrite /maximum fold_max ?fold_max_ge //.
by apply: le; apply: head_in vX.
Qed.

Lemma minimumP (v : R) X : v \in X -> all (fun x => v <= x) X -> minimum X = v.
Proof.
move=> vX /allP le; apply/le_anti; rewrite /minimum fold_min_le ?fold_min //.
by apply: le; apply: head_in vX.
Qed.

Definition X5 n : seq nat := [:: 0; 0; 3; 3; 4]%N ++ nseq n 0%N.
Definition Y5 n : seq nat := [:: 0; 1; 1; 4; 4]%N ++ nseq n 0%N.

Definition four_agree X Y := [/\ mean X = mean Y, variance X = variance Y, maximum X = maximum Y & minimum X = minimum Y].

Lemma affine_images_agree (p q : R) n : let im := map (fun k : nat => p * k%:R + q) in four_agree (im (X5 n)) (im (Y5 n)).
Proof.
move=> im.
have Em : mean (im (X5 n)) = mean (im (Y5 n)).
  rewrite /mean /im /X5 /Y5 !size_map /=; congr (_ / _); rewrite !big_cons.
  by move: (\sum_(_ <- _) _) => rest; ring.
have all4 (P : R -> bool) s : s = X5 n \/ s = Y5 n -> (forall k, (k <= 4)%N -> P (p * k%:R + q)) -> all P (im s).
  move=> Es H; rewrite /im all_map; apply/allP => k; case: Es => -> /=; rewrite !inE => /or4P[/eqP->|/eqP->|/eqP->|];
    try exact: H; rewrite ?mem_nseq => /or3P[/eqP->|/eqP->|/andP[_ /eqP->]]; exact: H.
have in0 s : s = X5 n \/ s = Y5 n -> p * 0%:R + q \in im s.
  by move=> Es; apply: (@map_f _ _ (fun k : nat => p * k%:R + q)); case: Es => ->; rewrite !inE eqxx.
have in4 s : s = X5 n \/ s = Y5 n -> p * 4%:R + q \in im s.
  by move=> Es; apply: (@map_f _ _ (fun k : nat => p * k%:R + q)); case: Es => ->; rewrite !inE eqxx ?orbT.
have up i j : 0 <= p -> (i <= j)%N -> p * i%:R + q <= p * j%:R + q by move=> p0 ij; rewrite ler_add2r ler_wpmul2l // ler_nat.
have down i j : p <= 0 -> (i <= j)%N -> p * j%:R + q <= p * i%:R + q by move=> p0 ij; rewrite ler_add2r ler_wnmul2l // ler_nat.
have ext s : s = X5 n \/ s = Y5 n -> (maximum (im s) = if 0 <= p then p * 4%:R + q else p * 0%:R + q) /\
    (minimum (im s) = if 0 <= p then p * 0%:R + q else p * 4%:R + q).
  move=> Es; case: ifPn => [p0|]; [|rewrite -ltNge => /ltW p0]; split;
    (apply: maximumP || apply: minimumP); rewrite ?in0 ?in4 //; apply: all4 => // k k4;
    by [apply: up | apply: down].
have [XM Xm] := ext _ (or_introl erefl); have [YM Ym] := ext _ (or_intror erefl).
split; rewrite ?XM ?Xm ?YM ?Ym //.
rewrite /variance Em; move: (mean _) => mu; rewrite /im /X5 /Y5 !size_map /=; congr (_ / _); rewrite !big_cons.
by move: (\sum_(_ <- _) _) => rest; ring.
Qed.

Theorem pna_not_injective (fs : seq net) (n : nat) : (4 < n)%N ->
  exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq X Y & forall k, (k < size fs)%N ->
    four_agree (map (eval (nth Input fs k)) X) (map (eval (nth Input fs k)) Y)].
Proof.
move=> n5; have [a [b [_ ab _ A]]] := affine_piece fs (@ltr01 R).
pose e := (b - a) / 4%:R; have e0 : 0 < e by rewrite divr_gt0 ?subr_gt0 ?ltr0n.
pose t (k : nat) := a + e * k%:R.
have tab k : (k <= 4)%N -> a <= t k <= b.
  move=> k4; rewrite ler_addl mulr_ge0 ?ler0n ?(ltW e0) //= -ler_subr_addl.
  have -> : b - a = e * 4%:R by rewrite divfK // pnatr_eq0.
  by rewrite ler_pmul2l // ler_nat.
have tinj : injective t by move=> i j /addrI /(mulfI (lt0r_neq0 e0)) /eqP; rewrite eqr_nat => /eqP.
exists (map t (X5 (n - 5))), (map t (Y5 (n - 5))); split.
- by rewrite size_map size_cat size_nseq subnKC.
- by rewrite size_map size_cat size_nseq subnKC.
- apply/negP => H; have /permP/(_ (pred1 3%N)) := perm_map_inj tinj H.
  by rewrite !count_cat /= !count_nseq.
move=> k kn; have [p [q E]] := A k kn.
have im s : (s = X5 (n - 5) \/ s = Y5 (n - 5)) ->
    map (eval (nth Input fs k)) (map t s) = map (fun i : nat => (p * e) * i%:R + (p * a + q)) s.
  move=> Es; rewrite -map_comp; apply/eq_in_map => i is_ /=.
  have i4 : (i <= 4)%N.
    case: Es is_ => ->; rewrite !inE => /or4P[/eqP->|/eqP->|/eqP->|] //;
      by rewrite ?mem_nseq => /or3P[/eqP->|/eqP->|/andP[_ /eqP->]].
  by rewrite E ?tab // /t; ring.
by rewrite !im; [exact: affine_images_agree|right|left].
Qed.

(* Whatever is computed from the scaled aggregates, by any function, agrees: no scalers and no U help. *)
Theorem pna_layer_not_injective (fs : seq net) (n : nat) (T : Type) (U : seq (R * R * R * R) -> T) (S : seq (nat -> R)) :
  (4 < n)%N -> exists X Y : seq R, [/\ size X = n, size Y = n, ~~ perm_eq X Y &
    let layer Z := U [seq (let V := map (eval f) Z in let c := s (size Z) in
      (c * mean V, c * variance V, c * maximum V, c * minimum V)) | f <- fs, s <- S] in layer X = layer Y].
Proof.
move=> n5; have [X [Y [sX sY ne E]]] := pna_not_injective fs n5; exists X, Y; split=> //=; congr U.
elim: fs E => //= f fs IH E; rewrite IH; last by move=> k kn; exact: (E k.+1).
by congr (_ ++ _); apply: eq_map => s; have [-> -> -> ->] := E 0%N isT; rewrite sX sY.
Qed.
End PiecewiseLinear.

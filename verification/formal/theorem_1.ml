(* Theorem 1: "In order to discriminate between multisets of size n whose underlying set is R, at least n aggregators are
   needed."

   In symbols: if m < n and g_1, ..., g_m are continuous functions of multisets of n reals, there are two different
   multisets X and Y with g_k(X) = g_k(Y) for all k.

   Formalised here, for every n = dimindex(:N), every m < n and all continuous functions:
     THEOREM_1_ON_THE_CONE   an aggregator "corresponds to a continuous function g : S -> R", where S is the set of tuples
                             with x_1 <= ... <= x_n (ordered);
     SORTED_IS_UNIQUE,       "notice how S is the collection of the aforementioned multisets": every vector is a
     SORTED_EXISTS           permutation of one and only one vector of S;
     THEOREM_1               the paper's statement: an aggregator is a continuous function on R^n that does not depend on
                             the order of its arguments.
   The proof puts a ball inside S, as the paper puts a sphere. Where the paper cites Borsuk-Ulam, this uses Brouwer's
   invariance of domain, which HOL Light's library proves: with n - m zeros appended, an injective f would map the open ball
   onto an open set, but its image lies in the hyperplane y_n = 0.
   Needs load.ml. *)

let ordered = new_definition
 `ordered (x:real^N) <=> !i. 1 <= i /\ i < dimindex(:N) ==> x$i <= x$(i + 1)`;;

(* x and y are one multiset: y is x in another order. *)
let same_multiset = new_definition
 `same_multiset (x:real^N) (y:real^N) <=>
    ?p. p permutes 1..dimindex(:N) /\ !i. 1 <= i /\ i <= dimindex(:N) ==> x$i = y$(p i)`;;

let aggregator = new_definition
 `aggregator (g:real^N->real) <=>
    (\x. lift(g x)) continuous_on (:real^N) /\ (!x y. same_multiset x y ==> g x = g y)`;;

(* "It is possible to define a (n-1)-sphere entirely contained within S": around (1, ..., n), of radius 1/2. *)
let BALL_IN_CONE = prove
 (`ball((lambda i. &i):real^N,&1 / &2) SUBSET {x | ordered x}`,
  REWRITE_TAC[SUBSET; IN_BALL; IN_ELIM_THM; ordered] THEN
  X_GEN_TAC `x:real^N` THEN DISCH_TAC THEN X_GEN_TAC `i:num` THEN STRIP_TAC THEN
  MP_TAC(ISPECL [`(lambda i. &i):real^N - x`; `i:num`] COMPONENT_LE_NORM) THEN
  MP_TAC(ISPECL [`(lambda i. &i):real^N - x`; `i + 1`] COMPONENT_LE_NORM) THEN
  ASM_SIMP_TAC[VECTOR_SUB_COMPONENT; LAMBDA_BETA; ARITH_RULE `i < n ==> i <= n /\ i + 1 <= n`;
               ARITH_RULE `1 <= i + 1`] THEN
  RULE_ASSUM_TAC(REWRITE_RULE[dist]) THEN
  REWRITE_TAC[GSYM REAL_OF_NUM_ADD] THEN ASM_REAL_ARITH_TAC);;

(* Brouwer's invariance of domain: the library's theorem on the Euclidean space of functions num -> real, carried over to
   vectors by the homeomorphism between the two. *)
let INVARIANCE_OF_DOMAIN_VECTORS = prove
 (`!h:real^N->real^N s.
        h continuous_on s /\ open s /\
        (!x y. x IN s /\ y IN s /\ h x = h y ==> x = y)
        ==> open(IMAGE h s)`,
  REPEAT STRIP_TAC THEN
  SUBGOAL_THEN
   `?f' f. homeomorphic_maps (euclidean_space(dimindex(:N)),euclidean:(real^N)topology) (f',f)` MP_TAC THENL
   [MESON_TAC[HOMEOMORPHIC_MAPS_EUCLIDEAN_SPACE_EUCLIDEAN]; ALL_TAC] THEN
  REWRITE_TAC[HOMEOMORPHIC_MAPS_MAP; LEFT_IMP_EXISTS_THM; TOPSPACE_EUCLIDEAN; IN_UNIV] THEN
  MAP_EVERY X_GEN_TAC [`f':(num->real)->real^N`; `f:real^N->num->real`] THEN STRIP_TAC THEN
  SUBGOAL_THEN `!u:real^N->bool. open u <=> open_in (euclidean_space(dimindex(:N))) (IMAGE f u)` ASSUME_TAC THENL
   [GEN_TAC THEN REWRITE_TAC[OPEN_IN] THEN
    FIRST_ASSUM(fun th -> GEN_REWRITE_TAC LAND_CONV [MATCH_MP HOMEOMORPHIC_MAP_OPENNESS_EQ th]) THEN
    REWRITE_TAC[TOPSPACE_EUCLIDEAN; SUBSET_UNIV];
    ALL_TAC] THEN
  SUBGOAL_THEN
   `IMAGE f (IMAGE (h:real^N->real^N) s):(num->real)->bool = IMAGE (f o h o f') (IMAGE f s)` ASSUME_TAC THENL
   [REWRITE_TAC[GSYM IMAGE_o; o_DEF] THEN ASM_REWRITE_TAC[]; ALL_TAC] THEN
  FIRST_ASSUM(fun th -> GEN_REWRITE_TAC I [th]) THEN FIRST_ASSUM(SUBST1_TAC o check (is_eq o concl)) THEN
  MATCH_MP_TAC INVARIANCE_OF_DOMAIN_EUCLIDEAN_SPACE THEN REPEAT CONJ_TAC THENL
   [FIRST_X_ASSUM(fun th -> GEN_REWRITE_TAC I [GSYM th]) THEN ASM_REWRITE_TAC[];
    MATCH_MP_TAC CONTINUOUS_MAP_COMPOSE THEN EXISTS_TAC `euclidean:(real^N)topology` THEN
    ASM_SIMP_TAC[HOMEOMORPHIC_IMP_CONTINUOUS_MAP] THEN
    MATCH_MP_TAC CONTINUOUS_MAP_COMPOSE THEN EXISTS_TAC `subtopology euclidean (s:real^N->bool)` THEN
    ASM_REWRITE_TAC[CONTINUOUS_MAP_EUCLIDEAN; CONTINUOUS_MAP_IN_SUBTOPOLOGY; TOPSPACE_SUBTOPOLOGY] THEN
    ASM_SIMP_TAC[CONTINUOUS_MAP_FROM_SUBTOPOLOGY; HOMEOMORPHIC_IMP_CONTINUOUS_MAP] THEN
    REWRITE_TAC[SUBSET; FORALL_IN_IMAGE; IN_INTER; IMP_CONJ] THEN ONCE_REWRITE_TAC[IMP_IMP] THEN
    ONCE_REWRITE_TAC[CONJ_SYM] THEN REWRITE_TAC[IMP_CONJ; FORALL_IN_IMAGE] THEN ASM_SIMP_TAC[];
    REWRITE_TAC[IMP_CONJ; RIGHT_FORALL_IMP_THM; FORALL_IN_IMAGE; o_THM] THEN ASM_REWRITE_TAC[] THEN
    ASM_MESON_TAC[]]);;

let THEOREM_1_ON_THE_CONE = prove
 (`!(g:num->real^N->real) m.
        m < dimindex(:N) /\
        (!k. 1 <= k /\ k <= m ==> (\x. lift(g k x)) continuous_on {x | ordered x})
        ==> ?x y. ordered x /\ ordered y /\ ~(x = y) /\
                  !k. 1 <= k /\ k <= m ==> g k x = g k y`,
  REPEAT STRIP_TAC THEN
  ABBREV_TAC `f:real^N->real^N = \x. lambda k. if k <= m then g k x else &0` THEN
  ABBREV_TAC `b = ball((lambda i. &i):real^N,&1 / &2)` THEN
  SUBGOAL_THEN `b SUBSET {x:real^N | ordered x}` ASSUME_TAC THENL
   [EXPAND_TAC "b" THEN REWRITE_TAC[BALL_IN_CONE]; ALL_TAC] THEN
  SUBGOAL_THEN `(f:real^N->real^N) continuous_on b` ASSUME_TAC THENL
   [EXPAND_TAC "f" THEN ONCE_REWRITE_TAC[CONTINUOUS_ON_COMPONENTWISE_LIFT] THEN
    X_GEN_TAC `k:num` THEN STRIP_TAC THEN ASM_SIMP_TAC[LAMBDA_BETA] THEN
    ASM_CASES_TAC `k <= m:num` THEN ASM_REWRITE_TAC[CONTINUOUS_ON_CONST] THEN
    ASM_MESON_TAC[CONTINUOUS_ON_SUBSET];
    ALL_TAC] THEN
  ASM_CASES_TAC `!x y:real^N. x IN b /\ y IN b /\ (f:real^N->real^N) x = f y ==> x = y` THENL
   [MP_TAC(ISPECL [`f:real^N->real^N`; `b:real^N->bool`] INVARIANCE_OF_DOMAIN_VECTORS) THEN
    ASM_REWRITE_TAC[] THEN EXPAND_TAC "b" THEN REWRITE_TAC[OPEN_BALL] THEN ASM_REWRITE_TAC[] THEN
    DISCH_TAC THEN
    SUBGOAL_THEN `IMAGE (f:real^N->real^N) b SUBSET interior {y | y$(dimindex(:N)) = &0}` MP_TAC THENL
     [MATCH_MP_TAC INTERIOR_MAXIMAL THEN ASM_REWRITE_TAC[SUBSET; FORALL_IN_IMAGE; IN_ELIM_THM] THEN
      EXPAND_TAC "f" THEN SIMP_TAC[LAMBDA_BETA; DIMINDEX_GE_1; LE_REFL] THEN
      ASM_REWRITE_TAC[GSYM NOT_LT];
      REWRITE_TAC[INTERIOR_STANDARD_HYPERPLANE; SUBSET_EMPTY; IMAGE_EQ_EMPTY] THEN
      EXPAND_TAC "b" THEN REWRITE_TAC[BALL_EQ_EMPTY] THEN REAL_ARITH_TAC];
    FIRST_X_ASSUM(MP_TAC o GEN_REWRITE_RULE I [NOT_FORALL_THM]) THEN
    DISCH_THEN(X_CHOOSE_THEN `x:real^N` (MP_TAC o GEN_REWRITE_RULE I [NOT_FORALL_THM])) THEN
    DISCH_THEN(X_CHOOSE_THEN `y:real^N` (STRIP_ASSUME_TAC o REWRITE_RULE[NOT_IMP])) THEN
    MAP_EVERY EXISTS_TAC [`x:real^N`; `y:real^N`] THEN
    REPEAT(CONJ_TAC THENL [ASM SET_TAC[]; ALL_TAC]) THEN
    X_GEN_TAC `k:num` THEN STRIP_TAC THEN
    FIRST_X_ASSUM(MP_TAC o AP_TERM `\z:real^N. z$k` o
      check (fun th -> is_eq(concl th) && rand(concl th) = `(f:real^N->real^N) y`)) THEN
    EXPAND_TAC "f" THEN
    SUBGOAL_THEN `k <= dimindex(:N)` ASSUME_TAC THENL [ASM_ARITH_TAC; ALL_TAC] THEN
    ASM_SIMP_TAC[LAMBDA_BETA]]);;

let ORDERED_LE = prove
 (`!x:real^N. ordered x ==> !i j. 1 <= i /\ i <= j /\ j <= dimindex(:N) ==> x$i <= x$j`,
  REWRITE_TAC[ordered] THEN GEN_TAC THEN DISCH_TAC THEN GEN_TAC THEN INDUCT_TAC THENL
   [ARITH_TAC; ALL_TAC] THEN
  STRIP_TAC THEN ASM_CASES_TAC `i = SUC j` THEN ASM_REWRITE_TAC[REAL_LE_REFL] THEN
  MATCH_MP_TAC REAL_LE_TRANS THEN EXISTS_TAC `(x:real^N)$j` THEN
  REWRITE_TAC[ADD1] THEN CONJ_TAC THEN FIRST_X_ASSUM MATCH_MP_TAC THEN ASM_ARITH_TAC);;

(* If y_i < x_i, then p maps the n - i + 1 places i ... n into the n - i places after i. *)
let SORTED_LE = prove
 (`!x y:real^N. ordered x /\ ordered y /\ same_multiset x y
                ==> !i. 1 <= i /\ i <= dimindex(:N) ==> x$i <= y$i`,
  REWRITE_TAC[same_multiset] THEN REPEAT STRIP_TAC THEN
  REWRITE_TAC[GSYM REAL_NOT_LT] THEN DISCH_TAC THEN
  SUBGOAL_THEN `CARD(IMAGE (p:num->num) (i..dimindex(:N))) <= CARD(i+1..dimindex(:N))` MP_TAC THENL
   [MATCH_MP_TAC CARD_SUBSET THEN REWRITE_TAC[FINITE_NUMSEG; SUBSET; FORALL_IN_IMAGE; IN_NUMSEG] THEN
    X_GEN_TAC `k:num` THEN STRIP_TAC THEN
    SUBGOAL_THEN `p(k:num) IN 1..dimindex(:N)` MP_TAC THENL
     [ASM_SIMP_TAC[PERMUTES_IN_IMAGE] THEN REWRITE_TAC[IN_NUMSEG] THEN ASM_ARITH_TAC;
      REWRITE_TAC[IN_NUMSEG] THEN STRIP_TAC] THEN
    ASM_REWRITE_TAC[ARITH_RULE `i + 1 <= q <=> ~(q <= i)`] THEN DISCH_TAC THEN
    SUBGOAL_THEN `(x:real^N)$i <= x$k /\ (y:real^N)$(p k) <= y$i /\ x$k = y$(p k)` MP_TAC THENL
     [REPEAT CONJ_TAC THENL
       [MATCH_MP_TAC(REWRITE_RULE[RIGHT_IMP_FORALL_THM; IMP_IMP] ORDERED_LE) THEN ASM_REWRITE_TAC[];
        MATCH_MP_TAC(REWRITE_RULE[RIGHT_IMP_FORALL_THM; IMP_IMP] ORDERED_LE) THEN ASM_REWRITE_TAC[];
        FIRST_X_ASSUM MATCH_MP_TAC THEN ASM_ARITH_TAC];
      ASM_REAL_ARITH_TAC];
    SUBGOAL_THEN `CARD(IMAGE (p:num->num) (i..dimindex(:N))) = CARD(i..dimindex(:N))` SUBST1_TAC THENL
     [MATCH_MP_TAC CARD_IMAGE_INJ THEN REWRITE_TAC[FINITE_NUMSEG] THEN
      ASM_MESON_TAC[PERMUTES_INJECTIVE];
      REWRITE_TAC[CARD_NUMSEG] THEN ASM_ARITH_TAC]]);;

let SAME_MULTISET_SYM = prove
 (`!x y:real^N. same_multiset x y ==> same_multiset y x`,
  REWRITE_TAC[same_multiset] THEN REPEAT STRIP_TAC THEN EXISTS_TAC `inverse(p:num->num)` THEN
  ASM_SIMP_TAC[PERMUTES_INVERSE] THEN X_GEN_TAC `i:num` THEN STRIP_TAC THEN
  SUBGOAL_THEN `inverse p (i:num) IN 1..dimindex(:N)` MP_TAC THENL
   [ASM_SIMP_TAC[PERMUTES_IN_IMAGE; PERMUTES_INVERSE] THEN ASM_REWRITE_TAC[IN_NUMSEG];
    REWRITE_TAC[IN_NUMSEG] THEN ASM_MESON_TAC[PERMUTES_INVERSES]]);;

let SORTED_IS_UNIQUE = prove
 (`!x y:real^N. ordered x /\ ordered y /\ same_multiset x y ==> x = y`,
  REPEAT STRIP_TAC THEN SIMP_TAC[CART_EQ; GSYM REAL_LE_ANTISYM] THEN
  ASM_MESON_TAC[SORTED_LE; SAME_MULTISET_SYM]);;

let SORTED_EXISTS = prove
 (`!x:real^N. ?y. ordered y /\ same_multiset y x`,
  GEN_TAC THEN
  MP_TAC(ISPEC `\i j. (x:real^N)$i < x$j` TOPOLOGICAL_SORT) THEN
  ANTS_TAC THENL [REWRITE_TAC[] THEN REAL_ARITH_TAC; ALL_TAC] THEN
  DISCH_THEN(MP_TAC o SPECL [`dimindex(:N)`; `1..dimindex(:N)`]) THEN
  REWRITE_TAC[HAS_SIZE_NUMSEG_1; REAL_NOT_LT] THEN
  DISCH_THEN(X_CHOOSE_THEN `q:num->num` STRIP_ASSUME_TAC) THEN
  ABBREV_TAC `p = \i. if i IN 1..dimindex(:N) then q i else i:num` THEN
  SUBGOAL_THEN `IMAGE (p:num->num) (1..dimindex(:N)) = 1..dimindex(:N)` ASSUME_TAC THENL
   [FIRST_X_ASSUM(fun th -> GEN_REWRITE_TAC RAND_CONV [th]) THEN EXPAND_TAC "p" THEN SET_TAC[];
    ALL_TAC] THEN
  EXISTS_TAC `(lambda i. (x:real^N)$(p i)):real^N` THEN REWRITE_TAC[ordered; same_multiset] THEN
  CONJ_TAC THENL
   [X_GEN_TAC `i:num` THEN STRIP_TAC THEN
    ASM_SIMP_TAC[LAMBDA_BETA; ARITH_RULE `i < n ==> i <= n /\ i + 1 <= n`; ARITH_RULE `1 <= i + 1`] THEN
    EXPAND_TAC "p" THEN ASM_SIMP_TAC[IN_NUMSEG; ARITH_RULE `i < n ==> i <= n /\ i + 1 <= n`;
                                     ARITH_RULE `1 <= i + 1`] THEN
    FIRST_X_ASSUM MATCH_MP_TAC THEN REWRITE_TAC[IN_NUMSEG] THEN ASM_ARITH_TAC;
    EXISTS_TAC `p:num->num` THEN SIMP_TAC[LAMBDA_BETA] THEN
    ASM_SIMP_TAC[PERMUTES_FINITE_SURJECTIVE; FINITE_NUMSEG] THEN
    CONJ_TAC THENL [EXPAND_TAC "p" THEN SIMP_TAC[]; ASM SET_TAC[]]]);;

let THEOREM_1 = prove
 (`!(g:num->real^N->real) m.
        m < dimindex(:N) /\ (!k. 1 <= k /\ k <= m ==> aggregator (g k))
        ==> ?x y. ~same_multiset x y /\ !k. 1 <= k /\ k <= m ==> g k x = g k y`,
  REWRITE_TAC[aggregator] THEN REPEAT STRIP_TAC THEN
  MP_TAC(ISPECL [`g:num->real^N->real`; `m:num`] THEOREM_1_ON_THE_CONE) THEN
  ANTS_TAC THENL [ASM_MESON_TAC[CONTINUOUS_ON_SUBSET; SUBSET_UNIV]; ALL_TAC] THEN
  ASM_MESON_TAC[SORTED_IS_UNIQUE]);;

(* What they rest on: no hypotheses, and the three axioms of the logic (infinity, extensionality, choice). *)
map hyp [THEOREM_1_ON_THE_CONE; SORTED_IS_UNIQUE; SORTED_EXISTS; THEOREM_1];;
axioms();;

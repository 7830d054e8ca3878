(* Theorem 1 for features that are vectors: m < n D continuous functions of n vectors of R^D do not tell apart all multisets
   of n vectors. The paper states Theorem 1 for scalar features, D = 1.

   In symbols: if m < n D and g_1, ..., g_m are continuous functions of n-tuples of vectors of R^D, there are two different
   multisets X and Y of n vectors with g_k(X) = g_k(Y) for all k. The functions may even depend on the order.

   Formalised here, for every n = dimindex(:N), every D = dimindex(:D), every m < n D and all continuous functions. A tuple of
   vectors is a matrix of type real^D^N, and continuity is that of a function of its n D entries (matrify reads them row by row).
   The proof puts a ball around the tuple whose i-th vector is (i, ..., i), of radius 1/2. Inside it the first coordinates are
   apart, so that different tuples are different multisets; the rest is theorem_1.ml's invariance of domain.
   Needs theorem_1.ml. *)

(* x and y are one multiset of vectors: y is x in another order. *)
let same_vectors = new_definition
 `same_vectors (x:real^D^N) (y:real^D^N) <=>
    ?p. p permutes 1..dimindex(:N) /\ !i. 1 <= i /\ i <= dimindex(:N) ==> x$i = y$(p i)`;;

let FEWER_FUNCTIONS_COLLIDE = prove
 (`!(g:num->real^M->real) m b.
        m < dimindex(:M) /\ open b /\ ~(b = {}) /\
        (!k. 1 <= k /\ k <= m ==> (\x. lift(g k x)) continuous_on b)
        ==> ?x y. x IN b /\ y IN b /\ ~(x = y) /\
                  !k. 1 <= k /\ k <= m ==> g k x = g k y`,
  REPEAT STRIP_TAC THEN
  ABBREV_TAC `f:real^M->real^M = \x. lambda k. if k <= m then g k x else &0` THEN
  SUBGOAL_THEN `(f:real^M->real^M) continuous_on b` ASSUME_TAC THENL
   [EXPAND_TAC "f" THEN ONCE_REWRITE_TAC[CONTINUOUS_ON_COMPONENTWISE_LIFT] THEN
    X_GEN_TAC `k:num` THEN STRIP_TAC THEN ASM_SIMP_TAC[LAMBDA_BETA] THEN
    ASM_CASES_TAC `k <= m:num` THEN ASM_REWRITE_TAC[CONTINUOUS_ON_CONST] THEN ASM_SIMP_TAC[];
    ALL_TAC] THEN
  ASM_CASES_TAC `!x y:real^M. x IN b /\ y IN b /\ (f:real^M->real^M) x = f y ==> x = y` THENL
   [MP_TAC(ISPECL [`f:real^M->real^M`; `b:real^M->bool`] INVARIANCE_OF_DOMAIN_VECTORS) THEN
    ASM_REWRITE_TAC[] THEN DISCH_TAC THEN
    SUBGOAL_THEN `IMAGE (f:real^M->real^M) b SUBSET interior {y | y$(dimindex(:M)) = &0}` MP_TAC THENL
     [MATCH_MP_TAC INTERIOR_MAXIMAL THEN ASM_REWRITE_TAC[SUBSET; FORALL_IN_IMAGE; IN_ELIM_THM] THEN
      EXPAND_TAC "f" THEN SIMP_TAC[LAMBDA_BETA; DIMINDEX_GE_1; LE_REFL] THEN
      ASM_REWRITE_TAC[GSYM NOT_LT];
      ASM_REWRITE_TAC[INTERIOR_STANDARD_HYPERPLANE; SUBSET_EMPTY; IMAGE_EQ_EMPTY]];
    FIRST_X_ASSUM(MP_TAC o GEN_REWRITE_RULE I [NOT_FORALL_THM]) THEN
    DISCH_THEN(X_CHOOSE_THEN `x:real^M` (MP_TAC o GEN_REWRITE_RULE I [NOT_FORALL_THM])) THEN
    DISCH_THEN(X_CHOOSE_THEN `y:real^M` (STRIP_ASSUME_TAC o REWRITE_RULE[NOT_IMP])) THEN
    MAP_EVERY EXISTS_TAC [`x:real^M`; `y:real^M`] THEN ASM_REWRITE_TAC[] THEN
    X_GEN_TAC `k:num` THEN STRIP_TAC THEN
    FIRST_X_ASSUM(MP_TAC o AP_TERM `\z:real^M. z$k` o
      check (fun th -> is_eq(concl th) && rand(concl th) = `(f:real^M->real^M) y`)) THEN
    EXPAND_TAC "f" THEN
    SUBGOAL_THEN `k <= dimindex(:M)` ASSUME_TAC THENL [ASM_ARITH_TAC; ALL_TAC] THEN
    ASM_SIMP_TAC[LAMBDA_BETA]]);;

(* Near the centre the first coordinate of the i-th vector is near i. *)
let FIRST_COORDINATE = prove
 (`!z i. z IN ball(vectorize((lambda i j. &i):real^D^N),&1 / &2) /\ 1 <= i /\ i <= dimindex(:N)
         ==> abs((matrify z:real^D^N)$i$1 - &i) < &1 / &2`,
  REWRITE_TAC[IN_BALL; dist] THEN REPEAT STRIP_TAC THEN
  ABBREV_TAC `c = vectorize((lambda i j. &i):real^D^N)` THEN
  SUBGOAL_THEN `(matrify (c:real^(N,D)finite_prod):real^D^N)$i$1 = &i` ASSUME_TAC THENL
   [EXPAND_TAC "c" THEN REWRITE_TAC[MATRIFY_VECTORIZE] THEN
    ASM_SIMP_TAC[LAMBDA_BETA; DIMINDEX_GE_1; LE_REFL];
    ALL_TAC] THEN
  FIRST_X_ASSUM(SUBST1_TAC o SYM) THEN
  ASM_SIMP_TAC[MATRIFY_COMPONENT; DIMINDEX_GE_1; LE_REFL] THEN
  MP_TAC(ISPECL [`c - z:real^(N,D)finite_prod`; `(i - 1) * dimindex(:D) + 1`] COMPONENT_LE_NORM) THEN
  REWRITE_TAC[VECTOR_SUB_COMPONENT] THEN ASM_REAL_ARITH_TAC);;

(* There, one multiset is one tuple: p i and i are less than 1 apart. *)
let MULTISETS_APART = prove
 (`!x y. x IN ball(vectorize((lambda i j. &i):real^D^N),&1 / &2) /\
         y IN ball(vectorize((lambda i j. &i):real^D^N),&1 / &2) /\
         same_vectors (matrify x:real^D^N) (matrify y) ==> x = y`,
  REWRITE_TAC[same_vectors] THEN REPEAT STRIP_TAC THEN
  SUBGOAL_THEN `!i. 1 <= i /\ i <= dimindex(:N) ==> (p:num->num) i = i` ASSUME_TAC THENL
   [X_GEN_TAC `i:num` THEN STRIP_TAC THEN
    SUBGOAL_THEN `(p:num->num) i IN 1..dimindex(:N)` MP_TAC THENL
     [ASM_SIMP_TAC[PERMUTES_IN_IMAGE] THEN ASM_REWRITE_TAC[IN_NUMSEG];
      REWRITE_TAC[IN_NUMSEG] THEN STRIP_TAC] THEN
    SUBGOAL_THEN `(matrify (x:real^(N,D)finite_prod):real^D^N)$i = (matrify y)$(p i)` ASSUME_TAC THENL
     [ASM_SIMP_TAC[]; ALL_TAC] THEN
    MP_TAC(ISPECL [`x:real^(N,D)finite_prod`; `i:num`] FIRST_COORDINATE) THEN
    MP_TAC(ISPECL [`y:real^(N,D)finite_prod`; `(p:num->num) i`] FIRST_COORDINATE) THEN
    ASM_REWRITE_TAC[] THEN REPEAT DISCH_TAC THEN
    MATCH_MP_TAC(ARITH_RULE `~(a + 1 <= b) /\ ~(b + 1 <= a) ==> a = b:num`) THEN
    REWRITE_TAC[GSYM REAL_OF_NUM_LE; GSYM REAL_OF_NUM_ADD] THEN ASM_REAL_ARITH_TAC;
    ONCE_REWRITE_TAC[GSYM MATRIFY_EQ] THEN ONCE_REWRITE_TAC[CART_EQ] THEN ASM_MESON_TAC[]]);;

let THEOREM_1_VECTORS = prove
 (`!(g:num->real^D^N->real) m.
        m < dimindex(:N) * dimindex(:D) /\
        (!k. 1 <= k /\ k <= m
             ==> (\z. lift(g k (matrify z))) continuous_on (:real^(N,D)finite_prod))
        ==> ?x y. ~same_vectors x y /\ !k. 1 <= k /\ k <= m ==> g k x = g k y`,
  REPEAT STRIP_TAC THEN
  MP_TAC(ISPECL [`\k z. (g:num->real^D^N->real) k (matrify z)`; `m:num`;
                 `ball(vectorize((lambda i j. &i):real^D^N),&1 / &2)`] FEWER_FUNCTIONS_COLLIDE) THEN
  ANTS_TAC THENL
   [ASM_REWRITE_TAC[DIMINDEX_FINITE_PROD; OPEN_BALL; BALL_EQ_EMPTY] THEN
    CONJ_TAC THENL [REAL_ARITH_TAC; ASM_MESON_TAC[CONTINUOUS_ON_SUBSET; SUBSET_UNIV]];
    REWRITE_TAC[] THEN
    DISCH_THEN(X_CHOOSE_THEN `x:real^(N,D)finite_prod`
      (X_CHOOSE_THEN `y:real^(N,D)finite_prod` STRIP_ASSUME_TAC)) THEN
    MAP_EVERY EXISTS_TAC [`matrify x:real^D^N`; `matrify y:real^D^N`] THEN ASM_REWRITE_TAC[] THEN
    ASM_MESON_TAC[MULTISETS_APART]]);;

map hyp [THEOREM_1_VECTORS];;
axioms();;

(* Theorem 1 in integers: multisets of n = 2 … 10 and 12 integers that share their first n - 1 power sums, and are different.

   Known solutions of the problem of Prouhet, Tarry and Escott, the same as in verification/theorem_1.py. For all n, but
   in reals, see theorem_1_moments.v. Formalised by computation in Coq's kernel: the n-th power sums differ, so the multisets
   do. The sizes stand in the statement, so that it says nothing less when a solution is taken away. *)
From Coq Require Import ZArith List Permutation Lia.
Import ListNotations.
Local Open Scope Z_scope.

Definition psum (x : list Z) (k : nat) := fold_right (fun a s => a ^ Z.of_nat k + s) 0 x.

Definition solutions : list (nat * list Z * list Z) := [
  (2%nat, [0; 3],
    [1; 2]);
  (3%nat, [0; 4; 5],
    [1; 2; 6]);
  (4%nat, [0; 4; 7; 11],
    [1; 2; 9; 10]);
  (5%nat, [0; 4; 8; 16; 17],
    [1; 2; 10; 14; 18]);
  (6%nat, [0; 4; 9; 17; 22; 26],
    [1; 2; 12; 14; 24; 25]);
  (7%nat, [0; 18; 27; 58; 64; 89; 101],
    [1; 13; 38; 44; 75; 84; 102]);
  (8%nat, [0; 4; 9; 23; 27; 41; 46; 50],
    [1; 2; 11; 20; 30; 39; 48; 49]);
  (9%nat, [0; 24; 30; 83; 86; 133; 157; 181; 197],
    [1; 17; 41; 65; 112; 115; 168; 174; 198]);
  (10%nat, [-23738; -20885; -20231; -11881; -12; 12; 11881; 20231; 20885; 23738],
    [-23750; -20667; -20449; -11857; -436; 436; 11857; 20449; 20667; 23750]);
  (12%nat, [-151; -140; -127; -86; -61; -22; 22; 61; 86; 127; 140; 151],
    [-148; -146; -121; -94; -47; -35; 35; 47; 94; 121; 146; 148])].

Definition solves (row : nat * list Z * list Z) : Prop :=
  let '(n, x, y) := row in
  length x = n /\ length y = n /\ map (psum x) (seq 1 (n - 1)) = map (psum y) (seq 1 (n - 1)) /\ psum x n <> psum y n.

Lemma solutions_solve : Forall solves solutions.
Proof. repeat constructor; vm_compute; congruence. Qed.

Lemma psum_permutation x y k : Permutation x y -> psum x k = psum y k.
Proof. induction 1; simpl; lia. Qed.

Theorem integers_share_power_sums : forall n : nat, In n [2; 3; 4; 5; 6; 7; 8; 9; 10; 12]%nat ->
  exists x y : list Z, length x = n /\ length y = n /\ ~ Permutation x y /\
    forall k : nat, (0 < k < n)%nat -> psum x k = psum y k.
Proof.
  intros n member.
  assert (row : exists x y, In (n, x, y) solutions).
  { simpl in member. repeat (destruct member as [<- | member]; [do 2 eexists; simpl; tauto | ]). contradiction. }
  destruct row as (x & y & row); exists x, y.
  destruct (proj1 (Forall_forall _ _) solutions_solve _ row) as (lx & ly & same & differ).
  repeat split; [assumption | assumption | now intro p; apply differ, psum_permutation | ].
  intros k bounds; assert (inside : In k (seq 1 (n - 1))) by (apply in_seq; lia).
  exact (ext_in_map same k inside).
Qed.

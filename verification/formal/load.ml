(* What theorem_1.ml needs of HOL Light's library: its multivariate analysis up to the invariance of domain (paths.ml).
   With hol-light 20230128 of Debian 12 and libnum-ocaml-dev this takes about half an hour of one core, and 1.6 GB. *)
loadt "Library/card.ml";;
loadt "Library/permutations.ml";;
loadt "Library/products.ml";;
loadt "Library/floor.ml";;
loadt "Multivariate/misc.ml";;
loadt "Library/iter.ml";;
loadt "Library/grouptheory.ml";;
loadt "Multivariate/metric.ml";;
loadt "Multivariate/homology.ml";;
loadt "Multivariate/vectors.ml";;
loadt "Multivariate/determinants.ml";;
loadt "Multivariate/topology.ml";;
loadt "Multivariate/convex.ml";;
loadt "Multivariate/paths.ml";;

(* What theorem_1.ml needs of HOL Light's library: the homology of Euclidean space, with the
   invariance of domain (homology.ml), and the topology of vectors (topology.ml). With hol-light 20230128 of Debian 12 and
   libnum-ocaml-dev this takes the better part of half an hour of one free core, and 1.5 GB. *)
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

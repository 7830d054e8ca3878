"""The theorems of `formal/`, in words: what each says of the paper, for which sizes, and which tool checks it."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["COQ", "FORMAL", "HOL_LIGHT", "THEOREMS", "Theorem", "sources"]

FORMAL = Path(__file__).parent / "formal"
COQ, HOL_LIGHT = "Coq", "HOL Light"


@dataclass(frozen=True)
class Theorem:
    """A theorem: the statement of the paper it belongs to, the file it is proved in, its name there, its meaning."""

    topic: str  # the id of the claim that it is evidence for, if there is one
    paper: str
    file: str
    name: str
    words: str
    range: str = "all n"

    @property
    def id(self) -> str:
        """The topic and the name of the theorem."""
        return f"{self.topic}/{self.name}"

    @property
    def tool(self) -> str:
        """The tool that checks the proof."""
        return HOL_LIGHT if self.file.endswith(".ml") else COQ


def sources(tool: str) -> list[Path]:
    """The files of `formal/` that the tool reads, each after those it needs."""
    names = dict.fromkeys(theorem.file for theorem in THEOREMS if theorem.tool == tool)
    return [FORMAL / name for name in (["load.ml", *names] if tool == HOL_LIGHT else names)]


_ONE, _PROPOSITION, _TWO = "Theorem 1", "Proposition 1", "Theorem 2"
_BEYOND, _DEPTH, _FIGURE = "What Theorem 1 does not say", "Scalers over depth", "Figure 1"
_VECTORS = f"{_BEYOND}, vector features"
_SIZES = "sizes 1 … B, all B"

THEOREMS = (
    Theorem("proposition1", _PROPOSITION, "power_sums.v", "power_sums_determine",
            "Σ x, …, Σ x^n determine a multiset of n elements of an integral domain of characteristic 0"),
    Theorem("one-kind", _BEYOND, "power_sums.v", "one_kind_suffices",
            "one kind of aggregator, the mean, over the messages x, x², …, x^n discriminates multisets of n elements"),
    Theorem("suffice", "n aggregators suffice", "power_sums.v", "order_statistics_determine",
            "the k-th smallest elements, k = 1 … n, determine a multiset of n elements"),
    Theorem("proposition1", _PROPOSITION, "proposition_1.v", "central_moments_determine",
            "μ and E[(X - μ)^k], 1 < k ≤ n, determine a multiset of n elements of a field of characteristic 0"),
    Theorem("proposition1", _PROPOSITION, "proposition_1.v", "proposition_1",
            "μ and M_2 … M_n, with the signed root for odd orders, determine a multiset of n reals"),
    Theorem("proposition1", _PROPOSITION, "proposition_1.v", "absolute_value_fails",
            "with the root of the absolute value it would be false, as {0, 0, 3} and {-1, 2, 2} agree on all orders",
            "n = 3, all orders"),
    Theorem("theorem1", f"{_ONE}, for moments", "theorem_1_moments.v", "n_minus_1_power_sums_collide",
            "there are two different multisets of n reals that share Σ x^k for every k < n"),
    Theorem("theorem1", f"{_ONE}, for moments", "theorem_1_moments.v", "n_minus_1_moments_collide",
            "there are two different multisets of n reals that share μ and M_2 … M_(n-1)"),
    Theorem("theorem2", _TWO, "theorem_2.v", "h_injective",
            "the proof's h is injective for any injection Z into the naturals, with γ taken over s(i) > s(j)", _SIZES),
    Theorem("theorem2", _TWO, "theorem_2.v", "theorem_2_positive",
            "a positive injective scaler times the mean of some f is injective on multisets of countable elements",
            _SIZES),
    Theorem("theorem2", _TWO, "theorem_2.v", "theorem_2",
            "for any injective s there are b and f such that s + b times the mean of f is injective on multisets of "
            "countable elements", _SIZES),
    Theorem("theorem2", _TWO, "theorem_2.v", "sum_injective",
            "the sum of some f is injective on these multisets, which is Xu et al.'s case s(d) = d", _SIZES),
    Theorem("sum-is-scaled", "Sum is the mean times the linear scaler", "scalers.v", "sum_is_scaled_mean",
            "sum = |X| · mean for every non-empty multiset", "all sizes from 1"),
    Theorem("scaler-injective", "S(d, α) is injective", "scalers.v", "S_injective",
            "S(·, α) is injective on d > 0 for every α ≠ 0, where log and exp may be any increasing functions with "
            "the logarithm's law",
            "all d > 0, α ≠ 0"),
    Theorem("depth", _DEPTH, "scalers.v", "logarithm_amplifies_less",
            "1 < log(d + 1)/log(d_0 + 1) < d/d_0 for degrees d > d_0 ≥ 1", "all degrees"),
    Theorem("depth", _DEPTH, "scalers.v", "logarithm_amplifies_less_over_layers",
            "the same order holds for the L-th powers: both scalers grow exponentially with the number of layers, the "
            "logarithmic one more slowly",
            "all degrees, all L"),
    Theorem("depth", _DEPTH, "scalers.v", "layers_amplify",
            "on a d-regular graph L layers multiply a constant signal by S(d)^L", "all degrees, all L"),
    Theorem("fails", _FIGURE, "four_aggregators.v", "four_determined",
            "mean, σ, max and min determine every multiset of at most 4 elements of a real field if its size is known",
            "n = 0 … 4"),
    Theorem("fails", _FIGURE, "four_aggregators.v", "five_not_determined",
            "mean, σ, max and min do not determine a multiset of 5: {0, 0, 3, 3, 4} and {0, 1, 1, 4, 4} agree on them",
            "n = 5"),
    Theorem("fails", _FIGURE, "four_aggregators.v", "scalers_do_not_help",
            "scalers do not help there, because both multisets have the same size", "n = 5"),
    Theorem("theorem1", f"{_ONE}, in integers", "prouhet_tarry_escott.v", "integers_share_power_sums",
            "there are two different multisets of n integers that share Σ x^k for every 0 < k < n",
            "n = 2 … 10 and 12"),
    Theorem("piecewise-linear", _BEYOND, "piecewise_linear.v", "relu_sum_not_injective",
            "for every finite list of ReLU networks there are two different multisets of n reals on which the sums of "
            "all these networks agree", "all n ≥ 2"),
    Theorem("piecewise-linear", _BEYOND, "piecewise_linear.v", "pna_not_injective",
            "for every finite list of ReLU networks there are two different multisets of n reals on which mean, "
            "variance, max and min of all these networks agree", "all n ≥ 5"),
    Theorem("piecewise-linear", _BEYOND, "piecewise_linear.v", "pna_layer_not_injective",
            "a PNA layer whose messages are linear or ReLU networks does not tell all multisets of n reals apart, "
            "whatever its scalers, its U and its number of channels", "all n ≥ 5"),
    Theorem("piecewise-linear", _VECTORS, "vector_features.v", "relu_sum_of_vectors_not_injective",
            "for every finite list of ReLU networks of D inputs, every line of the feature space contains two "
            "different multisets of n vectors on which the sums of all these networks agree", "all n ≥ 2, all D"),
    Theorem("piecewise-linear", _VECTORS, "vector_features.v", "pna_layer_of_vectors_not_injective",
            "every line of the feature space contains two different multisets of n vectors that a PNA layer whose "
            "messages are linear or ReLU networks does not tell apart, whatever its scalers and its U",
            "all n ≥ 5, all D"),
    Theorem("piecewise-linear", "Proposition 1's number is sharp for every width", "moments_of_networks.v",
            "moments_of_networks_collide",
            "the first n - 1 moments of any number of ReLU messages agree on two different multisets of n reals"),
    Theorem("theorem2", f"{_TWO}, sharp", "theorem_2_sharp.v", "theorem_2_sharp",
            "over two or more countable features, some f makes s(size) · mean(f) injective if and only if s is "
            "injective and nowhere 0", _SIZES),
    Theorem("lipschitz", "What Proposition 1 does not say", "not_bilipschitz.v", "moments_not_bilipschitz",
            "the map from μ and the central moments (before the root) back to the multiset is not Lipschitz: for every "
            "C there is a t such that {1 + t, 1 - t, -2} and {1, 1, -2} are at distance t, while their moments are "
            "closer than t/C", "n = 3"),
    Theorem("theorem1", _ONE, "theorem_1.ml", "THEOREM_1_ON_THE_CONE",
            "for all m < n continuous functions on {x_1 ≤ … ≤ x_n} there are two different points on which they agree"),
    Theorem("theorem1", _ONE, "theorem_1.ml", "SORTED_IS_UNIQUE",
            "a multiset of n reals corresponds to at most one point of {x_1 ≤ … ≤ x_n}"),
    Theorem("theorem1", _ONE, "theorem_1.ml", "SORTED_EXISTS",
            "a multiset of n reals corresponds to at least one point of {x_1 ≤ … ≤ x_n}"),
    Theorem("theorem1", _ONE, "theorem_1.ml", "THEOREM_1",
            "for all m < n continuous symmetric functions there are two different multisets of n reals on which they "
            "agree"),
)  # fmt: skip
"""Everything that is proved formally; `prove` compares it with the files and with what the tools print."""

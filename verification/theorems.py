"""The theorems of `formal/`, in words: what each says of the paper, and which tool checks it."""

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

    @property
    def id(self) -> str:
        """Its topic and its name."""
        return f"{self.topic}/{self.name}"

    @property
    def tool(self) -> str:
        """What checks the proof."""
        return HOL_LIGHT if self.file.endswith(".ml") else COQ


def sources(tool: str) -> list[Path]:
    """The files of `formal/` that the tool reads, each after those it needs."""
    names = ["load.ml", "theorem_1.ml"] if tool == HOL_LIGHT else list(dict.fromkeys(t.file for t in COQ_THEOREMS))
    return [FORMAL / name for name in names]


_SUMS, _PROPOSITION, _MOMENTS = "power_sums.v", "proposition_1.v", "theorem_1_moments.v"
_THEOREM_2, _SCALERS, _FOUR = "theorem_2.v", "scalers.v", "four_aggregators.v"

COQ_THEOREMS = (
    Theorem(
        "proposition1",
        "Proposition 1",
        _SUMS,
        "power_sums_determine",
        "Σ x, …, Σ x^n determine a multiset of n elements of an integral domain of characteristic 0, for all n",
    ),
    Theorem(
        "one-kind",
        "What Theorem 1 does not say",
        _SUMS,
        "one_kind_suffices",
        "one kind of aggregator, the mean, over the messages x, x², …, x^n discriminates multisets of n elements",
    ),
    Theorem(
        "suffice",
        "n aggregators suffice",
        _SUMS,
        "order_statistics_determine",
        "the k-th smallest elements, k = 1 … n, for all n",
    ),
    Theorem(
        "proposition1",
        "Proposition 1",
        _PROPOSITION,
        "central_moments_determine",
        "μ and E[(X - μ)^k], 1 < k ≤ n, determine a multiset of n elements of a field of characteristic 0, for all n",
    ),
    Theorem(
        "proposition1",
        "Proposition 1",
        _PROPOSITION,
        "proposition_1",
        "μ and M_2 … M_n, with the signed root for odd orders, determine a multiset of n reals, for all n",
    ),
    Theorem(
        "proposition1",
        "Proposition 1",
        _PROPOSITION,
        "absolute_value_fails",
        "with the root of the absolute value it is false: {0, 0, 3} and {-1, 2, 2} agree on all orders",
    ),
    Theorem(
        "theorem1",
        "Theorem 1, for moments",
        _MOMENTS,
        "n_minus_1_power_sums_collide",
        "for all n there are two multisets of n reals that share Σ x^k for every k < n",
    ),
    Theorem(
        "theorem1",
        "Theorem 1, for moments",
        _MOMENTS,
        "n_minus_1_moments_collide",
        "for all n there are two multisets of n reals that share μ and M_2 … M_(n-1)",
    ),
    Theorem(
        "theorem2",
        "Theorem 2",
        _THEOREM_2,
        "h_injective",
        "the proof's h is injective, with γ over s(i) > s(j), for any injection Z into the naturals",
    ),
    Theorem(
        "theorem2",
        "Theorem 2",
        _THEOREM_2,
        "theorem_2_positive",
        "a positive injective scaler times the mean of some f is injective on multisets of 1 … B countable elements",
    ),
    Theorem(
        "theorem2",
        "Theorem 2",
        _THEOREM_2,
        "theorem_2",
        "the same for any injective s, with s + b as the scaler for some constant b",
    ),
    Theorem(
        "theorem2",
        "Theorem 2",
        _THEOREM_2,
        "sum_injective",
        "the sum of some f is injective there: Xu et al.'s case s(d) = d",
    ),
    Theorem(
        "sum-is-scaled",
        "Sum is the mean times the linear scaler",
        _SCALERS,
        "sum_is_scaled_mean",
        "sum = |X| · mean for every multiset that is not empty",
    ),
    Theorem(
        "scaler-injective",
        "S(d, α) is injective",
        _SCALERS,
        "S_injective",
        "S(·, α) is injective on d > 0 for every α ≠ 0; log and exp are any increasing functions with log's law",
    ),
    Theorem(
        "depth",
        "Scalers over depth",
        _SCALERS,
        "logarithm_amplifies_less",
        "1 < log(d + 1)/log(d_0 + 1) < d/d_0 for degrees d > d_0 ≥ 1",
    ),
    Theorem(
        "depth",
        "Scalers over depth",
        _SCALERS,
        "logarithm_amplifies_less_over_layers",
        "the same for their L-th powers: both are exponential in the number of layers, the logarithmic one less",
    ),
    Theorem(
        "depth",
        "Scalers over depth",
        _SCALERS,
        "layers_amplify",
        "on a d-regular graph L layers multiply a constant signal by S(d)^L",
    ),
    Theorem(
        "fails",
        "Figure 1",
        _FOUR,
        "four_determined",
        "mean, σ, max and min determine every multiset of at most 4 elements of a real field, its size known",
    ),
    Theorem(
        "fails",
        "Figure 1",
        _FOUR,
        "five_not_determined",
        "they do not determine those of 5: {0, 0, 3, 3, 4} and {0, 1, 1, 4, 4}",
    ),
    Theorem(
        "fails",
        "Figure 1",
        _FOUR,
        "scalers_do_not_help",
        "nor do they with any scalers, the size being the same",
    ),
    Theorem(
        "theorem1",
        "Theorem 1, in integers",
        "prouhet_tarry_escott.v",
        "integers_share_power_sums",
        "multisets of n integers that share Σ x^k for every k < n, n = 2 … 10 and 12",
    ),
)

_CONE = "theorem_1.ml"

HOL_LIGHT_THEOREMS = (
    Theorem(
        "theorem1",
        "Theorem 1",
        _CONE,
        "THEOREM_1_ON_THE_CONE",
        "for all n and all m < n continuous functions on {x_1 ≤ … ≤ x_n}, two different points on which they agree",
    ),
    Theorem(
        "theorem1",
        "Theorem 1",
        _CONE,
        "SORTED_IS_UNIQUE",
        "a multiset of n reals is one point of that cone only",
    ),
    Theorem(
        "theorem1",
        "Theorem 1",
        _CONE,
        "SORTED_EXISTS",
        "and it is a point of it",
    ),
    Theorem(
        "theorem1",
        "Theorem 1",
        _CONE,
        "THEOREM_1",
        "for all n and all m < n continuous symmetric functions, two multisets of n reals on which they agree",
    ),
)

THEOREMS = COQ_THEOREMS + HOL_LIGHT_THEOREMS
"""Everything that is proved formally; `prove` compares it with the files and with what the tools print."""

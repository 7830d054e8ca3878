"""Verdicts on the claims of a paper: tests, intervals, corrections, power, and the rule that turns them into a word.

The engine knows no particular paper and imports numpy and scipy only. docs/your_paper.md shows it at work.
"""

try:
    import scipy  # noqa: F401
except ModuleNotFoundError as error:
    words = 'pna.verdicts needs scipy, which is not installed: pip install "pna[verdicts]"'
    raise ModuleNotFoundError(words, name="scipy") from error

from pna.verdicts.claims import Claim, Finding, claims_markdown, claims_text
from pna.verdicts.planning import claim_power, equivalence_power, fewest_seeds, power
from pna.verdicts.rules import WORDS, Comparison, Decision, Ruling, fact, inside, less, majority, rule, same
from pna.verdicts.statistics import Estimate, best_mean, combined, fisher, holm, mean_of, sample_mean

__all__ = ["WORDS", "Claim", "Comparison", "Decision", "Estimate", "Finding", "Ruling"]
__all__ += ["best_mean", "claim_power", "claims_markdown", "claims_text", "combined", "equivalence_power", "fact"]
__all__ += ["fewest_seeds", "fisher", "holm", "inside", "less", "majority", "mean_of", "power", "rule", "same"]
__all__ += ["sample_mean"]

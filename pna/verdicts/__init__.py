"""Verdicts on the claims of a paper: tests, intervals, corrections, power, and the rule that turns them into a word.

The engine knows no particular paper and imports numpy and scipy only. docs/your_paper.md shows it at work.
"""

try:
    import scipy  # noqa: F401
except ModuleNotFoundError as error:
    words = 'pna.verdicts needs scipy, which is not installed: pip install "pna[verdicts]"'
    raise ModuleNotFoundError(words, name="scipy") from error

from pna.verdicts.claims import Claim, Finding, claims_markdown, claims_text
from pna.verdicts.contrasts import Contrast, Sample, mean_contrast
from pna.verdicts.planning import claim_power, equivalence_power, fewest_seeds, planned, power, t_power
from pna.verdicts.rules import WORDS, Comparison, Decision, Ruling, fact, inside, less, majority, rule, same
from pna.verdicts.statistics import Estimate, best_mean, combined, conjunction, fisher, holm, mean_of, sample_mean

__all__ = ["WORDS", "Claim", "Comparison", "Contrast", "Decision", "Estimate", "Finding", "Ruling", "Sample"]
__all__ += ["best_mean", "claim_power", "claims_markdown", "claims_text", "combined", "conjunction"]
__all__ += ["equivalence_power", "fact", "fewest_seeds", "fisher", "holm", "inside", "less", "majority"]
__all__ += ["mean_contrast", "mean_of", "planned", "power", "rule", "same", "sample_mean", "t_power"]

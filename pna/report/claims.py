"""Every claim of the paper as a frozen table: where it stands, and the test behind its verdict.

A claim about trainings is a list of comparisons within one budget: "this model's error is less than that one's". Each
is an interval over seeds (pna/report/scores.py): it holds, fails, or cannot be decided. The verdict on the paper is
given by the paper's full budget alone; less than that shows a direction and says "not yet run at full budget".
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pna.experiments import SPECS
from pna.report import comparisons as tests
from pna.report import realworld_claims as realworld
from pna.report import structure
from pna.report.runs import RECORDED, Runs, runs_of
from pna.report.style import budget_text
from pna.report.theory import Outcome, outcomes

__all__ = ["CLAIMS", "NOT_RUN", "VERDICTS", "Claim", "Finding", "judge"]

NOT_RUN = "not yet run at full budget"
VERDICTS = ("reproduced", "partly", "not", "undecided", NOT_RUN, "not tested")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper in our words, where it stands, and what decides it: exactly one of the last five."""

    id: str
    sentence: str
    where: str
    experiment: str | None = None
    test: Callable[[Runs], tests.Evidence] | None = None
    check: tuple[str, ...] = ()
    fact: Callable[[], tests.Evidence] | None = None
    realworld: Callable[[str], tests.Evidence] | None = None
    untested: str = ""


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict under one specification ("" where there is but one)."""

    claim: Claim
    spec: str
    verdict: str
    outcome: str
    evidence: str
    budget: str = ""


CLAIMS: tuple[Claim, ...] = (
    # ---- theory ----
    Claim("fails", "Aggregators fail to tell apart neighbourhoods that others tell apart", "section 2.1, figure 1",
          check=("Figure 1:", "PNA's four aggregators fail")),
    Claim("theorem1", "At least n aggregators are needed to tell apart multisets of n reals", "theorem 1, appendix A",
          check=("Theorem 1",)),
    Claim("suffice", "n aggregators are enough: the order statistics", "appendix A, note",
          check=("n aggregators suffice",)),
    Claim("proposition1", "The n moments are a valid example of n aggregators", "proposition 1, appendix B",
          check=("Proposition 1",)),
    Claim("sum-continuous", "On continuous features, sum is not injective", "section 2.1",
          check=("Sum fails on continuous",)),
    Claim("theorem2", "The mean with an injective scaler can be injective on bounded multisets of countable elements",
          "theorem 2, appendix C", check=("Theorem 2",)),
    Claim("sum-is-scaled", "Sum is the mean times a linear scaler", "section 2.2", check=("Sum is the mean",)),
    Claim("depth", "A linear scaler amplifies exponentially with depth; a logarithmic one does so much less",
          "section 2.2", check=("Scalers over depth",)),
    Claim("scaler-injective", "The logarithmic scaler S(d, α) is injective for d > 0", "section 2.2, equation 6",
          check=("S(d, α) is injective",)),
    Claim("linear-moments", "With the n-th root, moments scale linearly with the elements; the other two forms do not",
          "appendix D", check=("Moments of U",)),
    Claim("limits", "max and min are limits of root moments of positive values", "appendix D",
          check=("max and min as",)),
    Claim("softmax", "softmax and softmin are smooth stand-ins between mean and extreme", "appendix E",
          check=("softmax and softmin",)),
    Claim("softmax-worse", "softmax and softmin do not perform as well as max and min", "section 2.1",
          untested="the paper gives no figure for it, and no cell of it is run"),
    # ---- the networks and the data ----
    Claim("width", "U takes 13F numbers for each node and gives F", "section 2.3", fact=structure.width),
    Claim("more-parameters", "PNA has about 15 % more parameters than the other models", "section 5.1",
          fact=structure.more_parameters),
    Claim("larger-others", "With 20 features, the other models have 30 % more parameters than PNA with 16",
          "section 5.1", fact=structure.larger_others),
    Claim("counts", "The networks have the parameters of the released ones", "appendix K", fact=structure.counts),
    Claim("baseline", "The baseline's errors are those published (test graphs of 15 to 24 nodes)", "figure 4b",
          fact=structure.baseline),
    # ---- the multi-task benchmark ----
    Claim("best", "PNA consistently outperforms the other models", "section 5.1, figure 4a", "figure4", tests.pna_best),
    Claim("all-tasks", "PNA performs better on all tasks", "section 5.1, figure 4b", "figure4",
          tests.pna_best_on_tasks),
    Claim("aggregators", "Several aggregators are better than one: PNA without scalers against both MPNN",
          "sections 2.3 and 5.1", "figure4", tests.several_aggregators),
    Claim("scalers", "Scalers improve on aggregators alone", "figure 4", "figure4", tests.scalers_help),
    Claim("published-4b", "The published errors of figure 4b are met, relative to the baseline", "figure 4b", "figure4",
          tests.like_published),
    # ---- extrapolation ----
    Claim("extrapolates", "PNA outperforms all other models on all sizes of graphs", "section 5.1, figure 5", "figure5",
          tests.pna_extrapolates),
    Claim("max-extrapolates", "Among single aggregators, max extrapolates best", "section 5.1, figure 5", "figure5",
          tests.max_extrapolates),
    Claim("worsens", "Relative to the baseline, performance gradually worsens with size", "section 5.1, figure 5",
          "figure5", tests.worsens),
    Claim("explodes", "Some models have feature explosions", "section 5.1, figure 5", "figure5", tests.explodes),
    # ---- the appendix ----
    Claim("more-moments", "More moments are better at first: three against one", "appendix D", "moments",
          tests.more_moments),
    Claim("too-many-moments", "Beyond about three, more moments no longer help: five against three", "appendix D",
          "moments", tests.too_many_moments),
    Claim("pna-moments", "PNA's max and min are better than higher moments", "appendix D", "moments",
          tests.pna_moments),
    Claim("all-types", "PNA improves on all types of graphs", "section 5.1, appendix H", "graph-types",
          tests.all_types),
    Claim("lines-hardest", "PNA is worst on graphs of large diameter, above all near lines", "appendix H",
          "graph-types", tests.lines_hardest),
    Claim("both-architectures", "PNA is best in the standard architecture, too", "section 5.1, appendix I", "standard",
          tests.best_in_standard),
    Claim("same-rank", "The architecture does not change the rank between the models", "appendix I", "standard",
          tests.same_rank),
    Claim("recurrent-better", "The recurrent architecture is the better one for every model", "section 3, appendix I",
          "standard", tests.recurrent_better),
    Claim("gru-s2s", "GRU helps most the models without a skip connection, S2S those without scalers", "appendix I",
          untested="the two architectures differ in GRU, readout, skips and depth at once: no figure separates them"),
    Claim("single-trend", "Trained on single tasks, PNA is best as well", "section 5.1, appendix J", "single-task",
          tests.best_in_single),
    Claim("amplifies", "Multi-task training amplifies the differences between the models", "section 5.1", "single-task",
          tests.amplifies),
    Claim("no-scalers-benefit", "Models without scalers or sum benefit most from multi-task training", "appendix J",
          "single-task", tests.no_scalers_benefit),
    Claim("not-parameters", "With 20 features, the other models are still worse than PNA with 16", "appendix K",
          "parameters", tests.not_parameters),
    Claim("no-boost", "More parameters do not boost the other models", "appendix K", "parameters", tests.no_boost),
    # ---- real-world benchmarks ----
    Claim("zinc", "PNA is the best model on ZINC, with and without edge features", "section 5.2, figure 6",
          realworld=realworld.zinc),
    Claim("molhiv", "PNA is the best model on MolHIV", "section 5.2, figure 6", realworld=realworld.molhiv),
    Claim("zinc-scalers", "On molecules, PNA without scalers suffers", "section 5.2", realworld=realworld.zinc_scalers),
    Claim("vision-scalers", "On CIFAR10 and MNIST, PNA is better without scalers", "section 5.2",
          realworld=realworld.vision_scalers),
    Claim("most-tasks", "PNA, with or without scalers, outperforms the other models on most real-world tasks",
          "sections 1 and 5.2", realworld=realworld.most),
)  # fmt: skip


def judge(profile: str = RECORDED) -> list[Finding]:
    """All claims with their verdicts under both specifications."""
    return [finding for claim in CLAIMS for finding in _judge(claim, profile)]


def _judge(claim: Claim, profile: str) -> list[Finding]:
    if claim.untested:
        return [Finding(claim, "", "not tested", "", claim.untested)]
    if claim.check:
        return [_from_checks(claim)]
    if claim.fact:
        return [_plain(claim, claim.fact())]
    if claim.realworld:
        return [_plain(claim, claim.realworld(profile))]
    return [_from_runs(claim, runs_of(claim.experiment, spec, profile)) for spec in SPECS]


def _from_checks(claim: Claim) -> Finding:
    rows = [row for row in outcomes() if row.statement.startswith(claim.check)]
    if not rows:
        return Finding(claim, "", "not tested", "", outcomes()[0].evidence)
    failed = [row for row in rows if row.status == "FAILS"]
    held, measured = (sum(row.status == status for row in rows) for status in ("holds", "measured"))
    caveats = "; ".join(dict.fromkeys(row.caveat for row in rows if row.caveat))
    text = "; ".join(f"{row.statement}: {row.evidence}" for row in failed) or f"{_kinds(rows)}; {caveats}".rstrip("; ")
    outcome = "fails" if failed else "holds"
    count = f"{held} of {len(rows)} checks hold" + f", {measured} is a measurement" * bool(measured)
    return Finding(claim, "", "not" if failed else "reproduced", outcome, f"{count}; {text}")


def _kinds(rows: Sequence[Outcome]) -> str:
    """Which kinds of evidence there are, with their numbers: "2 proved formally, 3 certified interval"."""
    return ", ".join(f"{n} {kind}" for kind, n in Counter(row.kind for row in rows).items())


def _plain(claim: Claim, evidence: tests.Evidence) -> Finding:
    verdict = _VERDICTS[evidence.outcome] if evidence.full else NOT_RUN
    return Finding(claim, "", verdict, evidence.outcome, evidence.text, evidence.budget)


def _from_runs(claim: Claim, runs: Runs) -> Finding:
    evidence = claim.test(runs)
    verdict = _VERDICTS[evidence.outcome] if runs.full else NOT_RUN
    return Finding(claim, runs.spec, verdict, evidence.outcome, evidence.text, budget_text(runs))


_VERDICTS = {"holds": "reproduced", "partly": "partly", "fails": "not", "undecided": "undecided", "no runs": NOT_RUN}

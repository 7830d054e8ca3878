"""Every claim of the paper as a frozen table: where it stands, and the test that decides it.

A claim about trainings consists of comparisons within one budget, such as "this model's error is less than that one's".
Only the paper's full budget gives a verdict; a smaller one shows a direction and says "not yet run at full budget".
pna/verdicts/rules.py has the one rule for verdicts and says what their words mean.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pna.experiments import SPECS
from pna.figures.realworld import budget_lines, figure6_runs
from pna.figures.runs import RECORDED, RecordedRun, Runs, recorded_path, runs_of
from pna.figures.scores import WIDER, widened
from pna.figures.style import budget_text
from pna.figures.theory import Outcome, outcomes
from pna.places import results_folder
from pna.verdicts import claims as verdicts
from pna.verdicts.claims import Finding
from pna.verdicts.rules import NOT_TESTED, Comparison, fact, rule
from report import comparisons as tests
from report import realworld_claims as real
from report import structure

__all__ = ["CLAIMS", "Claim", "Finding", "judge"]

_ABSENT = "not in the released code"
_NO_STANDARD = "its flags give another standard network: Set2Set on 130 features, 299,758 parameters"
_NO_SINGLE = "it trains node tasks or graph tasks together, no task alone"


@dataclass(frozen=True)
class Claim(verdicts.Claim):
    """A claim of this paper. Exactly one of `test`, `checked`, `fact` and `realworld` decides it.

    Attributes:
        checked: decided by the statements of verification/ whose topic it is
        fact: makes its comparisons without any training
        realworld: makes its comparisons from the scores of figure 6
        experiment: the experiment that `test` reads, if it is not the figure's
        specs: the specifications that `test` is run on
        wider: whether the released networks, too, are tested on 15 to 24 nodes, as the published ones are
        absent: why the released code has no such training
        slips: slips in the printed statement or proof, by their names in verification/
    """

    checked: bool = False
    fact: Callable[[], list[Comparison]] | None = None
    realworld: real.Figure6Claim | None = None
    experiment: str = ""
    specs: tuple[str, ...] = SPECS
    wider: bool = False
    absent: str = ""
    slips: tuple[str, ...] = ()

    @property
    def source(self) -> Callable | None:
        """The function that makes its comparisons; None for a claim that verification/ checks."""
        return self.test or self.fact or (self.realworld and self.realworld.test)


CLAIMS: tuple[Claim, ...] = (
    # ---- theory ----
    Claim("fails", "Aggregators fail to tell apart neighbourhoods that others tell apart", "section 2.1, figure 1",
          "figure1", checked=True),
    Claim("theorem1", "At least n aggregators are needed to tell apart multisets of n reals", "theorem 1, appendix A",
          "theory", checked=True),
    Claim("suffice", "n aggregators are enough: the order statistics", "appendix A, note", "theory",
          checked=True),
    Claim("proposition1", "The n moments are a valid example of n aggregators", "proposition 1, appendix B", "theory",
          checked=True, slips=("index",)),
    Claim("sum-continuous", "On continuous features, sum is not injective", "section 2.1", "theory",
          checked=True),
    Claim("theorem2", "The mean with an injective scaler can be injective on bounded multisets of countable elements",
          "theorem 2, appendix C", "theory", checked=True, slips=("gamma", "Z")),
    Claim("sum-is-scaled", "Sum is the mean times a linear scaler", "section 2.2", "theory",
          checked=True),
    Claim("depth", "A linear scaler amplifies exponentially with depth; a logarithmic one does so much less",
          "section 2.2", "theory", checked=True),
    Claim("scaler-injective", "The logarithmic scaler S(d, α) is injective for d > 0", "section 2.2, equation 6",
          "theory", checked=True),
    Claim("linear-moments", "With the n-th root, moments scale linearly with the elements; the other two forms do not",
          "appendix D", "theory", checked=True),
    Claim("limits", "max and min are limits of root moments of positive values", "appendix D", "theory",
          checked=True),
    Claim("softmax", "softmax and softmin are smooth stand-ins between mean and extreme", "appendix E", "theory",
          checked=True),
    # ---- the networks and the data ----
    Claim("width", "U takes 13F numbers for each node and gives F", "section 2.3", "figure2", fact=structure.width),
    Claim("more-parameters", "PNA has about 15 % more parameters than the other models", "section 5.1", "parameters",
          fact=structure.more_parameters),
    Claim("larger-others", "With 20 features, the other models have 30 % more parameters than PNA with 16",
          "section 5.1", "parameters", fact=structure.larger_others),
    Claim("counts", "The networks have the parameters of the released ones", "appendix K", "parameters",
          fact=structure.counts),
    # ---- the multi-task benchmark ----
    Claim("best", "PNA consistently outperforms the other models",
          "section 5.1, figure 4a, by log10 of the mean MSE over tasks", "figure4", test=tests.pna_best),
    Claim("all-tasks", "PNA performs better on all tasks", "section 5.1, figure 4b", "figure4",
          test=tests.pna_best_on_tasks),
    Claim("aggregators", "Several aggregators are better than one: PNA without scalers against both MPNNs",
          "sections 2.3 and 5.1, by the mean of log10 MSE", "figure4", test=tests.several_aggregators),
    Claim("scalers", "Scalers improve on aggregators alone", "figure 4b, by the mean of log10 MSE", "figure4",
          test=tests.scalers_help),
    Claim("softmax-worse", "softmax and softmin do not perform as well as max and min",
          "section 2.1, by the mean of log10 MSE", "figure4", test=tests.softmax_worse, experiment="softmax"),
    Claim("baseline", "The baseline's errors are those published (test graphs of 15 to 24 nodes)", "figure 4b",
          "figure4", fact=structure.baseline),
    Claim("published-averages", "The published averages of figure 4b are the released code's, to a factor of two",
          "figure 4b", "figure4", test=tests.like_published_averages, specs=("released",), wider=True),
    Claim("published-tasks", "The published errors of each task are the released code's, to a factor of two",
          "figure 4b", "figure4", test=tests.like_published_tasks, specs=("released",), wider=True),
    # ---- extrapolation ----
    Claim("extrapolates", "PNA outperforms all other models on all sizes of graphs", "section 5.1, figure 5",
          "figure5", test=tests.pna_extrapolates),
    Claim("max-extrapolates", "Among single aggregators, max extrapolates best", "section 5.1, figure 5", "figure5",
          test=tests.max_extrapolates),
    Claim("worsens", "Relative to the baseline, performance gradually worsens with size", "section 5.1, figure 5",
          "figure5", test=tests.worsens),
    Claim("explodes", "Some models have feature explosions", "section 5.1, figure 5", "figure5", test=tests.explodes,
          need=1),
    Claim("published-5", "The published lines of figure 5 are the released code's, to a factor of two", "figure 5",
          "figure5", test=tests.like_published_sizes, specs=("released",)),
    # ---- the appendix ----
    Claim("more-moments", "More moments are better at first: three against one", "appendix D", "moments",
          test=tests.more_moments),
    Claim("too-many-moments", "Beyond about three, more moments no longer help: four and five against three",
          "appendix D", "moments", test=tests.too_many_moments),
    Claim("pna-moments", "PNA's max and min are better than higher moments", "appendix D", "moments",
          test=tests.pna_moments),
    Claim("all-types", "PNA improves on all types of graphs", "section 5.1, appendix H", "graph-types",
          test=tests.all_types),
    Claim("lines-hardest", "PNA is worst on graphs of large diameter, above all near lines", "appendix H",
          "graph-types", test=tests.lines_hardest),
    Claim("both-architectures", "PNA is best in the standard architecture, too", "section 5.1, appendix I", "standard",
          test=tests.best_in_standard, absent=_NO_STANDARD),
    Claim("same-rank", "The architecture does not change the rank between the models", "appendix I", "standard",
          test=tests.same_rank, absent=_NO_STANDARD),
    Claim("recurrent-better", "The recurrent architecture is the better one for every model", "section 3, appendix I",
          "standard", test=tests.recurrent_better, absent=_NO_STANDARD),
    Claim("gru", "The models without a skip connection, GAT, GCN and GIN, gain most from the GRU", "appendix I",
          "standard", test=tests.gru_helps, experiment="ablations", specs=("described",)),
    Claim("s2s", "The models that cannot count, without scalers or sum, gain most from S2S", "appendix I", "standard",
          test=tests.s2s_helps, experiment="ablations", specs=("described",)),
    Claim("single-trend", "Trained on single tasks, PNA is best as well", "section 5.1, appendix J", "single-task",
          test=tests.best_in_single, absent=_NO_SINGLE),
    Claim("amplifies", "Multi-task training amplifies the differences between the models", "section 5.1",
          "single-task", test=tests.amplifies, absent=_NO_SINGLE),
    Claim("no-scalers-benefit", "Models without scalers or sum benefit most from multi-task training", "appendix J",
          "single-task", test=tests.no_scalers_benefit, absent=_NO_SINGLE),
    Claim("not-parameters", "With 20 features, the other models are still worse than PNA with 16", "appendix K",
          "parameters", test=tests.not_parameters),
    Claim("no-boost", "More parameters do not boost the other models", "appendix K", "parameters", test=tests.no_boost),
    # ---- real-world benchmarks ----
    Claim("zinc", "PNA is the best model on ZINC, with and without edge features", "section 5.2, figure 6", "figure6",
          realworld=real.ZINC),
    Claim("molhiv", "PNA is the best model on MolHIV", "section 5.2, figure 6", "figure6", realworld=real.MOLHIV),
    Claim("zinc-scalers", "On molecules, PNA without scalers suffers", "section 5.2", "figure6",
          realworld=real.ZINC_SCALERS),
    Claim("vision-scalers", "On CIFAR10 and MNIST, PNA is better without scalers", "section 5.2", "figure6",
          realworld=real.VISION_SCALERS),
    Claim("most-tasks", "PNA, with or without scalers, outperforms the other models on most real-world tasks",
          "sections 1 and 5.2", "figure6", realworld=real.MOST),
)  # fmt: skip


def judge(profile: str = RECORDED) -> list[Finding]:
    """All claims with their verdicts, those about trainings under each specification."""
    return [finding for claim in CLAIMS for finding in findings_of(claim, profile)]


def findings_of(claim: Claim, profile: str) -> list[Finding]:
    """The verdicts on one claim."""
    if claim.checked:
        return [_from_checks(claim)]
    if claim.fact:
        return [Finding.of(claim, rule(claim.fact()))]
    if claim.realworld:
        return [_from_realworld(claim, profile)]
    return [_from_runs(claim, runs_of(claim.experiment or claim.figure, spec, profile)) for spec in claim.specs]


def _from_runs(claim: Claim, runs: Runs) -> Finding:
    finding = claim.judge(runs, complete=runs.full, spec=runs.spec, cells=tuple(map(_file, runs.found.values())))
    budget = budget_text(runs) + _sizes(claim, runs, finding.outcome) + runs.diverged
    if runs.spec != "released" or not claim.absent:
        return replace(finding, budget=budget)
    evidence = f"{claim.absent}; the paper's, with its departures: {finding.outcome}, {finding.evidence}"
    return replace(finding, kind=_ABSENT, verdict=_ABSENT, evidence=evidence, budget=budget)


def _sizes(claim: Claim, runs: Runs, outcome: str) -> str:
    """The sizes of a claim's test graphs; as released, also whether those of 15 to 24 nodes give the same verdict."""
    if claim.figure == "figure5" or runs.profile.size_step > 1 or not runs.found:
        return ""  # its comparisons name their sizes; a thinned data set has others
    wide = all(WIDER in run.splits for run in runs.found.values())
    if runs.spec == "described" or (claim.wider and wide):
        return "; test graphs of 15-24 nodes"
    words = "; test graphs of 15-19 nodes, as in the released code"
    if claim.figure == "graph-types" or not wide:
        return words
    wider = claim.judge(widened(runs)).outcome
    return f"{words} (on 15-24: {'the same verdict' if wider == outcome else wider})"


def _file(run: RecordedRun) -> str:
    return recorded_path(run.cell, run.profile).relative_to(results_folder()).as_posix()


def _from_realworld(claim: Claim, profile: str) -> Finding:
    ours, asked = figure6_runs(profile), claim.realworld
    found = {place: score for place, score in ours.items() if place[1] in asked.columns}
    full = all(place in ours for place in asked.places) and all(score.full for score in found.values())
    ruling = rule(asked.test(ours), asked.need)
    text = f"{ruling.text}; {real.published_says(asked)}"
    cells = tuple(score.file for score in found.values())
    budget = "; ".join(budget_lines(ours, asked.columns))
    finding = replace(Finding.of(claim, ruling, full, budget=budget, cells=cells), evidence=text)
    other = full and not all(score.official for score in found.values())
    return replace(finding, verdict=f"{finding.verdict}, training set not official") if other else finding


def _from_checks(claim: Claim) -> Finding:
    rows = [row for row in outcomes() if row.topic == claim.id]
    if not rows:
        return Finding(claim, NOT_TESTED, NOT_TESTED, NOT_TESTED, outcomes()[0].evidence)
    finding = Finding.of(claim, rule(fact(row.statement, row.status != "FAILS") for row in rows))
    if finding.kind != "reproduced":
        return replace(finding, evidence="; ".join(f"{row.statement}: {row.evidence}" for row in rows))
    # Instances and samples settle nothing by themselves, nor does a proof that is not recorded.
    proved = any(row.verdict in ("reproduced", "holds after repair") for row in rows)
    settled = proved and all(row.status != "not checked" for row in rows)
    kind = "undecided" if not settled else "holds after repair" if claim.slips else "reproduced"
    caveats = "; ".join(dict.fromkeys(row.caveat for row in rows if row.caveat))
    evidence = f"{_kinds(rows)}; {caveats}".rstrip("; ")
    return replace(finding, kind=kind, verdict=kind, outcome=kind, evidence=evidence)


def _kinds(rows: Sequence[Outcome]) -> str:
    """The kinds of evidence with their numbers: "2 proved formally, 3 certified interval"."""
    return ", ".join(f"{n} {kind}" for kind, n in Counter(row.kind for row in rows).items())

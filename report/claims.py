"""Every claim of the paper as a frozen table: where it stands, and the test that decides it.

A claim about trainings consists of comparisons within one budget, such as "this model's error is less than that one's",
and is decided by one aggregate test of them, which is a row of data here (`Aggregate`). Only the paper's full budget
gives a verdict; a smaller one shows a direction and says "not yet run at full budget". pna/verdicts/rules.py has the
one rule for verdicts and says what their words mean. report/plan.py writes the tests down with the seeds they need.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pna.experiments import SPECS
from pna.experiments.plan import planned_test
from pna.figures.realworld import COLUMNS, Place, budget_lines, figure6_runs
from pna.figures.runs import RECORDED, RecordedRun, Runs, recorded_path, runs_of
from pna.figures.scores import WIDER, score, widened, wider_split
from pna.figures.style import budget_text
from pna.figures.theory import Outcome, outcomes
from pna.places import results_folder
from pna.realworld.data.datasets import DATASETS
from pna.verdicts import claims as verdicts
from pna.verdicts.claims import Finding
from pna.verdicts.rules import NOT_RUN, NOT_TESTED, UNDECIDED, Comparison, Ruling, fact, number, rule
from pna.verdicts.statistics import LEVEL
from report import comparisons as tests
from report import realworld_claims as real
from report import structure
from report.coverage import SINGLE, kept_table
from report.markup import listed
from report.parts import Aggregate, Part

__all__ = ["ABSENT", "CLAIMS", "Claim", "Finding", "judge"]

ABSENT = "not in the released code"
_NO_STANDARD = (
    "The released code's options build another standard network, with Set2Set on 130 features and 299,758 parameters."
)
_NO_SINGLE = "The released code trains the node tasks or the graph tasks together, but no task alone."


@dataclass(frozen=True)
class Claim(verdicts.Claim):
    """A claim of this paper. Exactly one of `test`, `checked`, `fact`, `realworld` and `reason` decides it.

    Attributes:
        by: the aggregate test of a claim about trainings
        checked: decided by the statements of verification/ whose topic it is
        fact: makes its comparisons without any training
        realworld: makes its comparisons from the scores of figure 6
        experiment: the experiment that `test` reads, if it is not the figure's
        specs: the specifications that `test` is run on
        wider: whether the released networks, too, are tested on 15 to 24 nodes, as the published ones are
        absent: why the released code has no such training, in a sentence
        slips: slips in the printed statement or proof, by their names in verification/
        finding: whether it is no sentence of the paper, but something that the runs show
        together: whether it also judges figure 4's networks, of which it takes the seeds of its other cells' budget
        alone: whether it compares scores of networks trained on single tasks, whose intervals cover less
    """

    by: Aggregate | None = None
    checked: bool = False
    fact: Callable[[], list[Comparison]] | None = None
    realworld: real.Figure6Claim | None = None
    experiment: str = ""
    specs: tuple[str, ...] = SPECS
    wider: bool = False
    absent: str = ""
    slips: tuple[str, ...] = ()
    finding: bool = False
    together: bool = False
    alone: bool = False

    def __post_init__(self) -> None:
        """Take the words of the aggregate test as the claim's test in words."""
        object.__setattr__(self, "statistic", self.by.statistic if self.by else "")

    @property
    def source(self) -> Callable | None:
        """The function that makes its comparisons; None for a claim that verification/ checks."""
        return self.test or self.fact or (self.realworld and self.realworld.test)

    def ruling(self, parts: Sequence[Part], scaled: Sequence[Part] = ()) -> Ruling:
        """The verdict of the claim's aggregate test on its parts; `scaled` are these in the unit that is averaged."""
        tests = self.by.parts(scaled or parts)
        return rule([part.comparison for part in parts], self.by.need, [part.comparison for part in tests])


_MODELS = Aggregate("PNA minus each other model: below zero for every model", ("model",))
_PUBLISHED = Aggregate(
    "ours minus published, with figure 4a's spread, mean over the seven models: within the margin of no difference",
    margin=tests.MARGIN,
)


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
    Claim("scaler-injective", "The logarithmic scaler S(d, α) is injective for d > 0 and α ≠ 0",
          "section 2.2, equation 6", "theory", checked=True),
    Claim("linear-moments", "With the n-th root, moments scale linearly with the elements; the other two forms do not",
          "appendix D", "theory", checked=True),
    Claim("limits", "max and min are limits of root moments of positive values", "appendix D", "theory",
          checked=True),
    Claim("softmax", "softmax and softmin are smooth stand-ins between mean and extreme", "appendix E", "theory",
          checked=True),
    # ---- the networks and the data ----
    Claim("width", "U takes 13F numbers for each node and gives F", "section 2.3", "figure2", fact=structure.width),
    Claim("more-parameters", "PNA has about 15 % more parameters than the other models", "section 5.1", "parameters",
          fact=structure.more_parameters, aggregate=structure.more_parameters_on_average),
    Claim("larger-others", "With 20 features, the other models have 30 % more parameters than PNA with 16",
          "section 5.1", "parameters", fact=structure.larger_others, aggregate=structure.larger_others_on_average),
    Claim("counts", "The networks have the parameters of the released ones", "appendix K", "parameters",
          fact=structure.counts),
    Claim("efficient", "The recurrent architecture is parameter-efficient: fewer parameters than the standard one",
          "sections 1 and 3", "parameters", fact=structure.fewer_than_standard),
    Claim("toggling", "Toggling edges does not strongly change the average degree", "appendix G", "benchmark",
          fact=structure.toggling, aggregate=structure.toggling_as_described),
    Claim("linear", "Linear M and U are enough", "section 2.3, appendix F", "figure2",
          reason="No network with a deeper M or U is trained here, and the paper shows none either."),
    Claim("towers", "Towers improve generalisation", "section 2.3", "figure2",
          reason="No network without towers is trained here, and the paper shows none either."),
    Claim("weights", "GNNs need multiple weights per node, as demonstrated in theorem 1", "section 2.3", "theory",
          reason="This does not follow from theorem 1, which is about the number of aggregators and not of weights."),
    Claim("weight-sharing", "Weight sharing works well on all tasks", "section 3", "standard",
          reason="The standard architecture differs from the recurrent one in more than shared weights, so no training "
          "here shows the effect of sharing alone."),
    Claim("over-smoothing", "The GRU helps to avoid over-smoothing", "appendix I", "standard",
          reason="Over-smoothing means that the nodes' features become alike layer by layer, which is not recorded. "
          "The effect of the GRU on the error is tested."),
    # ---- the multi-task benchmark ----
    Claim("best", "PNA consistently outperforms the other models",
          "section 5.1, figure 4a, by log10 of the mean MSE over tasks", "figure4", test=tests.pna_best, by=_MODELS),
    Claim("all-tasks", "PNA performs better on all tasks", "section 5.1, figure 4b", "figure4",
          test=tests.pna_best_on_tasks,
          by=Aggregate("PNA minus the mean of the six other models: below zero on every task", ("task",))),
    Claim("aggregators", "Several aggregators are better than one: PNA without scalers against both MPNNs",
          "sections 2.3 and 5.1, by the mean of log10 MSE", "figure4", test=tests.several_aggregators,
          by=Aggregate("PNA without scalers minus each MPNN: below zero for both", ("model",))),
    Claim("scalers", "Scalers improve on aggregators alone", "figure 4b, by the mean of log10 MSE", "figure4",
          test=tests.scalers_help, by=Aggregate("PNA minus PNA without scalers: below zero")),
    Claim("softmax-worse", "softmax and softmin do not perform as well as max and min",
          "section 2.1, by the mean of log10 MSE", "figure4", test=tests.softmax_worse, experiment="softmax",
          by=Aggregate("PNA minus PNA with softmax and softmin: below zero")),
    Claim("baseline", "The baseline's errors are those published (test graphs of 15 to 24 nodes)", "figure 4b",
          "figure4", fact=structure.baseline, aggregate=structure.baseline),
    Claim("published-boxes", "On average over the models, figure 4a's published means are the released code's",
          "figure 4a", "figure4", test=tests.like_published_boxes, specs=("released",), wider=True,
          by=_PUBLISHED),
    Claim("published-averages", "On average over the models, figure 4b's published averages are the released code's",
          "figure 4b", "figure4", test=tests.like_published_averages, specs=("released",), wider=True,
          by=_PUBLISHED),
    Claim("published-tasks",
          "On average over the models, the published errors of each task are the released code's, to a factor of two",
          "figure 4b", "figure4", test=tests.like_published_tasks, specs=("released",), wider=True,
          by=Aggregate("ours minus published, mean over the seven models: within the tolerance on every task",
                       ("task",))),
    # ---- extrapolation ----
    Claim("extrapolates", "On average over the sizes of graphs, PNA outperforms every other model",
          "section 5.1, figure 5", "figure5", test=tests.pna_extrapolates,
          by=Aggregate("PNA minus each other model, mean over the six sizes: below zero for every model", ("model",))),
    Claim("beyond", "PNA outperforms the other models on graphs larger than the paper's, of 60 to 99 nodes",
          "figure 5, continued with the released code's three larger test sets", "figure5", test=tests.pna_beyond,
          finding=True,
          by=Aggregate("PNA minus each other model, mean over the three sizes: below zero for every model",
                       ("model",))),
    Claim("beats-baseline", "On graphs much larger than those of training, PNA outperforms the baseline",
          "Broader Impact", "figure5", test=tests.below_baseline,
          by=Aggregate("log10 of PNA's error relative to the baseline's: below zero at every size of figure 5",
                       ("size",))),
    Claim("max-extrapolates", "Among single aggregators, max extrapolates best", "section 5.1, figure 5", "figure5",
          test=tests.max_extrapolates,
          by=Aggregate("MPNN (max) minus each other model of one aggregator, mean over the five sizes beyond those of "
                       "training: below zero for every model", ("model",))),
    Claim("worsens", "Relative to the baseline, performance gradually worsens with size", "section 5.1, figure 5",
          "figure5", test=tests.worsens,
          by=Aggregate("20 to 24 nodes minus 45 to 49 nodes, mean over the six models: below zero")),
    Claim("explodes", "Some models have feature explosions", "section 5.1, figure 5", "figure5", test=tests.explodes,
          by=Aggregate("more than half of a model's runs above ten times the baseline's error at 45 to 49 nodes: in at "
                       "least one model, by a sign test", ("model",), need=1)),
    Claim("published-5",
          "On average over models and sizes, figure 5's published lines are the released code's, to a factor of two",
          "figure 5", "figure5", test=tests.like_published_sizes, specs=("released",),
          by=Aggregate("ours minus published, mean over the models and the six sizes: within the tolerance")),
    # ---- the appendix ----
    Claim("more-moments", "More moments are better at first: three against one", "appendix D", "moments",
          test=tests.more_moments, by=Aggregate("three moments minus one: below zero")),
    Claim("too-many-moments", "Beyond about three, more moments reduce the performance: four and five against three",
          "appendix D", "moments", test=tests.too_many_moments,
          by=Aggregate("three moments minus the mean of four and five: below zero")),
    Claim("moments-level", "Beyond three, more moments gain no more than the margin", "appendix D, in weaker words",
          "moments", test=tests.no_gain_from_moments,
          by=Aggregate("three moments minus the mean of four and five: below the margin")),
    Claim("pna-moments", "PNA's max and min are better than higher moments", "appendix D", "moments",
          test=tests.pna_moments, by=Aggregate("PNA minus the mean of three, four and five moments: below zero")),
    Claim("pna-consistent", "PNA's max and min are more consistent than higher moments", "appendix D", "moments",
          test=tests.pna_consistent,
          by=Aggregate("log10 of the standard deviation over seeds, PNA minus the mean of three, four and five "
                       "moments: below zero", spread=True)),
    Claim("moments-degrees", "Higher moments help more on graphs of higher average degree", "appendix D", "moments",
          test=tests.moments_and_degrees,
          quote="We expect that higher moments will be more beneficial on graphs with a higher average degree",
          instead="from two moments to five, dense families gain less than sparse ones; difference in log10 MSE:",
          by=Aggregate("five moments minus two: mean over the three dense families minus mean over the seven sparse "
                       "ones, below zero")),
    Claim("all-types", "PNA improves on all types of graphs", "section 5.1, appendix H", "graph-types",
          test=tests.all_types,
          by=Aggregate("PNA minus each other model, mean over the ten families: below zero for every model",
                       ("model",))),
    Claim("lines-hardest", "PNA is worst on graphs of large diameter, above all near lines", "appendix H",
          "graph-types", test=tests.lines_hardest,
          by=Aggregate("PNA on each other family minus PNA on lines: below zero for every family", ("family",))),
    Claim("both-architectures", "PNA is best in the standard architecture, too", "section 5.1, appendix I", "standard",
          test=tests.best_in_standard, absent=_NO_STANDARD, by=_MODELS),
    Claim("same-rank", "All architectures give a similar comparative performance of the models", "section 3",
          "standard", test=tests.same_rank, absent=_NO_STANDARD,
          by=Aggregate("the model ahead in the recurrent architecture minus the other one, in the standard "
                       "architecture, mean over all pairs: below zero")),
    Claim("recurrent-better", "The recurrent architecture is the better one", "comparison of section 3 and appendix I",
          "standard", test=tests.recurrent_better, absent=_NO_STANDARD, finding=True,
          by=Aggregate("recurrent minus standard, mean over the eight models: below zero")),
    Claim("gru-effective", "The GRU is effective", "section 3", "standard", test=tests.gru_effective,
          experiment="gru", specs=("described",),
          by=Aggregate("with the GRU minus without, mean over the seven models: below zero")),
    Claim("gru", "The models without a skip connection, GAT, GCN and GIN, gain most from the GRU", "appendix I",
          "standard", test=tests.gru_helps, experiment="gru", specs=("described",),
          by=Aggregate("the gain of GAT, GCN and GIN minus that of the four other models, means: below zero")),
    Claim("s2s", "The models that cannot count, without scalers or sum, gain most from S2S", "appendix I", "standard",
          test=tests.s2s_helps, experiment="s2s", specs=("described",),
          by=Aggregate("the gain of the four models without scalers or sum minus that of the three others, means: "
                       "below zero")),
    Claim("single-trend", "Trained on single tasks, PNA is best as well", "section 5.1, appendix J", "single-task",
          test=tests.best_in_single, absent=_NO_SINGLE, alone=True, by=_MODELS),
    Claim("follows", "The trend of multi-task results follows that of single tasks", "section 5.1", "single-task",
          test=tests.trend_follows, absent=_NO_SINGLE, alone=True, together=True,
          by=Aggregate("the model ahead on single tasks minus the other one, trained on all tasks, mean over all "
                       "pairs: below zero")),
    Claim("amplifies", "Multi-task training amplifies the differences between the models", "section 5.1",
          "single-task", test=tests.amplifies, absent=_NO_SINGLE, alone=True, together=True,
          quote="The trend of these multi-task results follows and amplifies the difference in the average "
          "performances of the models when trained separately on the individual tasks.",
          because="trained on one task, PNA (no scalers), MPNN (max) and GAT stay at a constant prediction in most "
          "runs, so that PNA leads them by more there",
          instead="PNA's lead over the six other models shrinks on average; change in log10 MSE:",
          by=Aggregate("PNA's lead with all tasks minus that with single tasks, mean over the six other models: below "
                       "zero")),
    Claim("no-scalers-benefit", "Models without scalers or sum benefit most from multi-task training", "appendix J",
          "single-task", test=tests.no_scalers_benefit, absent=_NO_SINGLE, alone=True, together=True,
          by=Aggregate("the gain of the four models without scalers or sum minus that of the three others, means: "
                       "below zero")),
    Claim("overfits", "More complex models are more prone to overfitting on a single task", "appendix J", "single-task",
          test=tests.overfits, absent=_NO_SINGLE,
          quote="more complex models are more prone to overfitting when trained on a single task",
          because="at the epoch with the lowest validation loss, PNA and MPNN (sum), two of the larger models, have a "
          "validation loss that is on average less than half of the training loss; no other model has",
          instead="the smaller models (GAT, GCN, GIN) overfit more; difference in log10 of validation over training "
          "loss:",
          by=Aggregate("log10 of validation over training loss on single tasks, GAT, GCN and GIN minus the four larger "
                       "models, means: below zero")),
    Claim("not-parameters", "With 20 features, the other models are still worse than PNA with 16", "appendix K",
          "parameters", test=tests.not_parameters, by=_MODELS),
    Claim("no-boost", "More parameters do not boost the other models", "appendix K", "parameters", test=tests.no_boost,
          by=Aggregate("16 features minus 20, mean over the six other models: below the margin")),
    # ---- real-world benchmarks ----
    Claim("degree-8", "In the graphs of images every node has 8 edges, so that scalers are redundant", "section 5.2",
          "figure6", fact=structure.degrees_of_images, aggregate=structure.edges_of_images),
    Claim("zinc", "PNA is the best model on ZINC, with and without edge features", "section 5.2, figure 6", "figure6",
          realworld=real.ZINC,
          by=Aggregate("PNA minus each other model: below zero for every model and column", ("column", "model"))),
    Claim("molhiv", "PNA is the best model on MolHIV", "section 5.2, figure 6", "figure6", realworld=real.MOLHIV,
          by=Aggregate("GCN's and GIN's ROC-AUC minus PNA's: below zero for both", ("model",))),
    Claim("zinc-scalers", "On molecules, PNA without scalers suffers", "section 5.2", "figure6",
          realworld=real.SCALERS,
          by=Aggregate("PNA minus PNA without scalers: better on every column of ZINC and MolHIV", ("column",))),
    Claim("vision-scalers", "On CIFAR10 and MNIST, PNA is better without scalers", "section 5.2", "figure6",
          realworld=real.VISION_SCALERS,
          by=Aggregate("how much worse PNA is without scalers, in units of the margin, mean over the four columns: "
                       "below zero")),
    Claim("vision-less", "On images, PNA's improvement over the best other model is smaller than on molecules",
          "section 5.2", "figure6", realworld=real.VISION_LESS,
          by=Aggregate("log10 of PNA's error relative to the best other model's, ZINC minus images, mean over columns: "
                       "below zero")),
    Claim("vision-mlp", "On images the graph is not crucial: the MLP, which ignores it, performs well", "section 5.2",
          "figure6", realworld=real.VISION_MLP,
          by=Aggregate("how much worse the MLP is than GCN: below zero on CIFAR10 and on MNIST", ("column",))),
    Claim("most-tasks", "PNA, with or without scalers, outperforms the other models on most real-world tasks",
          "sections 1 and 5.2", "figure6", realworld=real.MOST,
          by=Aggregate("PNA, in the version with the better published mean, minus the least certainly beaten model: "
                       "below zero on at least four of seven columns", ("column",), need=4)),
    Claim("published-6", "On average over the models, figure 6's published numbers are those of the released settings",
          "figure 6", "figure6", realworld=real.PUBLISHED,
          by=Aggregate("ours minus published in units of the margin, mean over the models: within the margin on every "
                       "column", ("column",))),
)  # fmt: skip


def judge(profile: str = RECORDED) -> list[Finding]:
    """All claims with their verdicts, those about trainings under each specification."""
    return [finding for claim in CLAIMS for finding in findings_of(claim, profile)]


def findings_of(claim: Claim, profile: str) -> list[Finding]:
    """The verdicts on one claim."""
    if claim.reason:
        return [claim.judge()]
    if claim.checked:
        return [_from_checks(claim)]
    if claim.fact:
        return [Finding.of(claim, rule(claim.fact(), aggregate=claim.aggregate() if claim.aggregate else ()))]
    if claim.realworld:
        return [_from_realworld(claim, profile)]
    return [_from_runs(claim, runs_of(claim.experiment or claim.figure, spec, profile)) for spec in claim.specs]


def _from_runs(claim: Claim, runs: Runs) -> Finding:
    """The verdict on a claim about trainings under one specification, with its budget and the cells behind it."""
    parts = claim.test(runs)
    compared = _compared(runs, parts)
    cells = tuple(map(_file, compared.recorded.values()))
    finding = Finding.of(claim, claim.ruling(parts), runs.full, spec=runs.spec, cells=cells)
    if finding.kind == UNDECIDED and not claim.finding:
        finding = _saying(finding, _power(finding, runs), _small(finding))
    elif finding.rows and not runs.profile.planned and runs.full and not claim.finding:
        finding = _saying(finding, _NOT_NEW)
    if claim.together and finding.rows:
        finding = _saying(finding, _fewer_seeds(runs))
    if claim.alone and finding.rows:
        finding = _saying(finding, _coverage_of_single_tasks(runs))
    budget = budget_text(compared) + _sizes(claim, runs, finding.outcome) + compared.diverged
    word = _SEEN.get(finding.outcome, finding.outcome) if claim.finding else finding.outcome
    word = NOT_RUN if finding.kind == NOT_RUN else word
    if runs.spec == "released" and claim.absent:
        evidence = f"{claim.absent} {_INSTEAD}: {word}. {finding.evidence}"
        return replace(finding, kind=ABSENT, verdict=ABSENT, evidence=evidence, budget=budget)
    if claim.finding and finding.kind != NOT_RUN:
        evidence = finding.evidence if _says(finding.evidence, word) else f"{_capital(word)}. {finding.evidence}"
        return replace(finding, kind="finding", verdict="finding", evidence=evidence, budget=budget)
    return replace(finding, budget=budget)


def _compared(runs: Runs, parts: tests.Rows) -> Runs:
    """The runs that a claim's comparisons are made of; all of its figure's if they are of another kind."""
    names = {sample.name.partition("#")[0] for part in parts if part.contrast for sample in part.contrast.terms}
    recorded = {cell: run for cell, run in runs.recorded.items() if str(run.cell) in names}
    return replace(runs, recorded=recorded) if recorded else runs


def _saying(finding: Finding, *sentences: str) -> Finding:
    """The finding with more sentences in its evidence; empty ones are left out."""
    return replace(finding, evidence=" ".join(filter(None, (finding.evidence, *sentences))))


def _capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


_INSTEAD = "Verdict on the paper's version, trained with the code's departures"
_NOT_NEW = (
    "This rests on the seeds from which the test was planned; the plan's new seeds are not yet recorded for every "
    "model."
)
_IN_PART = (
    "On {}, this rests on the seeds from which the test was planned; there the new seeds are not yet recorded for "
    "every model."
)
_FEATURES = {"edges": "with edge features", "no-edges": "without edge features"}
_SEEN = {"reproduced": "this holds", "contradicted": "the opposite holds"}  # of a finding, which nobody claims


def _says(evidence: str, word: str) -> bool:
    """Whether the reasons for a verdict begin with its word, or give it as that of a comparison."""
    return evidence.lower().startswith(word) or f"{word}: " in evidence


def _power(finding: Finding, runs: Runs) -> str:
    """A sentence on the power that the plan gave an undecided test, and whether its runs are there; or ""."""
    row = planned_test(finding.claim.id, finding.spec)
    if row is None:
        return ""
    waits = "" if runs.profile.planned else "; its runs are not yet recorded"
    return f"The test was planned with a power of {row['power']:.0%}{waits}."


def _small(finding: Finding) -> str:
    """A sentence on an undecided difference of errors that is significantly smaller than MARGIN; "" if it is not.

    The plan has the margin, but not this use of it, so it changes no verdict.
    """
    one = finding.tests[0].comparison if len(finding.tests) == 1 else None
    if one is None or one.estimate is None or one.bound or finding.claim.by.spread:
        return ""
    if one.estimate.within(tests.MARGIN) >= 1 - LEVEL:
        return ""
    return (
        f"Whatever its sign, the difference is significantly smaller than {tests.MARGIN}, a factor of 1.26 in MSE "
        "(this second test was not planned)."
    )


def _fewer_seeds(runs: Runs) -> str:
    """A sentence on figure 4's networks where that figure shows them with more seeds; empty if it does not."""
    shown = runs_of("figure4", runs.spec, RECORDED)
    both = [one.of("multitask").get("pna") for one in (runs, shown)]
    fewer, more = (len(run.result.configuration["seeds"]) if run else 0 for run in both)
    if not 0 < fewer < more:
        return ""
    ours, theirs = (number(score(run, wider_split(run)).value) for run in both)
    return (
        "Budgets are never mixed, so the networks trained on all tasks are here those of this budget, with "
        f"{fewer} seeds (PNA's mean log10 MSE on graphs of 15-24 nodes: {ours}); figure 4 has {more} ({theirs})."
    )


def _coverage_of_single_tasks(runs: Runs) -> str:
    """A sentence on how often the intervals of single tasks contain the truth in simulations with as many seeds."""
    fewest = min(len(run.result.configuration["seeds"]) for run in runs.of("single-task").values())
    seeds = max((one for one in SINGLE if one <= fewest), default=min(SINGLE))
    share = kept_table()["coverage"][SINGLE[seeds]]
    return (
        f"With {seeds} seeds, a 95 % interval for a single task contains the true value in {share['mean']:.1%} of "
        f"simulated cases, and in {share['least']:.1%} of those from the worst population."
    )


_BY_FAMILY = ("moments-degrees",)  # tested on graphs of single families, which have the sizes of the training alone
_UNTESTED = ("overfits",)  # losses in training and validation


def _sizes(claim: Claim, runs: Runs, outcome: str) -> str:
    """The sizes of a claim's test graphs; as released, also whether those of 15 to 24 nodes give the same verdict."""
    if claim.figure == "figure5" or claim.id in _UNTESTED or runs.profile.size_step > 1 or not runs.recorded:
        return ""  # its comparisons name their sizes; a thinned data set has others
    wide = all(WIDER in run.splits for run in runs.recorded.values())
    if runs.spec == "described" or (claim.wider and wide):
        return "; test graphs of 15-24 nodes"
    words = "; test graphs of 15-19 nodes, as in the released code"
    if claim.figure == "graph-types" or claim.id in _BY_FAMILY or not wide:
        return words
    wider = claim.ruling(claim.test(widened(runs))).word
    return f"{words} (on 15-24: {'the same verdict' if wider == outcome else wider})"


def _file(run: RecordedRun) -> str:
    """The path of a run's result, relative to results/."""
    return recorded_path(run.cell, run.profile).relative_to(results_folder()).as_posix()


def _not_new_on(scores: Mapping[Place, RecordedRun]) -> str:
    """A sentence on columns that do not have the plan's new seeds, which names them if others do; or ""."""
    new = {column: run.profile.planned for (_, column), run in scores.items()}  # a column's runs share a budget
    if not any(new.values()):
        return _NOT_NEW
    begun = {COLUMNS[column][0] for column in new if new[column]}
    old = [COLUMNS[column] for column in COLUMNS if not new.get(column, True)]
    parts = [f"{DATASETS[data].title} {_FEATURES[edges]}" for data, edges in old if data in begun]
    whole = {data for data, _ in old} - begun
    names = [*parts, *(data.title for name, data in DATASETS.items() if name in whole)]
    return _IN_PART.format(listed(names)) if names else ""


def _from_realworld(claim: Claim, profile: str) -> Finding:
    """The verdict on a claim about figure 6, with its budget and the cells behind it."""
    ours, asked = figure6_runs(profile), claim.realworld
    scores = {place: score for place, score in ours.items() if place[1] in asked.columns}
    full = all(place in ours for place in asked.places) and all(score.full for score in scores.values())
    ruling = claim.ruling(asked.test(ours), asked.parts(ours))
    joint = real.agreement(ours) if asked.joint else None
    beside = asked.beside(ours) if asked.beside else ""
    old = _not_new_on(scores) if full else ""
    text = " ".join(filter(None, (ruling.text, beside, real.published_says(asked), joint and str(joint), old)))
    cells = tuple(score.file for score in scores.values())
    budget = "; ".join(budget_lines(ours, asked.columns))
    finding = replace(Finding.of(claim, ruling, full, budget=budget, cells=cells), evidence=text)
    other = full and not all(score.official for score in scores.values())
    return replace(finding, verdict=f"{finding.verdict}, training set not official") if other else finding


def _from_checks(claim: Claim) -> Finding:
    """The verdict on a claim about theory, from the statements of verification/ that have the claim's id as topic."""
    rows = [row for row in outcomes() if row.topic == claim.id]
    if not rows:
        return Finding(claim, NOT_TESTED, NOT_TESTED, NOT_TESTED, outcomes()[0].evidence)
    finding = Finding.of(claim, rule(fact(row.statement, row.status != "FAILS") for row in rows))
    if finding.kind != "reproduced":
        return replace(finding, evidence=" ".join(f"{row.statement}: {row.evidence}." for row in rows))
    # Instances and samples settle nothing by themselves, nor does a proof that is not recorded.
    proved = any(row.verdict in ("reproduced", "holds after repair") for row in rows)
    settled = proved and all(row.status != "not checked" for row in rows)
    kind = "undecided" if not settled else "holds after repair" if claim.slips else "reproduced"
    evidence = f"Evidence: {_kinds(rows)}. {_caveats(rows)}".rstrip()
    return replace(finding, kind=kind, verdict=kind, outcome=kind, evidence=evidence)


def _caveats(rows: Sequence[Outcome]) -> str:
    """The caveats of all statements, each sentence once."""
    text = " ".join(row.caveat for row in rows if row.caveat)
    return " ".join(dict.fromkeys(re.split(r"(?<=\.) (?=[A-Zγ])", text)))


def _kinds(rows: Sequence[Outcome]) -> str:
    """The kinds of evidence with their numbers: "2 formal proofs, 1 exact computation and 3 measurements"."""
    counts = Counter(row.kind for row in rows)
    return listed([f"{n} {_KINDS.get(kind, (kind, kind))[n > 1]}" for kind, n in counts.items()])


_KINDS = {  # what verification/ calls a kind of evidence: the noun for one and for several
    "a formal proof that is not recorded": ("formal proof that is not recorded", "formal proofs that are not recorded"),
    "proved formally": ("formal proof", "formal proofs"),
    "exact computation": ("exact computation", "exact computations"),
    "certified interval": ("check in certified intervals", "checks in certified intervals"),
    "sampled": ("check of random samples", "checks of random samples"),
    "measured": ("measurement", "measurements"),
}

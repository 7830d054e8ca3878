"""The report's section on depth: the effect of the rule for the number of layers on the error on larger graphs."""

from collections.abc import Sequence

from markupsafe import Markup

from pna.figures.depth import RULES, SIX, TRAINED, WITHOUT_DIAMETER, gain, has_rule, leads, scores_by_rule, trained_gain
from pna.figures.runs import RecordedRun, Runs, runs_of
from pna.figures.scores import SHOWN, sizes_of
from pna.figures.style import budget_text
from pna.networks import MODELS
from pna.verdicts.rules import HOLDS, less, rule
from report.markup import blocks, estimate, listed, p_value, render, table

__all__ = ["better", "section"]

PRACTICE = (
    "If you use a trained network on graphs larger than those of its training, do not let the number of layers grow "
    "with the graph: stop at the largest number used in training, here 12. pna.load and pna predict do so by default.",
    "If you train a network and can afford to compute the diameter, use as many layers as the diameter, and at test "
    "no more than in training.",
)
LIMITS = (
    "With the diameter as its depth, a network is told the diameter, which is one of the six tasks; the comparison is "
    "therefore given without that task, too.",
    "We tested one benchmark, one width (16 features), and depths of 7 to 12 layers in training, with at least ten "
    "seeds for each cell.",
    "The readout S2S still takes as many steps as the graph has nodes, whatever the rule for the convolutions.",
    "The threshold of convergence is chosen for each cell from six values, on validation graphs of 15 to 24 nodes; "
    "the depth is then at most N.",
    "Errors above ten times the baseline's count as ten times, as everywhere in the comparisons.",
    "As described, a run ends when its validation loss, here on graphs of 25 to 29 nodes, is not finite. That is our "
    "choice, as the paper does not say. It cuts GIN's runs short, with ⌊N/2⌋ and above all with convergence. They keep "
    "their best weights until then, and what they would have learned is not known.",
)
_GOES_ON = (
    "As released (D13), a run goes on when its validation loss is not finite; only a training loss that is not finite "
    "ends it. "
)


def section(profile: str) -> Markup:
    """The section's HTML: advice for a practitioner, the tables, the limits."""
    sides = {spec: runs_of("depth", spec, profile) for spec in ("released", "described")}
    return blocks(
        render("points", title="For a practitioner", sentences=[*PRACTICE, *_by_diameter(sides["described"])]),
        *(part for runs in sides.values() for part in _by_rule(runs)),
        *_trained(runs_of("depth", "described", profile), ""),
        *_trained(runs_of("departures", "D13", profile), _GOES_ON),
        render("points", title="Limits", sentences=[LIMITS[0], *_growth(sides["described"]), *LIMITS[1:]]),
    )


def _by_diameter(runs: Runs) -> list[str]:
    """A sentence on the sizes at which training with the diameter makes each model better."""
    halves, counts = runs.of("extrapolation"), {}
    for model, run in runs.of("depth-diameter").items():
        if model in halves and has_rule(run, "cap") and has_rule(halves[model], "cap"):
            counts[run.title] = len(better(run, halves[model], SIX) & better(run, halves[model], WITHOUT_DIAMETER))
            sizes = len(sizes_of(run))
    if not counts:
        return []
    at = listed([f"{count} for {title}" for title, count in counts.items()])
    return [
        f"Of {sizes} sizes, the error as described is then significantly lower at {at}, both on all six tasks and "
        "without the diameter."
    ]


def better(run: RecordedRun, half: RecordedRun, tasks: Sequence[int]) -> set[str]:
    """The sizes at which a network is significantly better than the one trained with ⌊N/2⌋."""
    gains = zip(sizes_of(run), trained_gain(run, half, tasks), strict=True)
    rows = rule(less(f"{size} nodes", one) for size, one in gains).rows
    return {row.comparison.name for row in rows if row.outcome == HOLDS}


def _growth(runs: Runs) -> list[str]:
    """A sentence on how the least error of any network under any rule grows from the smallest graphs to the largest."""
    rows = [row for name in TRAINED for run in runs.of(name).values() for row in scores_by_rule(run).values()]
    if not rows:
        return []
    first, *_, last = rows[0]
    factor = 10 ** (min(row[last].value for row in rows) - min(row[first].value for row in rows))
    small, large = (size.split("-")[0] for size in (first, last))
    return [
        "Beyond about three times the training sizes no rule makes any of these networks good: the lowest error at "
        f"{large} nodes is {float(f'{factor:.1g}'):,.0f} times the lowest at {small}."
    ]


def _by_rule(runs: Runs) -> list[Markup | str]:
    """The networks of one specification under each rule at test."""
    models = {name: run for name, run in runs.of("extrapolation").items() if has_rule(run, "cap")}
    if not models:
        return [f"{runs.spec}: no network is tested with other depths under {runs.profile.name}."]
    ahead = _leads(models, runs) if "pna" in models and len(models) > 1 else []
    return [_table(models, runs), _gains(models, runs), *ahead]


def _table(models: dict[str, RecordedRun], runs: Runs) -> Markup | str:
    """PNA and MPNN (max), size by size under each rule."""
    columns = {
        (model, name): row
        for model in ("pna", "mpnn-max")
        if model in models
        for name, row in scores_by_rule(models[model]).items()
    }
    header = ("nodes", *(f"{MODELS[model].title}: {RULES[name]}" for model, name in columns))
    sizes = list(next(iter(columns.values()))) if columns else []
    rows = [(size, *(estimate(row[size]) for row in columns.values())) for size in sizes]
    caption = f"Mean log10 MSE over the six tasks, by rule of depth; lower is better. {budget_text(runs)}"
    return table(header, rows, caption) if rows else ""


def _gains(models: dict[str, RecordedRun], runs: Runs) -> Markup:
    """The gain from the cap, one comparison for each model."""
    rows = rule([less(run.title, gain(run)) for run in models.values()]).rows
    body = [(row.comparison.name, estimate(row.comparison.estimate), p_value(row.p), row.outcome) for row in rows]
    header = ("model", "at most 12 minus ⌊N/2⌋", "p (Holm)", "at most 12 is better")
    caption = f"Difference in mean log10 MSE, mean over the test sets from 30 to 99 nodes. {budget_text(runs)}"
    return table(header, body, caption, {1: "number", 2: "number"})


def _leads(models: dict[str, RecordedRun], runs: Runs) -> list[Markup | str]:
    """Whether PNA is the best at every size, rule by rule."""
    rows, words = [], []
    for name, title in RULES.items():
        if not all(has_rule(run, name) for run in models.values()):
            continue
        row = leads(models, name)
        rows.append((title, *(estimate(difference, 2, MODELS[other].title) for _, other, difference in row)))
        ahead = sum(difference.value < 0 for *_, difference in row)
        sure = sum(
            one.outcome == HOLDS for one in rule(less(f"{size} nodes", difference) for size, _, difference in row).rows
        )
        words.append(f"{title}: PNA has the lowest error at {ahead} of {len(row)} sizes, significantly at {sure}")
    caption = (
        f"PNA minus the best other model, mean log10 MSE; below zero PNA is best. The paper's sizes are the first "
        f"{SHOWN}. {budget_text(runs)}"
    )
    header = ("rule", *sizes_of(models["pna"]))
    return [table(header, rows, caption), f"{'; '.join(words)} (Holm over the sizes)."]


def _trained(runs: Runs, words: str) -> list[Markup | str]:
    """Tables of networks trained with each rule, each tested with its own rule and at most as deep as in training."""
    rows = []
    for training, title in TRAINED.items():
        for model, run in runs.of(training).items():
            if has_rule(run, "cap") and (training != "extrapolation" or model in runs.of("depth-varied")):
                row = scores_by_rule(run)["cap"]
                rows.append((_named(run, title), *map(estimate, row.values())))
                header = ("model, trained with", *row)
    missing = [f"{MODELS[cell.model].title} ({TRAINED[cell.training]})" for cell in runs.missing]
    left = f"{words}Trained with other rules, not recorded yet: {', '.join(missing)}." if missing else ""
    if not any(training != "extrapolation" and runs.of(training) for training in TRAINED):
        return [left]
    caption = f"{words}Networks trained with other rules, mean log10 MSE. {budget_text(runs)}"
    return [table(header, rows, caption), _trained_gains(runs), left]


def _named(run: RecordedRun, trained_with: str) -> str:
    """A model with its rule, and how many of its runs ended early."""
    return f"{run.title}, {trained_with}" + (f" ({run.diverged} runs diverged)" if run.diverged else "")


def _trained_gains(runs: Runs) -> Markup | str:
    """The gain from training with a rule other than ⌊N/2⌋, with and without the task that the depth may give away."""
    halves, rows = runs.of("extrapolation"), []
    for training, title in list(TRAINED.items())[1:]:
        for model, run in runs.of(training).items():
            if not (model in halves and has_rule(run, "cap") and has_rule(halves[model], "cap")):
                continue
            for tasks, words in ((SIX, "six tasks"), (WITHOUT_DIAMETER, "without the diameter")):
                row = trained_gain(run, halves[model], tasks)
                sure = f"{len(better(run, halves[model], tasks))} of {len(row)}"
                rows.append((_named(run, title), words, *map(estimate, row), sure))
                header = ("model, trained with", "score", *sizes_of(run), "significantly better")
    caption = (
        "Networks trained with other rules minus those trained with ⌊N/2⌋, each at most as deep as in training, mean "
        "log10 MSE; below zero the other rule is better. The last column counts sizes (Holm over the sizes). "
        f"{budget_text(runs)}"
    )
    return table(header, rows, caption) if rows else ""

"""The planned tests beyond the paper, computed again from the recorded JSON by other code.

Like tests/report/recompute.py, whose statistics it uses, it imports nothing of report/ or pna/. `outcomes` has every
test on real graphs, on redrawn test graphs, on networks trained on real subgraphs, and on scalers beyond the degrees
of training.
"""

import json
import math
from contextlib import contextmanager

import numpy as np
from scipy import stats

from tests.report import recompute
from tests.report.recompute import (
    CAP,
    MARGIN,
    PUBLISHED,
    ROOT,
    SEVEN,
    TOLERANCE,
    Judgement,
    Sum,
    average,
    cell,
    decide,
    each,
    five_best,
    judge_training,
    mean,
    tamed,
    total,
    verdict,
    whole,
)

OTHERS = [model for model in SEVEN if model != "pna"]
WITHOUT_CONNECTED = [0, 1, 2, 4, 5]
REDRAWN = [f"redrawn/test_{k}" for k in (1, 2, 3, 4, 5)]
HEAVY, EVEN = ("internet", "enron", "pgp", "metabolism", "phenotypes"), ("grid", "roads")
DEGREES = [(25, 49), (50, 99), (100, 199), (200, 499), (500, 999), (1000, 2000)]


@contextmanager
def planned():
    """Reads every cell from the runs of the plan."""
    before = list(recompute.BUDGETS)
    recompute.BUDGETS[:] = ["planned"]
    try:
        yield
    finally:
        recompute.BUDGETS[:] = before


def real_sets(small, networks=None):
    """The test sets of real graphs with the paper's depth: of 15 to 24 nodes or of more, of some networks or all."""
    names = [split for split in cell("multitask/described/pna-16")["facts"]["baseline"] if split.startswith("real/")]
    names = [name.removeprefix("real/") for name in names if name.endswith("-15-24") == small]
    return [name for name in names if networks is None or name.split("-")[0] in networks]


def on_real(model, group, spec="described", training="multitask"):
    """A model's mean log10 MSE over five tasks on one test set of real graphs."""
    name = f"{training}/{spec}/{model}-16"
    return Sum({(name, None): np.log10(tamed(cell(name), f"real/{group}"))[:, WITHOUT_CONNECTED].mean(1)})


def leads(scores, sets):
    """Whether PNA is better than every other model, mean over the test sets."""
    rows = {f"{SEVEN[m]}, {one}": scores("pna", one) - scores(m, one) for m in OTHERS for one in sets}
    return judge_training(("", rows, lambda sums: {name: name.rsplit(", ", 1)[0] for name in sums}))


def tails(spec):
    """The gain by scalers on heavy tails minus that on even degrees."""
    gain = [
        mean(on_real("pna", one, spec) - on_real("pna-no-scalers", one, spec) for one in real_sets(True, networks))
        for networks in (HEAVY, EVEN)
    ]
    return judge_training(("", {"heavy tails minus even degrees": gain[0] - gain[1]}, each))


def spread(spec):
    """(word, numbers): the deviation between redrawn test sets with its upper bound, and each model's own."""
    rows = np.array([[average(f"multitask/{spec}/{m}-16", s).estimate[0] for s in REDRAWN] for m in SEVEN])
    pooled = math.sqrt(rows.var(axis=1, ddof=1).mean())
    lower, upper = (pooled / math.sqrt(stats.chi2.ppf(q, 4) / 4) for q in (0.95, 0.05))
    word = "reproduced" if upper < MARGIN else "contradicted" if lower > MARGIN else "undecided"
    return word, (pooled, upper, *rows.std(axis=1, ddof=1))


def connected():
    """PNA as released minus published on *connected*, mean over the redrawn test sets."""
    ours = mean(average("multitask/released/pna-16", split, 3) for split in REDRAWN)
    published = PUBLISHED["multitask_per_task"]["rows"]["PNA"][4]
    difference = ours - recompute.again("connected", published, ours)
    return verdict({"PNA minus published": decide(difference.estimate, margin=TOLERANCE)})


def trained_on_real():
    """The three tests of networks trained on real subgraphs, by their names."""
    small = real_sets(True)
    gain = {SEVEN[m]: mean(on_real(m, g, training="real") - on_real(m, g) for g in small) for m in SEVEN}
    cost = {SEVEN[m]: average(f"real/described/{m}-16") - average(f"multitask/described/{m}-16") for m in SEVEN}
    return {
        "real-training": judge_training(("", gain, whole)),
        "real-cost": judge_training(("", cost, whole, TOLERANCE)),
        "real-best": leads(lambda m, one: on_real(m, one, training="real"), small),
    }


def hub_scores(name):
    """(validation error, log10 MSE by seed and bin) of a network of `pna hubs`, mean over three tasks."""
    facts = json.loads((ROOT / "results" / "planned" / "hubs" / f"{name}.json").read_text())
    rows = facts["replicas"]
    errors = [
        [[math.inf if e is None else e for e in row["test"][f"hubs/{a}-{b}"]] for a, b in DEGREES] for row in rows
    ]
    limit = CAP * np.array(facts["facts"]["baseline"])
    return [row["validation"] for row in rows], np.log10(np.fmin(errors, limit)).mean(axis=2)


def scalers(other, bound=0.0):
    """Logarithmic scalers minus others, by degree and on average."""
    (ranked, ours), (ranked_other, theirs) = hub_scores("logarithmic"), hub_scores(other)

    def difference(columns):
        a, b = five_best(ranked, ours[:, columns].mean(1)), five_best(ranked_other, theirs[:, columns].mean(1))
        return decide(total([a, (-b[0], *b[1:])]), bound)

    details = {f"degrees {a} to {b}": difference([k]) for k, (a, b) in enumerate(DEGREES)}
    return verdict({"mean": difference(list(range(len(DEGREES))))}, details)


def outcomes():
    """{(test, specification): judgement}, and for the spread between test sets (word, numbers)."""
    with planned():
        rows: dict[tuple[str, str], Judgement | tuple] = {}
        for spec in ("described", "released"):
            for name, small in (("real-small", True), ("real-large", False)):
                rows[name, spec] = leads(lambda m, one, spec=spec: on_real(m, one, spec), real_sets(small))
            rows["real-tails", spec] = tails(spec)
            rows["redrawn-lead", spec] = leads(
                lambda m, one, spec=spec: average(f"multitask/{spec}/{m}-16", one), REDRAWN
            )
            rows["redrawn-spread", spec] = spread(spec)
        rows["redrawn-connected", "released"] = connected()
        described = trained_on_real() | {
            "scalers-linear": scalers("linear"),
            "scalers-none": scalers("none"),
            "scalers-learned": scalers("learned", MARGIN),
        }
        return rows | {(name, "described"): judgement for name, judgement in described.items()}

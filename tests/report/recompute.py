"""Every verdict on trainings, networks and data, computed again from the recorded JSON by other code.

Nothing of report/ or pna/ is imported. `python -m tests.report.recompute` reads results/, the published numbers and
figures/claims.json, and prints what differs: words, values, intervals, p-values, and the sentence on figure 6 as a
whole. Formulas are written another way where there is one: weights of ranks by a Markov chain over ranks, subsets by
scipy's hypergeometric distribution, tests by scipy.stats, numbers of parameters by hand.

Two facts cannot come out again to the digit without the generators. Of the baseline's eight draws only the tests are
computed again, from the stated intervals, and the recorded draw must agree with them. Of superpixel graphs, other ones
are drawn, and the verdict must be the same.
"""

import itertools
import json
import math
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[2]
MAXIMA = np.array([23.0, 23.0, 13.600000381469727, 1.0, 23.0, 22.700000762939453])  # of the released training set
MARGIN, TOLERANCE, CAP = 0.1, 0.3, 10.0
TASKS = ["Single-source shortest path", "Eccentricity", "Laplacian features", "Connected", "Diameter"]
TASKS += ["Spectral radius"]
NAMES = ["sssp", "eccentricity", "laplacian", "connected", "diameter", "spectral_radius"]
SEVEN = {"pna": "PNA", "pna-no-scalers": "PNA (no scalers)", "mpnn-max": "MPNN (max)", "mpnn-sum": "MPNN (sum)"}
SEVEN |= {"gat": "GAT", "gcn": "GCN", "gin": "GIN"}
EIGHT = SEVEN | {"mean-max-min": "mean, max & min"}
SIX = ["pna", "mpnn-max", "gin", "gcn", "gat", "mpnn-sum"]
FAMILIES = {"erdos_renyi": "Erdős-Rényi", "barabasi_albert": "Barabási-Albert", "grid": "Grid", "caveman": "Caveman"}
FAMILIES |= {"tree": "Tree", "ladder": "Ladder", "line": "Line", "star": "Star", "caterpillar": "Caterpillar"}
FAMILIES |= {"lobster": "Lobster"}
SIZES = {f"{n}-{n + 4}": f"extrapolation/test_{n}_{n + 5}" for n in (20, 25, 30, 35, 40, 45, 60, 75, 95)}
PUBLISHED = json.loads((ROOT / "pna" / "figures" / "published.json").read_text())


# ---- statistics ----


@cache
def choice_moments(n, keep):
    """E[c_r c_s] - E[c_r] E[c_s] of the number of draws of each rank among the best `keep` of n draws from n ranks.

    Going through the ranks, the draws of one are binomial among those that are left.
    """
    step = [[stats.binom.pmf(np.arange(n - i + 1), n - i, 1 / (n - r)) for i in range(n + 1)] for r in range(n)]
    first, second = np.zeros(n), np.zeros((n, n))
    start = np.eye(n + 1)[0]
    for r in range(n):
        after, moved = np.zeros(n + 1), np.zeros(n + 1)  # distribution, and with the number chosen as its weight
        for i, chance in enumerate(start):
            for k, p in enumerate(step[r][i]):
                chosen = min(keep, i + k) - min(keep, i)
                after[i + k] += chance * p
                moved[i + k] += chance * p * chosen
                first[r] += chance * p * chosen
                second[r, r] += chance * p * chosen**2
        weight = moved
        for s in range(r + 1, n):
            onward = np.zeros(n + 1)
            for i, mass in enumerate(weight):
                for k, p in enumerate(step[s][i]):
                    onward[i + k] += mass * p
                    second[r, s] += mass * p * (min(keep, i + k) - min(keep, i))
            second[s, r], weight = second[r, s], onward
        start = after
    return second - np.outer(first, first)


def subset_weights(n, m, of, keep):
    """The weight of each of m ranks if `of` of n are drawn, n - m of which do not count."""
    drawn = stats.hypergeom(n, m, of)
    total, weights = 0.0, np.zeros(m)
    for k in range(1, min(of, m) + 1):
        if (chance := drawn.pmf(k)) > 0:
            best = min(keep, k)
            better = stats.hypergeom.cdf(best - 1, m - 1, np.arange(m), k - 1) if m > 1 else np.ones(1)
            weights += chance * k / m * better / best
            total += chance
    return weights / total


@cache
def left_out(n, m, of, keep):
    rows = [np.insert(subset_weights(n - 1, m - 1, of, keep), r, 0.0) for r in range(m)]
    if n > m:
        rows += [subset_weights(n - 1, m, of, keep)] * (n - m)
    return np.array(rows)


def five_best(validation, scores):
    """(mean, error, degrees of freedom) of the five best of ten."""
    n, alive = len(scores), [k for k in range(len(scores)) if math.isfinite(validation[k])]
    ranked = np.array([scores[k] for k in sorted(alive, key=lambda k: (validation[k], k))])
    m = len(ranked)
    if n > 10:
        rows = left_out(n, m, 10, 5) @ ranked
        full = left_out(n, n, 10, 5)
        form = (full - full.mean(0)).T @ (full - full.mean(0))
        freedom = np.trace(form) ** 2 / np.trace(form @ form)
        return float(subset_weights(n, m, 10, 5) @ ranked), math.sqrt((n - 1) * rows.var()), min(freedom, m - 1)
    keep, mean = min(5, m), ranked[:5].mean()
    variance = (ranked - mean) @ choice_moments(m, keep) @ (ranked - mean) / keep**2 * m / (m - 1)
    return float(mean), math.sqrt(max(variance, 0.0)), min(5.0, m - 1)


def total(terms):
    """The sum of independent (value, error, freedom) after Welch and Satterthwaite."""
    value, spread = sum(t[0] for t in terms), sum(t[1] ** 2 for t in terms)
    return value, math.sqrt(spread), spread**2 / sum(t[1] ** 4 / t[2] for t in terms)


class Comparison(NamedTuple):
    """A comparison: its p-value, the side that it is on, and what claims.json shows of it."""

    p: float
    side: str
    estimate: tuple[float, float, float] | None = None  # value, error, degrees of freedom
    bound: float = 0.0
    text: str | None = None

    @property
    def interval(self):
        value, error, freedom = self.estimate
        reach = stats.t.isf(0.025, freedom) * error
        return value - reach, value + reach


class Judgement(NamedTuple):
    """A verdict: its word, the comparisons and the parts of the aggregate test by name, and that test's p-values."""

    word: str
    details: dict[str, Comparison]
    tests: dict[str, Comparison]
    p: float
    p_against: float


def decide(estimate, bound=0.0, margin=None, text=None):
    """The test of a difference: below a bound, or within a margin."""
    value, error, freedom = estimate
    t = stats.t(freedom)
    if margin is None:
        low = t.cdf((value - bound) / error)
        return Comparison(2 * min(low, t.sf((value - bound) / error)), side_of(low < 0.5), estimate, bound, text)
    near = max(t.cdf((value - margin) / error), t.sf((value + margin) / error))
    far = 2 * min(t.cdf((value + margin) / error), t.sf((value - margin) / error))
    return Comparison(min(near, far), side_of(near < far), estimate, math.copysign(margin, value), text)


def side_of(true):
    return "holds" if true else "against"


def certain(true, text):
    """A comparison without chance."""
    return Comparison(0.0, side_of(true), text=text)


def corrected(values):
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate([min(1.0, (len(values) - k) * values[i]) for k, i in enumerate(order)])
    return {int(i): p for i, p in zip(order, steps, strict=True)}


def outcomes(tests, together=False):
    """(outcome, corrected p-value) of each test; if all hold, which needs no correction, by their own where asked."""
    ps = corrected([test.p for test in tests])
    if together and max(ps.values()) >= 0.05 and all(test.side == "holds" and test.p < 0.05 for test in tests):
        ps = {k: test.p for k, test in enumerate(tests)}
    return [(test.side if ps[k] < 0.05 else "undecided", ps[k]) for k, test in enumerate(tests)]


def count(tests, outcome):
    return sum(word == outcome for word, _ in outcomes(list(tests)))


def verdict(tests, details=None, need=None):
    """The judgement on a claim: its test's word, and what the details add. Without other details the tests are them."""
    details = tests if details is None else details
    k, need = len(tests), need or len(tests)
    toward, away = (sorted(t.p if t.side == way else 1.0 for t in tests.values()) for way in ("holds", "against"))
    p, p_against = min(1.0, (k - need + 1) * toward[need - 1]), min(1.0, need * away[k - need])
    against = count(details.values(), "against") if need == k else 0
    held = count(tests.values(), "holds")
    if p < 0.05:
        word = f"in part, {against} against" if against else "reproduced"
    elif p_against < 0.05:
        word = "contradicted"
    else:
        word = f"{held} of {k}" if held and k > 1 else "undecided"
    return Judgement(word, details, tests, p, p_against)


# ---- recorded cells ----


BUDGETS = ["paper"]  # folders to look for a cell in, one after the other


def cell(name):
    return recorded(name, tuple(BUDGETS))


@cache
def recorded(name, budgets):
    paths = [path for budget in budgets if (path := ROOT / "results" / budget / f"{name}.json").exists()]
    if not paths and name.startswith("extrapolation/released/"):
        return recorded(name.replace("extrapolation", "multitask"), budgets)  # trained alike as released
    return opened(paths[0]) | {"name": name}


def opened(path):
    """A result's file, with each replica's test errors at the replica."""
    facts = json.loads(path.read_text())
    for k, replica in enumerate(facts["replicas"] if "tests" in facts else ()):
        replica["test"] = {name: rows[k] for name, rows in facts["tests"].items()}
    return facts


def numbers(facts, value):
    """[S, 6] by seed and task."""
    seeds = facts["configuration"]["seeds"]
    array = np.full((len(seeds), 6), np.inf)
    for replica in facts["replicas"]:
        for k, task in enumerate(NAMES):
            if replica["task"] in (None, task):
                number = value(replica, k)
                array[seeds.index(replica["seed"]), k] = np.inf if number is None else number
    return array


def units(facts):
    return (np.array(facts["facts"]["maxima"]) / MAXIMA) ** 2


def errors(facts, split):
    raw = numbers(facts, lambda replica, k: replica["test"][split][k])
    return np.minimum(raw, np.finfo(np.float32).max) * units(facts)


def baseline(facts, split):
    row = [facts["facts"]["baseline"][split][task] for task in NAMES]
    return np.array([0.0 if v is None else 10**v for v in row]) * units(facts)


def tamed(facts, split):
    base = baseline(facts, split)
    return np.minimum(errors(facts, split), np.where(base > 0, CAP * base, np.inf))


def validation(facts):
    return numbers(facts, lambda replica, k: replica["validation"])


class Sum:
    """A weighted sum of scores by cell: {(cell, task or None): scores of its seeds}, and published numbers."""

    def __init__(self, terms, extra=()):
        self.terms, self.extra = terms, list(extra)

    def __add__(self, other):
        keys = {**self.terms, **other.terms}
        zero = 0.0
        terms = {k: self.terms.get(k, zero) + other.terms.get(k, zero) for k in keys}
        return Sum(terms, self.extra + other.extra)

    def __rmul__(self, factor):
        extra = [(name, factor * v, abs(factor) * e, f) for name, v, e, f in self.extra]
        return Sum({k: factor * v for k, v in self.terms.items()}, extra)

    def __sub__(self, other):
        return self + -1.0 * other

    @property
    def estimate(self):
        parts = [
            noise(name.removeprefix(AGAIN), scores)
            if name.startswith(AGAIN)
            else five_best(validation(cell(name))[:, task or 0], scores)
            for (name, task), scores in self.terms.items()
        ]
        return total(parts + [one[1:] for one in self.extra])


AGAIN = "once more: "  # a published line, as uncertain as one experiment of ours with ten seeds


def noise(name, scores):
    """The error alone of one experiment with ten seeds of a cell, for a weighted sum of its scores."""
    ranked_by = validation(cell(name))[:, 0]
    _, error, freedom = five_best(ranked_by, scores)
    return 0.0, math.hypot(error, between_subsets(ranked_by, scores)) if len(scores) > 10 else error, freedom


def average(name, split="multitask/test", task=None):
    facts = cell(name)
    return by_task(name, np.log10(tamed(facts, split)), task)


def by_task(name, scores, task=None):
    if "single-task" in name:
        columns = range(6) if task is None else [task]
        return Sum({(name, k): scores[:, k] / len(columns) for k in columns})
    return Sum({(name, None): scores.mean(1) if task is None else scores[:, task]})


def overall(name, split="multitask/test"):
    return Sum({(name, None): np.log10(tamed(cell(name), split).mean(1))})


def ratios(name, split):
    facts = cell(name)
    return np.log10(np.minimum(errors(facts, split).mean(1) / baseline(facts, split).mean(), CAP))


def ratio(name, split):
    return Sum({(name, None): ratios(name, split)})


def mean(sums):
    sums = list(sums)
    whole = sums[0]
    for one in sums[1:]:
        whole = whole + one
    return (1 / len(sums)) * whole


# ---- claims about trainings: {(id, spec): (details, groups, bound, margins, need)} ----


def wide(spec):
    return "multitask-15-24/test" if spec == "released" else "multitask/test"


def pairs(first, second):
    """Details in the order of the first training: against only if it is significant in both."""
    rows = {}
    for a, b in itertools.combinations(first, 2):
        if first[a].estimate[0] > first[b].estimate[0]:
            a, b = b, a
        gap = second[a] - second[b]
        test = decide(gap.estimate)
        if test.side == "against":
            value, error, freedom = (first[a] - first[b]).estimate
            test = test._replace(p=max(test.p, 2 * stats.t.cdf(value / error, freedom)))
        rows[f"{EIGHT[a]} before {EIGHT[b]}"] = (gap, test)
    return rows


def gains(spec, other, more):
    """The gain from multi-task training over another one, each of some models against each of the rest."""
    gain = {m: average(f"multitask/{spec}/{m}-16") - average(f"{other}/{spec}/{m}-16") for m in SEVEN}
    rest = [m for m in SEVEN if m not in more]
    chosen = [m for m in SEVEN if m in more]
    return {f"{SEVEN[a]} against {SEVEN[b]}": gain[a] - gain[b] for a in chosen for b in rest}


def each(sums):
    return {name: name for name in sums}


def whole(sums):
    return dict.fromkeys(sums, "mean")


def claims(spec):
    """(id, details as {name: Sum}, groups as {name: group}, bound, margin of details, margin of the test)."""
    m = {name: average(f"multitask/{spec}/{name}-16") for name in EIGHT}
    o = {name: overall(f"multitask/{spec}/{name}-16") for name in SEVEN}
    others = [name for name in SEVEN if name != "pna"]
    counting = ("pna-no-scalers", "mpnn-max", "gat", "gcn")

    def lead(scores, model="pna", rest=others, title=SEVEN):
        return {title[name]: scores[model] - scores[name] for name in rest}

    rows = [("best", lead(o), each), ("scalers", lead(m, rest=["pna-no-scalers"]), whole)]
    tasks = {
        f"{TASKS[k]}, {SEVEN[name]}": average(f"multitask/{spec}/pna-16", task=k)
        - average(f"multitask/{spec}/{name}-16", task=k)
        for k in range(6)
        for name in others
    }
    rows.append(("all-tasks", tasks, lambda sums: {n: n.rsplit(", ", 1)[0] for n in sums}))
    rows.append(("aggregators", lead(m, "pna-no-scalers", ["mpnn-max", "mpnn-sum"]), each))
    soft = average(f"multitask/{spec}/pna-soft-16")
    rows.append(("softmax-worse", {"PNA (softmax, softmin)": m["pna"] - soft}, whole))
    x = {name: f"extrapolation/{spec}/{name}-16" for name in SIX}
    sizes = list(SIZES.items())

    def extrapolation(model, rest, chosen):
        return {
            f"{size} nodes, {SEVEN[name]}": ratio(x[model], split) - ratio(x[name], split)
            for name in rest
            for size, split in chosen
        }

    def by_model(sums):
        return {n: n.split(", ", 1)[1] for n in sums}

    rows.append(("extrapolates", extrapolation("pna", SIX[1:], sizes[:6]), by_model))
    rows.append(("beyond", extrapolation("pna", SIX[1:], sizes[6:]), by_model))
    single = [name for name in SIX if name not in ("pna", "mpnn-max")]
    rows.append(("max-extrapolates", extrapolation("mpnn-max", single, sizes[1:6]), by_model))
    rows.append(("beats-baseline", {f"{size} nodes": ratio(x["pna"], split) for size, split in sizes[:6]}, each))
    worse = {SEVEN[n]: ratio(x[n], sizes[0][1]) - ratio(x[n], sizes[5][1]) for n in SIX}
    rows.append(("worsens", worse, whole))
    moments = {n: average(f"multitask/{spec}/moments-{n}-16") for n in range(1, 6)}
    rows.append(("more-moments", {"1 moment": moments[3] - moments[1]}, whole))
    more = {f"{n} moments": moments[3] - moments[n] for n in (4, 5)}
    rows.append(("too-many-moments", more, whole))
    rows.append(("moments-level", more, whole, MARGIN))
    rows.append(("pna-moments", {f"{n} moments": m["pna"] - moments[n] for n in (3, 4, 5)}, whole))
    gain = {
        f: average(f"multitask/{spec}/moments-5-16", f"families/{f}")
        - average(f"multitask/{spec}/moments-2-16", f"families/{f}")
        for f in FAMILIES
    }
    dense = ("erdos_renyi", "barabasi_albert", "caveman")
    sparse = mean(gain[f] for f in FAMILIES if f not in dense)
    rows.append(
        ("moments-degrees", {f"{FAMILIES[f]} against the sparse families": gain[f] - sparse for f in dense}, whole)
    )
    types = {
        f"{title}, {SEVEN[name]}": average(f"multitask/{spec}/pna-16", f"families/{f}")
        - average(f"multitask/{spec}/{name}-16", f"families/{f}")
        for f, title in FAMILIES.items()
        for name in others
    }
    rows.append(("all-types", types, by_model))
    on = {f: average(f"multitask/{spec}/pna-16", f"families/{f}") for f in FAMILIES}
    rows.append(("lines-hardest", {FAMILIES[f]: on[f] - on["line"] for f in FAMILIES if f != "line"}, each))
    s = {name: average(f"standard/{spec}/{name}-16") for name in EIGHT}
    rows.append(("both-architectures", lead(s, rest=[n for n in EIGHT if n != "pna"], title=EIGHT), each))
    rows.append(("same-rank", pairs(m, s), whole))
    rows.append(("recurrent-better", {EIGHT[n]: m[n] - s[n] for n in EIGHT}, whole))
    a = {name: average(f"single-task/{spec}/{name}-16") for name in SEVEN}
    rows.append(("single-trend", lead(a), each))
    rows.append(("follows", pairs(a, {n: m[n] for n in SEVEN}), whole))
    rows.append(("amplifies", {SEVEN[n]: m["pna"] - a["pna"] - (m[n] - a[n]) for n in others}, whole))
    rows.append(("no-scalers-benefit", gains(spec, "single-task", counting), whole))
    smaller = ("gat", "gcn", "gin")
    gap = {n: by_task(f"single-task/{spec}/{n}-16", gaps(cell(f"single-task/{spec}/{n}-16"))) for n in SEVEN}
    fits = {f"{SEVEN[i]} against {SEVEN[j]}": gap[i] - gap[j] for i in smaller for j in SEVEN if j not in smaller}
    rows.append(("overfits", fits, whole))
    wider = {n: average(f"multitask/{spec}/{n}-20") for n in others}
    rows.append(("not-parameters", {f"{SEVEN[n]} (20)": m["pna"] - wider[n] for n in others}, each))
    rows.append(("no-boost", {SEVEN[n]: m[n] - wider[n] for n in others}, whole, MARGIN))
    if spec == "described":
        gru = {SEVEN[n]: m[n] - average(f"no-gru/{spec}/{n}-16") for n in SEVEN}
        rows.append(("gru-effective", gru, whole))
        rows.append(("gru", gains(spec, "no-gru", smaller), whole))
        rows.append(("s2s", gains(spec, "mean-readout", counting), whole))
    else:
        rows += published_rows(x)
    return rows


def gaps(facts):
    def gap(replica, k):
        known = [p for p in replica["curve"] if p[1] is not None]
        loss = min(known, key=lambda p: abs(p[0] - replica["best_epoch"]))[1]
        return math.log10(replica["validation"] / loss)

    return numbers(facts, gap)


def published_rows(x):
    """Ours as released against figures 4 and 5: details within a factor of two."""
    table, boxes = PUBLISHED["multitask_per_task"], PUBLISHED["multitask_boxplot"]
    labels = {"mpnn-max": "MPNN (one label)", "mpnn-sum": "MPNN (other label)"}
    split, averages, means, tasks = wide("released"), {}, {}, {}
    for name, title in SEVEN.items():
        path, row = f"multitask/released/{name}-16", table["rows"][title]
        *five, centre = boxes["rows"][labels.get(name, title)]
        error = np.std(five, ddof=1) / math.sqrt(5)
        averages[f"{title}, average"] = average(path, split) - Sum({}, [(title, row[0], error, 4.0)])
        means[f"{title}, mean MSE"] = overall(path, split) - Sum({}, [(title, centre, error, 4.0)])
        for k, task in enumerate(TASKS):
            ours = average(path, split, k)
            tasks[f"{title}, {task}"] = ours - again(f"{title}, {task}", row[k + 1], ours)
    lines = {}
    for name in SIX:
        for (size, split), theirs in zip(SIZES.items(), PUBLISHED["extrapolation"]["rows"][SEVEN[name]], strict=False):
            if isinstance(theirs, float | int):
                ours, shown = ratio(x[name], split), f"{SEVEN[name]}, {size} nodes"
                ((key, scores),) = ours.terms.items()
                point = Sum({(AGAIN + key[0], None): scores}, [(shown, theirs, 0.0, math.inf)])
                lines[shown] = ours - point  # points of one line share their runs
    return [
        ("published-averages", averages, whole, 0.0, TOLERANCE, MARGIN),
        ("published-boxes", means, whole, 0.0, TOLERANCE, MARGIN),
        ("published-tasks", tasks, lambda sums: {n: n.split(", ", 1)[1] for n in sums}, 0.0, TOLERANCE, TOLERANCE),
        ("published-5", lines, whole, 0.0, TOLERANCE, TOLERANCE),
    ]


def again(name, value, ours):
    """A published number, as uncertain as one experiment of ours with ten seeds."""
    ((key, scores),) = ours.terms.items()
    ranked_by = validation(cell(key[0]))[:, key[1] or 0]
    _, error, freedom = five_best(ranked_by, scores)
    if len(scores) > 10:  # of one experiment: the variance between subsets, and that of their mean
        error = math.hypot(error, between_subsets(ranked_by, scores))
    return Sum({}, [(name, value, error, freedom)])


def between_subsets(ranked_by, scores):
    """The standard deviation of the mean of the five best over all subsets of ten; diverged seeds do not count."""
    n, alive = len(scores), [k for k in range(len(scores)) if math.isfinite(ranked_by[k])]
    ranked = np.array([scores[k] for k in sorted(alive, key=lambda k: (ranked_by[k], k))])
    m, ranks = len(ranked), np.arange(len(ranked))
    drawn, squares = stats.hypergeom(n, m, 10), np.zeros((m, m))
    for k in range(1, min(10, m) + 1):
        best = min(5, k)
        alone = k / m * stats.hypergeom.cdf(best - 1, m - 1, ranks, k - 1)
        worse = np.maximum.outer(ranks, ranks)  # both are chosen if few enough others are before the worse one
        pairs = k * (k - 1) / (m * (m - 1)) * stats.hypergeom.cdf(best - 2, m - 2, worse - 1, k - 2) if k > 1 else 0.0
        squares += drawn.pmf(k) * np.where(np.eye(m, dtype=bool), np.diag(alone), pairs) / best**2
    squares /= drawn.sf(0)
    centred = ranked - ranked.mean()
    return math.sqrt(max(centred @ squares @ centred - (subset_weights(n, m, 10, 5) @ centred) ** 2, 0.0))


def judge_training(row):
    """The judgement on a row: its comparisons one by one, and their means group by group."""
    _, details, group, bound, margin, test_margin = (*row, *(0.0, None, None)[len(row) - 3 :])
    sums = {name: one[0] if isinstance(one, tuple) else one for name, one in details.items()}
    parts = {
        name: details[name][1] if isinstance(details[name], tuple) else decide(one.estimate, bound, margin)
        for name, one in sums.items()
    }
    groups = {}
    for name, key in group(sums).items():
        groups.setdefault(key, []).append(name)
    tests = {}
    for key, names in groups.items():
        if len(names) == 1:
            tests[names[0]] = parts[names[0]]
        else:
            tests[key] = decide(mean(sums[n] for n in names).estimate, bound, test_margin or margin)
    return verdict(tests, parts)


def explosions(spec):
    rows = {}
    for name in SIX:
        values = ratios(f"extrapolation/{spec}/{name}-16", SIZES["45-49"])
        count, runs = int((values >= math.log10(CAP)).sum()), len(values)
        text = f"({count} of {runs} runs above {CAP:.0f} times the baseline's error)"
        p = stats.binomtest(count, runs).pvalue
        rows[f"{SEVEN[name]}, 45-49 nodes"] = Comparison(p, side_of(2 * count > runs), text=text)
    return verdict(rows, need=1)


def consistency(spec):
    """The spread between seeds, PNA against three, four and five moments."""

    def spread(model):
        scores = np.log10(tamed(cell(f"multitask/{spec}/{model}-16"), "multitask/test")).mean(1)
        n = len(scores)
        logs = [math.log10(np.std(np.delete(scores, k), ddof=1)) for k in range(n)]
        return math.log10(np.std(scores, ddof=1)), math.sqrt((n - 1) * np.var(logs)), n - 1.0

    pna, rest = spread("pna"), {n: spread(f"moments-{n}") for n in (3, 4, 5)}
    test = total([pna, *((-v / 3, e / 3, f) for v, e, f in rest.values())])
    details = {f"{n} moments": decide(total([pna, (-v, e, f)])) for n, (v, e, f) in rest.items()}
    return verdict({"mean": decide(test)}, details)


# ---- networks and data: facts ----

OTHERS = ("pna-no-scalers", "mpnn-max", "gat", "gcn", "gin")  # both MPNNs are of one size
AGGREGATED = {"pna": 4 * 3, "pna-no-scalers": 4, "mpnn-max": 1, "mpnn-sum": 1, "mean-max-min": 3}  # by scalers


def convolution(model, inputs, F):
    """The parameters of a graph convolution from `inputs` to F features (section 2.3, appendix F)."""
    if model == "gcn":
        return inputs * F + F
    if model == "gat":  # four heads of attention over pairs of F / 4 features
        return inputs * F + 2 * F
    if model == "gin":  # epsilon, two layers, and a norm between them
        return 1 + (inputs * F + F) + 2 * F + (F * F + F)
    each = inputs // 4 if inputs == F else inputs  # four towers share the features, or see both inputs
    M, U = 2 * each * each + each, (1 + AGGREGATED[model]) * each * (F // 4) + F // 4
    return 4 * (M + U) + F * F + F


def heads(inputs, graph_inputs, F):
    """The parameters of the three layers before the labels of nodes and, with two norms, of graphs."""
    return sum(a * F + F + F * F + F + 3 * F + 3 for a in (inputs, graph_inputs)) + 4 * F


def recurrent(model, F=16):
    gru, s2s = 6 * F * F + 6 * F, 12 * F * F + 8 * F
    return convolution(model, 2, F) + convolution(model, F, F) + gru + s2s + heads(F, 2 * F, F)


def standard(model, F=16):
    return convolution(model, 2, F) + 7 * convolution(model, F, F) + heads(2 + 8 * F, 2 + 8 * F, F)


def trained_parameters(path):
    """The number of weights of the network that a safetensors file holds; None if there is no such file."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header["theta"]["shape"][-1]


def share(true_share, stated):
    return certain(abs(true_share - stated) <= 0.05, f"{true_share:+.0%}")


def shares(values, stated):
    """Shares by model and their mean over six models, MPNN (max) standing for MPNN (sum), too."""
    average = (sum(values.values()) + values["mpnn-max"]) / 6
    details = {EIGHT[name]: share(value, stated) for name, value in values.items()}
    return verdict({"mean over the six models": share(average, stated)}, details)


def parameters():
    published, rows = PUBLISHED["parameters"], {}
    for F in (16, 20):
        for title in (SEVEN[n] for n in ("pna", "pna-no-scalers", "gat", "gcn", "gin", "mpnn-max", "mpnn-sum")):
            name = next(n for n in SEVEN if SEVEN[n] == title)
            theirs = published[f"hidden_{F}"]["MPNN (sum/max)" if title.startswith("MPNN") else title]
            file = ROOT / "results" / "planned" / "multitask" / "released" / f"{name}-{F}.safetensors"
            same = recurrent(name, F) == theirs == (trained_parameters(file) or theirs)
            rows[f"{title} ({F})"] = certain(same, f"{recurrent(name, F):,}")
    return verdict(rows)


def efficient():
    names = ("pna", *OTHERS, "mean-max-min")
    sizes = {name: (recurrent(name), standard(name)) for name in names}
    return verdict({EIGHT[n]: certain(a < b, f"{a:,} against {b:,}") for n, (a, b) in sizes.items()})


def toggled(probability_of):
    """The largest relative change of the expected number of edges in graphs of 20 nodes, and whether it is small."""
    pairs, most = 190, 0.0
    for e in range(1, pairs):
        m = pairs - e
        P_e, P_m = (0.1, 0.1 * e / m) if e <= m else (0.1 * m / e, 0.1)  # appendix G
        P_e, P_m = probability_of(P_e, P_m)
        most = max(most, abs(P_m * m - P_e * e) / e)
    words = f"changes by at most {most:.1%}" if most > 1e-9 else "stays the same"
    return certain(most <= 0.1, f"the expected mean degree {words}")


def toggling():
    below = stats.triang(0.5).cdf  # of the sum of two draws from [0, 1/2], which the released code compares with P
    described = toggled(lambda P_e, P_m: (P_e, P_m))
    released = toggled(lambda P_e, P_m: (1 - below(1 - P_e), below(P_m)))
    tested = described._replace(text=f"{described.text}; as released (D2) {released.text}")
    return verdict({"as described": tested}, {"as described": described, "as released (D2)": released})


def superpixels():
    """Every node sends to eight others; how many it receives from, in graphs of 72 nodes near the points of a grid."""
    rng, received = np.random.default_rng(1), []
    for _ in range(8):
        grid = np.stack(np.meshgrid(range(9), range(8)), -1).reshape(-1, 2) + rng.uniform(size=(72, 2))
        distance = np.linalg.norm(grid[:, None] - grid[None], axis=-1)
        sigma = np.sort(distance)[:, 1:9].mean(1)
        affinity = np.exp(-((distance / sigma[:, None]) ** 2))
        affinity = affinity + affinity.T - 2 * np.eye(72)
        nearest = np.argsort(-affinity)[:, :8]
        received += list(np.bincount(nearest.ravel(), minlength=72))
    sent = certain(nearest.shape[1] == 8, "8")
    even = certain(min(received) == max(received) == 8, None)  # other graphs: the word is compared, not the numbers
    return verdict(
        {"edges sent by each node": sent}, {"edges sent by each node": sent, "messages received by each node": even}
    )


def baseline_of_draws(row):
    """The tests of the stated differences between the published baseline and eight draws."""
    tests = {}
    for one in row["comparisons"]:
        low, high = one["interval"]
        error = (high - low) / 2 / stats.t.isf(0.025, 7)
        tests[one["name"]] = decide((one["value"], error, 7.0), margin=MARGIN, text=one["text"])
    return verdict(tests)


def recorded_draw(row):
    """Lines on tasks whose baseline in the recorded data is not one more of the stated draws."""
    ours = np.log10(baseline(recorded("multitask/released/pna-16", ("paper",)), "multitask-15-24/test"))
    theirs = PUBLISHED["multitask_per_task"]["rows"]["Baseline"][1:]
    lines = []
    for k, one in enumerate(row["comparisons"]):
        low, high = one["interval"]
        reach = (high - low) / 2 * stats.t.isf(0.0005, 7) / stats.t.isf(0.025, 7)
        if one["name"] != TASKS[k] or abs(ours[k] - theirs[k] - one["value"]) > reach:
            lines.append(f"baseline, {one['name']}: {ours[k] - theirs[k]:.3f} in the recorded data")
    return lines


def facts(stated):
    """{id: judgement} of the claims that need no training."""
    more = {name: recurrent("pna") / recurrent(name) - 1 for name in OTHERS}
    larger = {name: recurrent(name, 20) / recurrent("pna") - 1 for name in OTHERS}
    inputs = 1 + AGGREGATED["pna"]
    return {
        "width": verdict({"": certain(inputs == 13, f"4 aggregators × 3 scalers + 1 = {inputs}")}),
        "more-parameters": shares(more, 0.15),
        "larger-others": shares(larger, 0.30),
        "counts": parameters(),
        "efficient": efficient(),
        "toggling": toggling(),
        "degree-8": superpixels(),
        "baseline": baseline_of_draws(stated["baseline", ""]),
    }


# ---- figure 6 ----

COLUMNS = {"ZINC_noedge_MAE": ("zinc", "no-edges"), "ZINC_edge_MAE": ("zinc", "edges")}
COLUMNS |= {"CIFAR10_noedge_acc": ("cifar10", "no-edges"), "CIFAR10_edge_acc": ("cifar10", "edges")}
COLUMNS |= {"MNIST_noedge_acc": ("mnist", "no-edges"), "MNIST_edge_acc": ("mnist", "edges")}
COLUMNS |= {"MolHIV_ROCAUC": ("molhiv", "no-edges")}
UNIT = {"zinc": 0.02, "molhiv": 1.0, "cifar10": 1.0, "mnist": 0.3}
FILES = {"PNA": "pna", "PNA (no scalers)": "pna-no-scalers", "MPNN (sum)": "mpnn-sum", "MPNN (max)": "mpnn-max"}
FILES |= {"MLP": "mlp", "MLP (Gated)": "mlp-gated", "GCN": "gcn", "GraphSage": "graphsage", "GIN": "gin"}
FILES |= {"GAT": "gat", "MoNet": "monet", "GatedGCN": "gatedgcn", "DiffPool": "diffpool"}


def published_score(title, column):
    facts = PUBLISHED["realworld"]
    text = dict(zip(facts["columns"], facts["rows"][title], strict=True))[column]
    if text is None:
        return None
    value, deviation = map(float, text.rstrip("*").split("±"))
    seeds = 10 if column.startswith("MolHIV") else 4
    return value, deviation / math.sqrt(seeds), seeds - 1.0


def results_of(column, budget):
    """{title: file} of the models of a column that are recorded in a folder of results/."""
    data, edges = COLUMNS[column]
    folder = ROOT / "results" / budget / data / "released"
    kinds = ("no-edges", "edges") if data == "molhiv" else (edges,)
    files = {title: [folder / f"{file}-{kind}.json" for kind in kinds] for title, file in FILES.items()}
    return {title: path for title, paths in files.items() for path in paths if path.exists()}


@cache
def score(title, column):
    """The mean over seeds; a column shows the new seeds if all of its models have them, else the first ones."""
    new, old = (results_of(column, budget) for budget in ("planned", "paper"))
    data, path = COLUMNS[column][0], (new if len(new) >= len(old) else old).get(title)
    if path is None:
        return None
    key = "test/best" if data == "molhiv" else "test/last"
    values = [r["test"][key][0] for r in opened(path)["replicas"] if r["test"][key][0] is not None]
    values = np.array(values) * (1.0 if data == "zinc" else 100.0)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values)), len(values) - 1.0


def side_text(title, column):
    """A score of ours, or the published one, as mean ± deviation, and whose it is."""
    ours = score(title, column)
    value, error, freedom = ours or published_score(title, column)
    digits = 3 if column.startswith("ZINC") else 2
    value = round(value, 9)  # so that 97.925 is rounded one way, however it was summed
    text = f"{value:.{digits}f} ± {error * math.sqrt(freedom + 1):.{digits}f}"
    return text, "ours" if ours else "published"


def title_of(column):
    data, edges = COLUMNS[column]
    name = {"zinc": "ZINC", "molhiv": "MolHIV", "cifar10": "CIFAR10", "mnist": "MNIST"}[data]
    return name if data == "molhiv" else f"{name}, {'no ' * (edges == 'no-edges')}edge features"


def signed(column, title, weight, published=False):
    """A score as a term of a sum, positive where it is worse."""
    value, error, freedom = published_score(title, column) if published else best_known(title, column)
    weight *= 1.0 if column.startswith("ZINC") else -1.0
    return weight * value, abs(weight) * error, freedom


def best_known(title, column):
    return score(title, column) or published_score(title, column)


def beats(column, title, rival):
    """{name: test} of one model against another on a column."""
    text, (theirs, whose) = side_text(title, column)[0], side_text(rival, column)
    estimate = total([signed(column, title, 1.0), signed(column, rival, -1.0)])
    return {f"{title_of(column)}, {rival}": decide(estimate, text=f"{title} {text} against {theirs} ({whose})")}


def favourite(column, titles):
    """The model with the best published mean; of two that tie, the one that figure 6 has first."""
    shown = {t: s for t in PUBLISHED["realworld"]["rows"] if t in titles and (s := published_score(t, column))}
    return min(shown, key=lambda t: shown[t][0] * (1 if column.startswith("ZINC") else -1))


OURS = ("PNA", "PNA (no scalers)")
ZINC, VISION, MOLHIV = list(COLUMNS)[:2], list(COLUMNS)[2:6], "MolHIV_ROCAUC"
RELATIVE = {column: UNIT[data] for column, (data, _) in COLUMNS.items()}


def rivals(column, but):
    return [t for t in FILES if t not in but and best_known(t, column)]


def joined(rows):
    return {name: test for row in rows for name, test in row.items()}


def figure6():
    """{id: judgement} of the claims on figure 6."""
    return {
        "zinc": verdict(joined(beats(c, "PNA", t) for c in ZINC for t in rivals(c, ("PNA",)))),
        "molhiv": verdict(joined(beats(MOLHIV, "PNA", t) for t in rivals(MOLHIV, OURS))),
        "zinc-scalers": verdict(joined(beats(c, *OURS) for c in (*ZINC, MOLHIV))),
        "vision-scalers": vision_scalers(),
        "vision-mlp": verdict(joined(beats(c, "MLP", "GCN") for c in VISION if "noedge" in c)),
        "most-tasks": most_tasks(),
        "published-6": like_published(),
        "vision-less": vision_less(),
    }


def vision_scalers():
    terms = [signed(c, t, w / 4 / RELATIVE[c]) for c in VISION for t, w in zip(OURS, (-1.0, 1.0), strict=True)]
    return verdict({"mean": decide(total(terms))}, joined(beats(c, *reversed(OURS)) for c in VISION))


def most_tasks():
    """On each column the comparison that is the least certain."""

    def doubt(row):
        ((value, error, freedom),) = (test.estimate for test in row.values())
        return stats.t.cdf(value / error, freedom)

    hardest = []
    for c in COLUMNS:
        hardest.append(max((beats(c, favourite(c, OURS), t) for t in rivals(c, OURS)), key=doubt))
    return verdict(joined(hardest), need=4)


def both(column):
    """The models with a score of ours and a published one."""
    return [t for t in FILES if score(t, column) and published_score(t, column)]


def like_published():
    details, columns = {}, {}
    for c in COLUMNS:
        pairs = {t: [signed(c, t, 1 / RELATIVE[c]), signed(c, t, -1 / RELATIVE[c], True)] for t in both(c)}
        details |= {f"{title_of(c)}, {t}": decide(total(pair), margin=1.0) for t, pair in pairs.items()}
        terms = [(v / len(pairs), e / len(pairs), f) for pair in pairs.values() for v, e, f in pair]
        columns[title_of(c)] = decide(total(terms), margin=1.0)
    return verdict(columns, details)


def vision_less():
    def logs(c, title, weight):
        v, e, f = score(title, c)
        wrong = v if c.startswith("ZINC") else 100 - v
        return weight * math.log10(wrong), abs(weight) * e / (wrong * math.log(10)), f

    def lead(c, weight):
        rest = [t for t in FILES if t not in OURS]
        return [logs(c, favourite(c, OURS), weight), logs(c, favourite(c, rest), -weight)]

    test = total([t for c in ZINC for t in lead(c, 0.5)] + [t for c in VISION for t in lead(c, -0.25)])
    details = {
        f"{title_of(c)} against {title_of(d)}": decide(total(lead(c, 1.0) + lead(d, -1.0)))
        for c in ZINC
        for d in VISION
    }
    return verdict({"mean": decide(test)}, details)


def agreement():
    """The clauses on how far all numbers of figure 6 agree, as claims.json should have them."""
    trained = {t: t in (*OURS, "MPNN (sum)", "MPNN (max)") for t in FILES}
    tests = {
        (t, c): stats.ttest_ind_from_stats(*moments(score(t, c)), *moments(published_score(t, c)), equal_var=False)
        for c in COLUMNS
        for t in both(c)
    }
    equal = sum(test.p < 0.05 and test.side == "holds" for test in like_published().details.values())
    sides = (lambda t: True, lambda t: trained[t], lambda t: not trained[t])
    joint = [stats.combine_pvalues([p.pvalue for (t, _), p in tests.items() if side(t)]).pvalue for side in sides]
    n, differ = len(tests), sum(test.pvalue < 0.05 for test in tests.values())
    return [
        f"{equal} of {n} published numbers equal ours to within the margin",
        f"{differ} differ with p below 5 %, where chance alone would give {0.05 * n:.1f}",
        "Fisher's joint test gives p = {:.2g} for all of them, {:.2g} for the four models that the authors trained, "
        "and {:.2g} for the models that they quote".format(*joint),
        f"with a power of {power(2.0, n):.0%}, and one of four with {power(4.0, n):.0%}",
    ]


def moments(estimate):
    """(mean, standard deviation, number) of a score."""
    value, error, freedom = estimate
    return value, error * math.sqrt(freedom + 1), int(freedom + 1)


def power(difference, comparisons):
    """The chance that Welch's test of four against four has p below 5 % over `comparisons`, the right way."""
    chance = (np.arange(800) + 0.5) / 800
    a, b = np.meshgrid(*[stats.chi2.ppf(chance, 3) / 3] * 2)  # the two variances, in units of the true one
    freedom = 3 * (a + b) ** 2 / (a**2 + b**2)
    reach = stats.t.isf(0.025 / comparisons, freedom) * np.sqrt((a + b) / 4)
    return stats.norm.sf((reach - difference) / math.sqrt(0.5)).mean()


# ---- against claims.json ----

PROVED = ["fails", "theorem1", "suffice", "proposition1", "sum-continuous", "theorem2", "sum-is-scaled", "depth"]
PROVED += ["scaler-injective", "linear-moments", "limits", "softmax"]  # by verification/, which checks itself


def recomputed(stated):
    """{(id, spec): judgement} of every claim, from the budget that it states."""
    words = under_one_budget("paper")
    planned = {key for key, row in stated.items() if "planned:" in (row["budget"] or "")}
    words |= {key: word for key, word in under_one_budget("planned", "paper").items() if key in planned}
    return words | {(name, ""): judgement for name, judgement in (figure6() | facts(stated)).items()}


def under_one_budget(*budgets):
    """{(id, spec): judgement} of every claim on the multi-task benchmark, with the given folders as BUDGETS."""
    BUDGETS[:] = budgets
    return dict(_under(budgets))


@cache
def _under(budgets):
    words = {}
    for spec in ("described", "released"):
        for row in claims(spec):
            words[row[0], spec] = judge_training(row)
        words["explodes", spec] = explosions(spec)
        words["pna-consistent", spec] = consistency(spec)
    return words


def close(ours, theirs):
    """Whether numbers are those of claims.json, which have five digits."""
    return np.allclose(ours, theirs, 2e-4, 2e-9)


def row_differs(test, outcome, p, row):
    """Whether claims.json has another outcome, value, interval, bound, p-value or text for a comparison."""
    if row is None or row["outcome"] != outcome or (test.text is not None and row.get("text") != test.text):
        return True
    if test.estimate is None:
        return "value" in row
    ours = (test.estimate[0], *test.interval, test.bound, p)
    return not close(ours, (row["value"], *row["interval"], row["bound"], row["p"]))


def rows_that_differ(tests, rows, together=False):
    """(name, words) of the comparisons that claims.json has otherwise, lacks, or has in excess."""
    named = {row["name"]: row for row in rows}
    for (name, test), (outcome, p) in zip(tests.items(), outcomes(list(tests.values()), together), strict=True):
        if row_differs(test, outcome, p, named.get(name)):
            yield name, f"{named.get(name)} is stated, {outcome}, p = {p}, {test} recomputed"
    for name in named.keys() - tests.keys():
        yield name, "not recomputed"


def claim_differs(key, ours, row):
    """Lines on what claims.json has otherwise for one claim."""
    if row["outcome"] != ours.word:
        yield f"{key}: {row['outcome']} is stated, {ours.word} recomputed"
    for name, words in rows_that_differ(ours.details, row["comparisons"]):
        yield f"{key}, {name}: {words}"
    if test := row["aggregate"]:
        if not close((ours.p, ours.p_against), (test["p"], test["p_against"])):
            yield f"{key}, test: p = {test['p']}, {test['p_against']} stated, {ours.p}, {ours.p_against} recomputed"
        for name, words in rows_that_differ(ours.tests, test["parts"], together=True):
            yield f"{key}, test, {name}: {words}"


def differences(path=ROOT / "figures" / "claims.json"):
    """What claims.json says otherwise, in lines; and how many verdicts and comparisons were compared."""
    stated = {(row["id"], row["spec"]): row for row in json.loads(Path(path).read_text())}
    ours = recomputed(stated)
    judged = {key for key, row in stated.items() if row["kind"] != "not tested" and key[0] not in PROVED}
    lines = [f"{key}: not recomputed" for key in sorted(judged - ours.keys())]
    lines += [f"{key}: not in claims.json" for key in sorted(ours.keys() - judged)]
    for key in sorted(judged & ours.keys()):
        lines += claim_differs(key, ours[key], stated[key])
    lines += recorded_draw(stated["baseline", ""])
    evidence = stated["published-6", ""]["evidence"]
    lines += [f"published-6: not stated: {clause}" for clause in agreement() if clause not in evidence]
    return lines, len(ours), sum(len(one.details) + len(one.tests) for one in ours.values())


if __name__ == "__main__":
    lines, verdicts, comparisons = differences(*sys.argv[1:])
    print("\n".join([*lines, f"{verdicts} verdicts, {comparisons} comparisons, {len(lines)} differences"]))
    sys.exit(bool(lines))

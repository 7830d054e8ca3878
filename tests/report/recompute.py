"""Every verdict on a training, computed again from the recorded JSON, without any code of report/ or pna/verdicts.

`python -m tests.report.recompute` reads results/, the published numbers and figures/claims.json, and prints what
differs. Formulas are written another way where there is one: weights of ranks by a Markov chain over ranks, subsets by
scipy's hypergeometric distribution, tests by scipy.stats.
"""

import itertools
import json
import math
import sys
from functools import cache
from pathlib import Path

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
SIZES = {f"{n}-{n + 5}": f"extrapolation/test_{n}_{n + 5}" for n in (20, 25, 30, 35, 40, 45, 60, 75, 95)}
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


def decide(estimate, bound=0.0, margin=None):
    """(p-value, side) of a difference below a bound, or within a margin."""
    value, error, freedom = estimate
    t = stats.t(freedom)
    if margin is None:
        low = t.cdf((value - bound) / error)
        return 2 * min(low, 1 - low), "holds" if low < 0.5 else "against"
    near = max(t.cdf((value - margin) / error), t.sf((value + margin) / error))
    far = 2 * min(t.cdf((value + margin) / error), t.sf((value - margin) / error))
    return min(near, far), "holds" if near < far else "against"


def corrected(values):
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate([min(1.0, (len(values) - k) * values[i]) for k, i in enumerate(order)])
    return {int(i): p for i, p in zip(order, steps, strict=True)}


def outcomes(tests):
    ps = corrected([p for p, _ in tests])
    return [side if ps[k] < 0.05 else "undecided" for k, (_, side) in enumerate(tests)]


def verdict(tests, details, need=None):
    """The word of a claim: its test's, and what the details add."""
    k, need = len(tests), need or len(tests)
    toward, away = (sorted(p if side == way else 1.0 for p, side in tests) for way in ("holds", "against"))
    against = outcomes(details).count("against") if need == k else 0
    if min(1.0, (k - need + 1) * toward[need - 1]) < 0.05:
        return f"in part, {against} against" if against else "reproduced"
    if min(1.0, need * away[k - need]) < 0.05:
        return "contradicted"
    held = outcomes(tests).count("holds")
    return f"{held} of {k}" if held and k > 1 else "undecided"


# ---- recorded cells ----


BUDGETS = ["paper"]  # folders to look for a cell in, one after the other


def cell(name):
    return recorded(name, tuple(BUDGETS))


@cache
def recorded(name, budgets):
    paths = [path for budget in budgets if (path := ROOT / "results" / budget / f"{name}.json").exists()]
    if not paths and name.startswith("extrapolation/released/"):
        return recorded(name.replace("extrapolation", "multitask"), budgets)  # trained alike as released
    return json.loads(paths[0].read_text()) | {"name": name}


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
        parts = [five_best(validation(cell(name))[:, task or 0], s) for (name, task), s in self.terms.items()]
        return total(parts + [one[1:] for one in self.extra])


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
        p, side = decide(gap.estimate)
        if side == "against":
            value, error, freedom = (first[a] - first[b]).estimate
            p = max(p, 2 * stats.t.cdf(value / error, freedom))
        rows[f"{EIGHT[a]} before {EIGHT[b]}"] = (gap, (p, side))
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
                lines[shown] = ours - again(shown, theirs, ours)
    return [
        ("published-averages", averages, whole, 0.0, TOLERANCE, MARGIN),
        ("published-boxes", means, whole, 0.0, TOLERANCE, MARGIN),
        ("published-tasks", tasks, lambda sums: {n: n.split(", ", 1)[1] for n in sums}, 0.0, TOLERANCE, TOLERANCE),
        ("published-5", lines, whole, 0.0, TOLERANCE, TOLERANCE),
    ]


def again(name, value, ours):
    """A published number, as uncertain as one experiment of ours with ten seeds."""
    ((key, scores),) = ours.terms.items()
    _, error, freedom = five_best(validation(cell(key[0]))[:, key[1] or 0], scores)
    if len(scores) > 10:  # of one experiment: the variance between subsets, and that of their mean
        rng = np.random.default_rng(0)
        rank = np.argsort(np.where(np.isfinite(v := validation(cell(key[0]))[:, 0]), v, np.inf), kind="stable")
        means = [np.mean(scores[rank[np.sort(rng.permutation(len(scores))[:10])[:5]]]) for _ in range(20_000)]
        error = math.hypot(error, float(np.std(means)))
    return Sum({}, [(name, value, error, freedom)])


def judge_training(row):
    """(word, {name: estimate}, p-value of the test) of a claim."""
    _, details, group, bound, margin, test_margin = (*row, 0.0, None, None)[:6] if len(row) < 6 else row
    sums = {name: one[0] if isinstance(one, tuple) else one for name, one in details.items()}
    parts = {
        name: details[name][1] if isinstance(details[name], tuple) else decide(one.estimate, bound, margin)
        for name, one in sums.items()
    }
    groups = {}
    for name, key in group(sums).items():
        groups.setdefault(key, []).append(name)
    tests = []
    for names in groups.values():
        alone = len(names) == 1
        tests.append(
            parts[names[0]]
            if alone
            else decide(mean(sums[n] for n in names).estimate, bound, None if margin is None else test_margin)
        )
    return verdict(tests, list(parts.values())), {n: one.estimate for n, one in sums.items()}


def explosions(spec):
    rows = {}
    for name in SIX:
        values = ratios(f"extrapolation/{spec}/{name}-16", SIZES["45-50"])
        count, runs = int((values >= math.log10(CAP)).sum()), len(values)
        p = stats.binomtest(count, runs).pvalue
        rows[name] = (p, "holds" if 2 * count > runs else "against")
    return verdict(list(rows.values()), list(rows.values()), need=1)


def consistency(spec):
    """The spread between seeds, PNA against three, four and five moments."""

    def spread(model):
        scores = np.log10(tamed(cell(f"multitask/{spec}/{model}-16"), "multitask/test")).mean(1)
        n = len(scores)
        logs = [math.log10(np.std(np.delete(scores, k), ddof=1)) for k in range(n)]
        return math.log10(np.std(scores, ddof=1)), math.sqrt((n - 1) * np.var(logs)), n - 1.0

    pna, rest = spread("pna"), [spread(f"moments-{n}") for n in (3, 4, 5)]
    test = total([pna, *((-v / 3, e / 3, f) for v, e, f in rest)])
    details = [total([pna, (-v, e, f)]) for v, e, f in rest]
    return verdict([decide(test)], [decide(one) for one in details])


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


@cache
def score(title, column):
    data, edges = COLUMNS[column]
    for variant in (edges, "edges") if data == "molhiv" else (edges,):
        path = ROOT / "results" / "paper" / data / "released" / f"{FILES[title]}-{variant}.json"
        if path.exists():
            break
    else:
        return None
    key = "test/best" if data == "molhiv" else "test/last"
    values = [r["test"][key][0] for r in json.loads(path.read_text())["replicas"] if r["test"][key][0] is not None]
    values = np.array(values) * (1.0 if data == "zinc" else 100.0)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values)), len(values) - 1.0


def worse(column, one, other, unit=1.0):
    """How much worse a score is than another."""
    sign = (1.0 if column.startswith("ZINC") else -1.0) / unit
    return total([(sign * one[0], abs(sign) * one[1], one[2]), (-sign * other[0], abs(sign) * other[1], other[2])])


def favourite(column, titles):
    shown = {t: s for t in titles if (s := published_score(t, column))}
    return min(shown, key=lambda t: shown[t][0] * (1 if column.startswith("ZINC") else -1))


def figure6():
    """{id: word} of the claims on figure 6."""
    ours = ("PNA", "PNA (no scalers)")
    rest = [t for t in FILES if t not in ours]
    zinc, vision = list(COLUMNS)[:2], list(COLUMNS)[2:6]
    unit = {c: UNIT[data] for c, (data, _) in COLUMNS.items()}
    words = {}

    def put(name, tests, details=None, need=None):
        words[name] = verdict(tests, tests if details is None else details, need)

    def rivals(column, but):
        both = {t: score(t, column) or published_score(t, column) for t in FILES if t not in but}
        return {t: s for t, s in both.items() if s}

    best = [decide(worse(c, score("PNA", c), s)) for c in zinc for s in rivals(c, ("PNA",)).values()]
    put("zinc", best)
    molhiv = "MolHIV_ROCAUC"
    put("molhiv", [decide(worse(molhiv, score("PNA", molhiv), s)) for s in rivals(molhiv, ours).values()])
    put("zinc-scalers", [decide(worse(c, score(ours[0], c), score(ours[1], c))) for c in (*zinc, molhiv)])
    scaled = [worse(c, score(ours[1], c), score(ours[0], c), unit[c]) for c in vision]
    mean_of = total([(v / 4, e / 4, f) for c in vision for v, e, f in halves(c, ours[1], ours[0], unit[c])])
    put("vision-scalers", [decide(mean_of)], [decide(one) for one in scaled])
    put("vision-mlp", [decide(worse(c, score("MLP", c), score("GCN", c))) for c in vision if "noedge" in c])
    hardest = []
    for c in COLUMNS:
        mine = favourite(c, ours)
        beaten = [worse(c, score(mine, c), s) for s in rivals(c, ours).values()]
        hardest.append(decide(max(beaten, key=lambda one: stats.t.cdf(one[0] / one[1], one[2]))))
    put("most-tasks", hardest, need=4)
    details, columns = [], []
    for c in COLUMNS:
        known = [(score(t, c), published_score(t, c)) for t in FILES if score(t, c) and published_score(t, c)]
        details += [decide(worse(c, a, b, unit[c]), 0.0, 1.0) for a, b in known]
        sign = (1.0 if c.startswith("ZINC") else -1.0) / unit[c] / len(known)
        terms = [(w * v, abs(w) * e, f) for pair in known for w, (v, e, f) in zip((sign, -sign), pair, strict=True)]
        columns.append(decide(total(terms), 0.0, 1.0))
    put("published-6", columns, details)

    def logs(c, title, weight):
        v, e, f = score(title, c)
        wrong = v if c.startswith("ZINC") else 100 - v
        return weight * math.log10(wrong), abs(weight) * e / (wrong * math.log(10)), f

    def lead(c, weight):
        return [logs(c, favourite(c, ours), weight), logs(c, favourite(c, rest), -weight)]

    test = total([t for c in zinc for t in lead(c, 0.5)] + [t for c in vision for t in lead(c, -0.25)])
    details = [decide(total(lead(c, 1.0) + lead(d, -1.0))) for c in zinc for d in vision]
    put("vision-less", [decide(test)], details)
    return words


def halves(column, one, other, unit):
    sign = (1.0 if column.startswith("ZINC") else -1.0) / unit
    a, b = score(one, column), score(other, column)
    return [(sign * a[0], abs(sign) * a[1], a[2]), (-sign * b[0], abs(sign) * b[1], b[2])]


# ---- against claims.json ----


def recomputed(stated):
    """{(id, spec): (word, {comparison: (value, error, freedom)})} of every claim, from the budget that it states."""
    BUDGETS[:] = ["paper"]
    words = under_one_budget()
    BUDGETS[:] = ["planned", "paper"]
    planned = {key for key, row in stated.items() if "planned:" in (row["budget"] or "")}
    return words | {key: word for key, word in under_one_budget().items() if key in planned}


def under_one_budget():
    words = {}
    for spec in ("described", "released"):
        for row in claims(spec):
            words[row[0], spec] = judge_training(row)
        words["explodes", spec] = explosions(spec), {}
        words["pna-consistent", spec] = consistency(spec), {}
    return words | {(name, ""): (word, {}) for name, word in figure6().items()}


def differences(path=ROOT / "figures" / "claims.json"):
    """What claims.json says otherwise, in lines; and how many verdicts and comparisons were compared."""
    lines, verdicts, comparisons = [], 0, 0
    stated = {(row["id"], row["spec"]): row for row in json.loads(Path(path).read_text())}
    ours = recomputed(stated)
    judged = {key for key, row in stated.items() if row["cells"]}
    lines += [f"{key}: not recomputed" for key in sorted(judged - ours.keys())]
    for key, (word, estimates) in ours.items():
        if key not in stated:
            lines.append(f"{key}: not in claims.json")
            continue
        row, verdicts = stated[key], verdicts + 1
        if row["outcome"] != word:
            lines.append(f"{key}: {row['outcome']} is stated, {word} recomputed")
        told = {one["name"]: one for one in row["comparisons"]}
        for name, (value, error, freedom) in estimates.items():
            comparisons += 1
            reach = stats.t.isf(0.025, freedom) * error
            again = (value, value - reach, value + reach)
            if name not in told or not np.allclose(again, (told[name]["value"], *told[name]["interval"]), 2e-4, 2e-6):
                lines.append(f"{key}, {name}: {told.get(name)} is stated, {again} recomputed")
    return lines, verdicts, comparisons


if __name__ == "__main__":
    lines, verdicts, comparisons = differences(*sys.argv[1:])
    print("\n".join([*lines, f"{verdicts} verdicts, {comparisons} comparisons, {len(lines)} differences"]))
    sys.exit(bool(lines))

"""The tests behind the claims of section 5.2: Welch's test, from each side's mean, deviation and number of seeds.

A rival's number is ours if it is recorded at its column's budget and was trained on the same data; otherwise it is the
published one. Where columns are averaged, each difference is divided by its data set's margin.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pna.figures import published, realworld
from pna.figures.figure6 import Power, power_of, rows_of
from pna.figures.runs import RecordedRun
from pna.verdicts.contrasts import Contrast
from pna.verdicts.rules import AGAINST, HOLDS, less, rule
from pna.verdicts.statistics import LEVEL, Estimate, fisher
from report.parts import Part, known

__all__ = ["MARGINS", "MOLHIV", "MOST", "PUBLISHED", "SCALERS", "VISION_LESS", "VISION_MLP", "VISION_SCALERS", "ZINC"]
__all__ += ["Agreement", "Figure6Claim", "agreement", "published_says"]

MARGINS = {"zinc": 0.02, "molhiv": 1.0, "cifar10": 1.0, "mnist": 0.3}  # MAE, percentage points: less counts as none

Score = RecordedRun | Estimate  # ours or published
Scores = dict[tuple[str, str], Score]
_OURS = ("PNA", "PNA (no scalers)")
_ZINC = ("ZINC_noedge_MAE", "ZINC_edge_MAE")
_MOLHIV = "MolHIV_ROCAUC"
_VISION = tuple(name for name, (data, _) in realworld.COLUMNS.items() if data in ("cifar10", "mnist"))


def margin_of(column: str) -> float:
    """The difference that counts as none in a column."""
    return MARGINS[realworld.COLUMNS[column][0]]


def zinc(ours: Scores) -> list[Part]:
    """PNA against every other model on ZINC."""
    return _best("PNA", _ZINC, ours)


def molhiv(ours: Scores) -> list[Part]:
    """PNA against the models that the paper shows with it on MolHIV; its variant without scalers is not among them."""
    return [part for part in _best("PNA", (_MOLHIV,), ours) if part.keys["model"] not in _OURS]


def molhiv_without_scalers(ours: Scores) -> str:
    """A sentence on PNA without scalers on MolHIV, which the paper does not show; empty if it is not recorded."""
    parts = _pair("PNA", "PNA (no scalers)", (_MOLHIV,), ours)
    if not parts:
        return ""
    (row,) = rule([parts[0].comparison]).rows
    outcome = {HOLDS: "PNA is better", AGAINST: "PNA is worse"}.get(row.outcome, "it is undecided which is better")
    mine = realworld.score_text(_estimate(ours["PNA (no scalers)", _MOLHIV]))
    return f"PNA (no scalers), which the paper does not show on MolHIV, reaches {mine}; {outcome} (p = {row.p:.2f})."


def molecule_scalers(ours: Scores) -> list[Part]:
    """PNA against PNA without scalers, on ZINC and MolHIV."""
    return _pair("PNA", "PNA (no scalers)", (*_ZINC, _MOLHIV), ours)


def vision_scalers(ours: Scores) -> list[Part]:
    """PNA without scalers against PNA, on CIFAR10 and MNIST."""
    return _pair("PNA (no scalers)", "PNA", _VISION, ours)


def vision_mlp(ours: Scores) -> list[Part]:
    """The MLP, which ignores the graph, against GCN on CIFAR10 and MNIST."""
    return _pair("MLP", "GCN", [column for column in _VISION if "noedge" in column], ours)


def most(ours: Scores) -> list[Part]:
    """PNA against all other models on each column, with scalers or without: whichever has the better published mean.

    That it beats all of them is as certain as the least certain of these comparisons, which need not be the one with
    the strongest rival.
    """
    rows = []
    for column in realworld.COLUMNS:
        title = _favourite(column, _OURS)
        if (title, column) in ours:
            rivals = _rivals(column, ours, _OURS, ours[title, column]).items()
            beaten = [_beats(column, title, ours[title, column], rival, score) for rival, score in rivals]
            rows.append(max(beaten, key=_doubt))
    return rows


def vision_less(ours: Scores) -> list[Part]:
    """PNA's lead over the best other model as a share of its error: each column of ZINC against each of the images.

    Best is the model with the best published mean. On MNIST without edge features GatedGCN and MPNN (max) have the same
    one; figure 6 has GatedGCN first, and so has the plan. Scores are log10 of the error, so that a lead is a ratio.
    """
    leads = {column: _lead(column, ours) for column in (*_ZINC, *_VISION)}
    return [
        Part(
            f"{realworld.column_title(one)} against {realworld.column_title(other)}",
            leads[one] - leads[other],
            {"molecules": one, "images": other},
            digits=3,
        )
        for one in _ZINC
        for other in _VISION
        if leads[one] and leads[other]
    ]


def _lead(column: str, ours: Scores) -> Contrast | None:
    """log10 of PNA's error minus that of the best other model; None unless both are ours."""
    mine, theirs = _leaders(column)
    if (mine, column) not in ours or (theirs, column) not in ours:
        return None
    one = ours[mine, column]
    return _log_error(column, mine, one) - _log_error(column, theirs, _rivals(column, ours, _OURS, one)[theirs])


def _leaders(column: str) -> tuple[str, str]:
    """The version of PNA and the other model that have the best published means."""
    others = [title for title in published.realworld() if title not in _OURS]
    return _favourite(column, _OURS), _favourite(column, others)


def _log_error(column: str, title: str, score: Score) -> Contrast:
    """log10 of a MAE, or of the share that is wrong, with its error to first order."""
    one = _estimate(score)
    wrong = one.value if realworld.lower_is_better(column) else 100 - one.value
    estimate = Estimate(math.log10(wrong), one.error / (wrong * math.log(10)), one.freedom)
    return known(*_name_and(column, title, score, estimate))


def like_published(ours: Scores) -> list[Part]:
    """Every published number of figure 6 against ours, in units of its margin; above zero ours is worse."""
    rows = []
    for (title, column), run in ours.items():
        theirs = realworld.published_score(title, column)
        if theirs and isinstance(run, RecordedRun):
            worse = _difference(column, title, run, title, theirs) * (1 / margin_of(column))
            name = f"{realworld.column_title(column)}, {title}"
            keys = {"column": realworld.column_title(column), "model": title}  # the verdict names both
            rows.append(Part(name, worse, keys, margin=1.0))
    return rows


@dataclass(frozen=True)
class Agreement:
    """How far the published numbers of figure 6 and ours agree, one by one and together.

    Attributes:
        names: the numbers that are both published and ours, such as "MNIST, edge features, PNA"
        equivalent: how many differ by less than the margin of their data set (two one-sided tests, each by itself)
        differ: those that differ with p below 5 %, each by itself
        joint: Fisher's combined p-value, for all numbers, the models that the authors trained, and the quoted ones
        power: the chance to find a true difference, with the seeds that most numbers have
    """

    names: tuple[str, ...]
    equivalent: int
    differ: tuple[str, ...]
    joint: tuple[float, float, float]
    power: Power

    @property
    def expected(self) -> float:
        """How many would differ with p below 5 % by chance, if none did in truth."""
        return (1 - LEVEL) * len(self.names)

    def __str__(self) -> str:
        (every, trained, quoted), usual = self.joint, self.power
        differ = f"{len(self.differ)} {'differs' if len(self.differ) == 1 else 'differ'}"
        return (
            f"{self.equivalent} of {len(self.names)} published numbers equal ours to within the margin of their data "
            f"set. Tested one at a time, {differ} with p below 5 %, where chance alone would give {self.expected:.1f}. "
            f"Fisher's joint test gives p = {every:.2g} for all of them, {trained:.2g} for the four models that the "
            f"authors trained, and {quoted:.2g} for the models that they quote. After Holm's correction over "
            f"{len(self.names)}, {usual.ours} seeds against {usual.published} can detect a true difference of two "
            f"standard deviations with a power of {usual.two:.0%}, and one of four with {usual.four:.0%}."
        )


_TRAINED = (*_OURS, "MPNN (sum)", "MPNN (max)")


def agreement(ours: Scores) -> Agreement | None:
    """How far the published numbers of figure 6 and ours agree; None if no number is both published and ours."""
    parts = [part for part in like_published(ours) if part.contrast.estimate.known]
    if not parts:
        return None
    tests = {part: part.contrast.estimate.unlike(0.0) for part in parts}
    groups = (parts, *([p for p in parts if (p.keys["model"] in _TRAINED) == ours_too] for ours_too in (True, False)))
    return Agreement(
        tuple(part.name for part in parts),
        sum(part.contrast.estimate.within(1.0) < 1 - LEVEL for part in parts),
        tuple(part.name for part, p in tests.items() if p < 1 - LEVEL),
        tuple(fisher([tests[part] for part in group]) for group in groups),
        power_of(rows_of({place: run for place, run in ours.items() if isinstance(run, RecordedRun)})),
    )


def _favourite(column: str, titles: Iterable[str]) -> str:
    """The model with the best published mean, of two that tie the first; PNA where its variant is not published."""
    scores = {title: score for title in titles if (score := realworld.published_score(title, column))}
    sign = 1.0 if realworld.lower_is_better(column) else -1.0
    return min(scores, key=lambda title: sign * scores[title].value)


def _doubt(part: Part) -> float:
    """The one-sided p-value of the test that a rival is beaten; infinite with too few seeds for a test."""
    p = part.contrast.estimate.below()
    return math.inf if math.isnan(p) else p


def _best(title: str, columns: Sequence[str], ours: Scores) -> list[Part]:
    """A model against each rival, on each column for which we have trained it."""
    return [
        _beats(column, title, ours[title, column], rival, score)
        for column in columns
        if (title, column) in ours
        for rival, score in _rivals(column, ours, (title,), ours[title, column]).items()
    ]


def _pair(one: str, other: str, columns: Sequence[str], ours: Scores) -> list[Part]:
    """One model against another on each column that has both; the part decides nothing if their data differ."""
    both = [column for column in columns if (one, column) in ours and (other, column) in ours]
    rows = [(ours[one, c], ours[other, c], _beats(c, one, ours[one, c], other, ours[other, c])) for c in both]
    return [part if _data(mine) == _data(theirs) else _on_other_data(part) for mine, theirs, part in rows]


def _on_other_data(part: Part) -> Part:
    """The comparison of two models that were not trained on the same data, which decides nothing."""
    words = f"{part.text}, not trained on the same data"
    test = less(part.name, Estimate(part.contrast.estimate.value, math.inf, 1.0))
    return Part(part.name, None, part.keys, test=replace(test, p=1.0, text=words))


def _estimate(one: Score) -> Estimate:
    """A score as an estimate, whether ours or published."""
    return one if isinstance(one, Estimate) else realworld.score(one)


def _data(one: Score) -> tuple[str, str] | None:
    """The training set of a run of ours; None for a published score."""
    return None if isinstance(one, Estimate) else one.data


def _rivals(column: str, ours: Scores, but: Iterable[str], mine: Score) -> dict[str, Score]:
    """The other models' scores: ours if one was trained on the same data, otherwise the published one."""
    others = [title for title in published.realworld() if title not in but]
    here = {title: ours[title, column] for title in others if (title, column) in ours}
    same = {title: score for title, score in here.items() if _data(score) == _data(mine)}
    scores = {title: same.get(title) or realworld.published_score(title, column) for title in others}
    return {title: score for title, score in scores.items() if score}


def _beats(column: str, title: str, one: Score, other: str, rival: Score) -> Part:
    """A part that holds if a score beats the rival's; its estimate, how much worse it is, is then below zero."""
    whose = "published" if isinstance(rival, Estimate) else "ours"
    text = f"{title} {realworld.score_text(_estimate(one))} against {realworld.score_text(_estimate(rival))} ({whose})"
    return Part(
        f"{realworld.column_title(column)}, {other}",
        _difference(column, title, one, other, rival),
        {"column": column, "model": other},
        text=text,
        digits=realworld.digits_of(column),
    )


def _difference(column: str, title: str, one: Score, other: str, rival: Score) -> Contrast:
    """How much worse a score is than the rival's."""
    sign = 1.0 if realworld.lower_is_better(column) else -1.0
    mine, theirs = (known(*_name_and(column, name, s, _estimate(s))) for name, s in ((title, one), (other, rival)))
    return (mine - theirs) * sign


def _name_and(column: str, title: str, one: Score, estimate: Estimate) -> tuple[str, Estimate, int]:
    """A score as a sample: its name, its estimate, and the seeds behind it; 0 for a published one."""
    if isinstance(one, Estimate):
        return f"published: {title}, {column}", estimate, 0
    return str(one.cell), estimate, realworld.seeds_of(one)


@dataclass(frozen=True)
class Figure6Claim:
    """A claim about figure 6: its test, and the models that we have to train, each with its column."""

    test: Callable[[Scores], list[Part]]
    places: tuple[realworld.Place, ...]
    scaled: bool = False  # whether the aggregate test averages over columns, in units of their margins
    joint: bool = False  # whether it says how far all numbers agree
    beside: Callable[[Scores], str] | None = None  # a clause on what its test leaves out

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the claim is about."""
        return tuple(dict.fromkeys(column for _, column in self.places))

    def parts(self, ours: Scores) -> list[Part]:
        """The parts that the aggregate test is made of."""
        parts = self.test(ours)
        if not self.scaled:
            return parts
        return [part if part.contrast is None else _scaled(part, margin_of(part.keys["column"])) for part in parts]


def _scaled(part: Part, unit: float) -> Part:
    """The part in units of a margin."""
    return Part(part.name, part.contrast * (1 / unit), part.keys, part.bound, part.margin)


def _places(titles: Iterable[str], columns: Iterable[str]) -> tuple[realworld.Place, ...]:
    """The models on each of the columns, as far as they are trained here."""
    places = ((title, column) for column in columns for title in titles)
    return tuple(place for place in places if place in realworld.CELLS)


_MODELS = tuple(published.realworld())
_NO_EDGES = tuple(column for column in _VISION if "noedge" in column)

ZINC = Figure6Claim(zinc, _places(["PNA"], _ZINC))
MOLHIV = Figure6Claim(molhiv, _places(["PNA"], [_MOLHIV]), beside=molhiv_without_scalers)
SCALERS = Figure6Claim(molecule_scalers, _places(_OURS, [*_ZINC, _MOLHIV]))
VISION_SCALERS = Figure6Claim(vision_scalers, _places(_OURS, _VISION), scaled=True)
VISION_MLP = Figure6Claim(vision_mlp, _places(["MLP", "GCN"], _NO_EDGES))
VISION_LESS = Figure6Claim(vision_less, tuple((title, c) for c in (*_ZINC, *_VISION) for title in _leaders(c)))
MOST = Figure6Claim(most, _places(_OURS, realworld.COLUMNS))
PUBLISHED = Figure6Claim(like_published, _places(_MODELS, realworld.COLUMNS), joint=True)


def published_says(claim: Figure6Claim) -> str:
    """A sentence on how many columns the published means alone support the claim in; empty without columns."""
    theirs = {
        (title, c): s
        for title in published.realworld()
        for c in realworld.COLUMNS
        if (s := realworld.published_score(title, c))
    }
    values: dict[str, list[float]] = {}
    for part in claim.test(theirs):
        if "column" in part.keys and part.margin is None:
            values.setdefault(part.keys["column"], []).append(part.contrast.estimate.value)
    held = sum(max(column) < 0 for column in values.values())
    columns = f"{held} of {len(values)} column{'s' * (len(values) > 1)}"
    return f"By the published means alone, the claim holds in {columns}." if values else ""

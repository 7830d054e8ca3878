"""The tests behind the claims of section 5.2: Welch's test, from each side's mean, deviation and number of seeds.

A rival's number is ours if it is recorded and was trained on the same data; otherwise it is the published one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pna.figures import published, realworld
from pna.figures.runs import RecordedRun
from pna.verdicts.rules import Comparison, less
from pna.verdicts.statistics import Estimate

__all__ = ["MOLHIV", "MOST", "VISION_SCALERS", "ZINC", "ZINC_SCALERS", "Figure6Claim", "published_says"]

Score = RecordedRun | Estimate  # ours or published
Scores = dict[tuple[str, str], Score]
_OURS = ("PNA", "PNA (no scalers)")
_ZINC = ("ZINC_noedge_MAE", "ZINC_edge_MAE")
_VISION = tuple(name for name, (data, _) in realworld.COLUMNS.items() if data in ("cifar10", "mnist"))


def zinc(ours: Scores) -> list[Comparison]:
    """PNA against every other model on ZINC."""
    return _best("PNA", _ZINC, ours)


def molhiv(ours: Scores) -> list[Comparison]:
    """PNA against every other model on MolHIV."""
    return _best("PNA", ("MolHIV_ROCAUC",), ours)


def zinc_scalers(ours: Scores) -> list[Comparison]:
    """PNA against PNA without scalers, on ZINC."""
    return _pair("PNA", "PNA (no scalers)", _ZINC, ours)


def vision_scalers(ours: Scores) -> list[Comparison]:
    """PNA without scalers against PNA, on CIFAR10 and MNIST."""
    return _pair("PNA (no scalers)", "PNA", _VISION, ours)


def most(ours: Scores) -> list[Comparison]:
    """The better of the two PNA networks against all other models, on each column.

    That it beats all of them is as certain as the least certain of these comparisons, which need not be the one with
    the best of them. Its p-value is doubled for the choice between two networks.
    """
    rows = []
    for column in realworld.COLUMNS:
        mine = {title: ours[title, column] for title in _OURS if (title, column) in ours}
        if mine:
            title = max(mine, key=lambda one: _good(column, mine[one]))
            rivals = _rivals(column, ours, _OURS, mine[title]).items()
            beaten = [_beats(column, title, mine[title], rival, score) for rival, score in rivals]
            weakest = max(beaten, key=_doubt)
            rows.append(replace(weakest, p=len(mine) * weakest.p))
    return rows


def _doubt(comparison: Comparison) -> float:
    """The one-sided p-value of a rival's being beaten; with too few seeds for a test, infinite doubt."""
    p = comparison.estimate.below()
    return math.inf if math.isnan(p) else p


def _best(title: str, columns: Sequence[str], ours: Scores) -> list[Comparison]:
    return [
        _beats(column, title, ours[title, column], rival, score)
        for column in columns
        if (title, column) in ours
        for rival, score in _rivals(column, ours, (title,), ours[title, column]).items()
    ]


def _pair(one: str, other: str, columns: Sequence[str], ours: Scores) -> list[Comparison]:
    both = [column for column in columns if (one, column) in ours and (other, column) in ours]
    rows = [(ours[one, c], ours[other, c], _beats(c, one, ours[one, c], other, ours[other, c])) for c in both]
    return [row if _data(mine) == _data(theirs) else _on_other_data(row) for mine, theirs, row in rows]


def _on_other_data(row: Comparison) -> Comparison:
    """The comparison of two models that were not trained on the same data, which decides nothing."""
    return replace(row, p=1.0, text=f"{row.text}, not trained on the same data")


def _good(column: str, one: Score) -> float:
    """A score whose larger values are better, whatever the column measures."""
    return -_estimate(one).value if realworld.lower_is_better(column) else _estimate(one).value


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
    found = {title: same.get(title) or realworld.published_score(title, column) for title in others}
    return {title: score for title, score in found.items() if score}


def _beats(column: str, title: str, one: Score, other: str, rival: Score) -> Comparison:
    """A comparison that holds if a score beats the rival's; its estimate, how much worse it is, is then below zero."""
    sign = 1.0 if realworld.lower_is_better(column) else -1.0
    difference = _estimate(one) - _estimate(rival)
    worse = Estimate(sign * difference.value, difference.error, difference.freedom)
    whose = "published" if isinstance(rival, Estimate) else "ours"
    text = f"{title} {realworld.score_text(_estimate(one))} against {realworld.score_text(_estimate(rival))} ({whose})"
    return replace(less(f"{realworld.column_title(column)}, {other}", worse), text=text)


@dataclass(frozen=True)
class Figure6Claim:
    """A claim about figure 6: its test, the models that we have to train on which columns, and how many must hold."""

    test: Callable[[Scores], list[Comparison]]
    titles: tuple[str, ...]
    columns: tuple[str, ...]
    need: int | None = None

    @property
    def places(self) -> list[tuple[str, str]]:
        """The models and columns that have to be trained."""
        return [(title, name) for name in self.columns for title in self.titles if (title, name) in realworld.CELLS]


ZINC = Figure6Claim(zinc, ("PNA",), _ZINC)
MOLHIV = Figure6Claim(molhiv, ("PNA",), ("MolHIV_ROCAUC",))
ZINC_SCALERS = Figure6Claim(zinc_scalers, _OURS, _ZINC)
VISION_SCALERS = Figure6Claim(vision_scalers, _OURS, _VISION)
MOST = Figure6Claim(most, _OURS, tuple(realworld.COLUMNS), need=len(realworld.COLUMNS) // 2 + 1)


def published_says(claim: Figure6Claim) -> str:
    """A clause on how many columns of the published table the claim holds, by the means alone."""
    theirs = {
        (title, c): s
        for title in published.realworld()
        for c in realworld.COLUMNS
        if (s := realworld.published_score(title, c))
    }
    rows = claim.test(theirs)
    held = [
        all(r.estimate.value < 0 for r in rows if r.name.startswith(realworld.column_title(c))) for c in claim.columns
    ]
    return f"by the published means it holds on {sum(held)} of {len(held)} columns"

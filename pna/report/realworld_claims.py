"""The tests behind the claims of section 5.2, on what is recorded of figure 6 beside the published numbers."""

from collections.abc import Iterable, Sequence

from pna import published
from pna.report.comparisons import Evidence
from pna.report.realworld import COLUMNS, Score, budgets, scores

__all__ = ["molhiv", "most", "vision_scalers", "zinc", "zinc_scalers"]

_OURS = ("PNA", "PNA (no scalers)")


def zinc(profile: str) -> Evidence:
    """Our PNA against every other model: ours where it is recorded, else the published one."""
    return _best("PNA", ("ZINC_noedge_MAE", "ZINC_edge_MAE"), profile)


def molhiv(profile: str) -> Evidence:
    """Likewise."""
    return _best("PNA", ("MolHIV_ROCAUC",), profile)


def zinc_scalers(profile: str) -> Evidence:
    """PNA against PNA without scalers."""
    return _pair("PNA", "PNA (no scalers)", ("ZINC_noedge_MAE", "ZINC_edge_MAE"), profile)


def vision_scalers(profile: str) -> Evidence:
    """The other way round."""
    columns = [name for name, column in COLUMNS.items() if column.data in ("cifar10", "mnist")]
    return _pair("PNA (no scalers)", "PNA", columns, profile)


def most(profile: str) -> Evidence:
    """The better of the two PNA against every other model, on each column."""
    ours = scores(profile)
    rows = {}
    for column in COLUMNS:
        mine = [ours[title, column] for title in _OURS if (title, column) in ours]
        if mine:
            best = max(mine, key=lambda score: _good(column, score.mean))
            rows[column] = _beats(column, best, _rivals(column, ours, _OURS))
    return _evidence(rows, ours, _published_most(), wanted=len(COLUMNS) // 2 + 1)


def _best(title: str, columns: Sequence[str], profile: str) -> Evidence:
    ours = scores(profile)
    rows = {
        column: _beats(column, ours[title, column], _rivals(column, ours, (title,)))
        for column in columns
        if (title, column) in ours
    }
    return _evidence(rows, ours, _published_best(title, columns), wanted=len(columns))


def _pair(one: str, other: str, columns: Sequence[str], profile: str) -> Evidence:
    ours = scores(profile)
    both = [column for column in columns if (one, column) in ours and (other, column) in ours]
    rows = {column: _beats(column, ours[one, column], {other: ours[other, column]}) for column in both}
    theirs = published.realworld()
    held = [_good(c, theirs[one][c][0]) > _good(c, theirs[other][c][0]) for c in columns]
    return _evidence(rows, ours, f"{sum(held)} of {len(held)} columns", wanted=len(columns))


def _good(column: str, value: float) -> float:
    """Larger is better."""
    return -value if COLUMNS[column].lower_is_better else value


def _rivals(column: str, ours: dict[tuple[str, str], Score], but: Iterable[str]) -> dict[str, Score]:
    """The other models' scores: ours where there is one, else the published one."""
    rows = {title: row[column] for title, row in published.realworld().items() if row[column] and title not in but}
    return {title: ours.get((title, column)) or Score(*row) for title, row in rows.items()}


def _beats(column: str, score: Score, rivals: dict[str, Score]) -> tuple[str, str, bool]:
    """Against the best of the rivals: "holds" or "fails" if further apart than both deviations, else "undecided"."""
    title, rival = max(rivals.items(), key=lambda item: _good(column, item[1].mean))
    lead = _good(column, score.mean) - _good(column, rival.mean)
    spread = (score.deviation**2 + rival.deviation**2) ** 0.5
    outcome = "undecided" if abs(lead) <= spread else "holds" if lead > 0 else "fails"
    whose = "ours" if rival.result else "published"
    text = f"{COLUMNS[column].title}: {score} against {title} {rival} ({whose}): {outcome}"
    return text, outcome, score.full and rival.full


def _evidence(
    rows: dict[str, tuple[str, str, bool]], ours: dict[tuple[str, str], Score], theirs: str, wanted: int
) -> Evidence:
    """The claim that at least so many columns hold; columns that were not run do not."""
    suffix = f"; in the published table it holds on {theirs}"
    if not rows:
        return Evidence("no runs", f"not run: no result of these data sets is recorded{suffix}", full=False)
    outcomes = [outcome for _, outcome, _ in rows.values()]
    held = outcomes.count("holds")
    outcome = "holds" if held >= wanted else "partly" if held else "fails" if "fails" in outcomes else "undecided"
    text = "; ".join(text for text, *_ in rows.values()) + suffix
    full = len(rows) >= wanted and all(full for *_, full in rows.values())
    return Evidence(outcome, text, full, "; ".join(budgets(ours, rows)))


def _published_best(title: str, columns: Sequence[str]) -> str:
    theirs = published.realworld()
    held = [
        all(_good(c, theirs[title][c][0]) >= _good(c, row[c][0]) for row in theirs.values() if row[c]) for c in columns
    ]
    return f"{sum(held)} of {len(held)} columns"


def _published_most() -> str:
    theirs = published.realworld()
    held = 0
    for column in COLUMNS:
        mine = max(_good(column, theirs[title][column][0]) for title in _OURS if theirs[title][column])
        held += all(mine > _good(column, row[column][0]) for t, row in theirs.items() if t not in _OURS and row[column])
    return f"{held} of {len(COLUMNS)} columns"

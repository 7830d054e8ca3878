"""One look for all figures: the width of a NeurIPS page, eight points, one colour and marker for each model."""

import hashlib
import io
import json
import textwrap
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pna.experiments import PROFILES
from pna.figures.runs import Runs, seeds_text
from pna.files import write_whole
from pna.networks import MODELS
from pna.verdicts.claims import rounded

__all__ = ["DARK", "GREY", "LIGHT", "MARKERS", "MODEL_COLOURS", "SMALL", "STYLE", "WARN", "WIDTH", "budget_text"]
__all__ += ["contrast", "ink_on", "save", "stamp", "tame"]

WIDTH = 5.5  # inches: the text block of NeurIPS, so that eight points stay eight points
SMALL = 7  # points: the least size of letters
_SUFFIXES = ("pdf", "png", "svg")

STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "figure.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "errorbar.capsize": 2,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # letters stay letters: small files, and the page can be searched
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

# Okabe and Ito's colours, but for GCN: their purple and GAT's green are one to eyes without green.
GREY, WARN = "#6b6b6b", "#A83A00"
DARK, LIGHT = "#010101", "#fefefe"  # ink on coloured ground: the page turns black and white round, not these
MODEL_COLOURS: dict[str, str] = {
    "pna": "#D55E00",
    "pna-no-scalers": "#E69F00",
    "mpnn-max": "#0072B2",
    "mpnn-sum": "#56B4E9",
    "gat": "#009E73",
    "gcn": "#882255",
    "gin": "#000000",
    "mean-max-min": "#B8A800",
    "pna-soft": "#CC79A7",
    **{f"moments-{n}": f"#{shade}" for n, shade in enumerate(("a6a6a6", "8c8c8c", "707070", "545454", "333333"), 1)},
    "baseline": GREY,
}
MARKERS: dict[str, str] = dict(zip(MODELS, "osD^vPXp8<>hd*", strict=False))


def _luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance of a colour, as WCAG defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Contrast ratio of two colours, as WCAG defines it, from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(colour: tuple[float, float, float]) -> str:
    """Black or white, whichever contrasts more with the colour; the ratio is then at least 4.5 to 1."""
    return DARK if contrast(colour, (0, 0, 0)) >= contrast(colour, (1, 1, 1)) else LIGHT


def budget_text(runs: Runs) -> str:
    """The budget of a figure's runs in words."""
    profile, paper = runs.profile, PROFILES["paper"]
    seeds = seeds_text(runs.recorded.values()) or f"{profile.seeds or 0} seeds"
    text = f"{runs.spec}; {profile.name}: {seeds}, at most {profile.epochs:,} epochs"
    if (profile.size_step, profile.divisor) != (paper.size_step, paper.divisor):
        text += f", every {profile.size_step}th size, 1/{profile.divisor} of the graphs"
    return text


def stamp(figure: Figure, runs: Runs) -> None:
    """Write the budget under a figure, in colour if it is not the paper's in full."""
    lines = [budget_text(runs)]
    if not runs.profile.full:
        lines[0] = f"NOT THE PAPER'S BUDGET ({lines[0]})"
    if runs.missing:
        names = [f"{MODELS[c.model].title} ({c.training}, {c.hidden})" for c in runs.missing]
        shown = names if len(names) < 5 else [*names[:4], f"{len(names) - 4} more"]
        lines.append(f"not recorded: {', '.join(shown)}")
    letters = int(18 * figure.get_figwidth())  # of seven points, in a line
    text = "\n".join(textwrap.fill(line, letters) for line in lines)
    figure.supxlabel(text, fontsize=SMALL, color=GREY if runs.full else WARN)


# ---- files ----


def save(drawn: Figure | Callable[[], dict[str, bytes]], name: str, facts: dict, folder: Path) -> list[Path]:
    """Write NAME.pdf, NAME.png, NAME.svg and, last, the sidecar NAME.json, each atomically.

    `drawn` is a figure, or a function that returns the files' contents by their endings. If the sidecar says that the
    same numbers were drawn by the same code, the pictures stay as they are: their bits depend on the machine that drew
    them, their numbers do not.
    """
    sidecar, paths = folder / f"{name}.json", [folder / f"{name}.{suffix}" for suffix in _SUFFIXES]
    text = json.dumps(tame(facts | {"drawn by": _drawing_code()}), indent=1, ensure_ascii=False) + "\n"
    if sidecar.exists() and sidecar.read_text(encoding="utf-8") == text and paths[1].exists():
        for path in [*filter(Path.exists, paths), sidecar]:
            path.touch()  # so that the workflow takes it for redrawn
        return [*paths, sidecar]
    contents = drawn() if callable(drawn) else {suffix: _picture(drawn, name, suffix) for suffix in _SUFFIXES}
    for suffix, content in contents.items():
        write_whole(folder / f"{name}.{suffix}", lambda file, content=content: file.write(content))
    write_whole(sidecar, lambda file: file.write(text.encode()))
    return [*paths, sidecar]


def _picture(figure: Figure, name: str, suffix: str) -> bytes:
    """Render a figure as the bytes of a PDF, PNG or SVG file, without the date and the program's version."""
    import matplotlib

    metadata = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format=suffix, metadata=metadata[suffix])
    return buffer.getvalue()


@cache
def _drawing_code() -> str:
    """Hash of everything that decides how a figure looks: matplotlib's version and the drawing code."""
    here = Path(__file__).parent
    digest = hashlib.sha256(version("matplotlib").encode())
    for path in [Path(__file__), *sorted((here / "plots").glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def tame(value: object) -> object:
    """A value for JSON: arrays as lists, five significant digits and at most nine decimals, null for infinity."""
    if isinstance(value, dict):
        return {str(key): tame(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [tame(item) for item in value]
    if isinstance(value, float | np.floating):
        return rounded(float(value))
    return value.item() if isinstance(value, np.generic) else value

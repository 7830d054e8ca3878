"""One look for all figures: sizes that a paper takes, colours that colour-blind readers tell apart, one per model."""

import json
import math
import os
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pna.experiments import PROFILES
from pna.networks import MODELS
from pna.report.runs import Runs

__all__ = [
    "COLUMN",
    "GREY",
    "MARKERS",
    "MODEL_COLOURS",
    "STYLE",
    "WARN",
    "WIDE",
    "budget_text",
    "save",
    "stamp",
    "tame",
    "write_sidecar",
]

COLUMN, WIDE = 3.5, 7.0  # inches: one column, two columns

STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "figure.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "errorbar.capsize": 2,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

# Okabe and Ito's colours. A model has its own colour and marker in every figure.
GREY, WARN = "#767676", "#B34700"
MODEL_COLOURS: dict[str, str] = {
    "pna": "#D55E00",
    "pna-no-scalers": "#E69F00",
    "mpnn-max": "#0072B2",
    "mpnn-sum": "#56B4E9",
    "gat": "#009E73",
    "gcn": "#CC79A7",
    "gin": "#000000",
    "mean-max-min": "#B8A800",
    **{f"moments-{n}": shade for n, shade in zip(range(1, 6), ("0.75", "0.62", "0.48", "0.34", "0.2"), strict=True)},
    "baseline": GREY,
}
MARKERS: dict[str, str] = dict(zip(MODELS, "osD^vPXp<>hd*", strict=True))


def budget_text(runs: Runs) -> str:
    """What a figure was made from, in words."""
    profile, paper = runs.profile, PROFILES["paper"]
    text = f"{runs.spec}; {profile.name}: {profile.seeds} seeds, at most {profile.epochs:,} epochs"
    if (profile.size_step, profile.divisor) != (paper.size_step, paper.divisor):
        text += f", every {profile.size_step}th size, 1/{profile.divisor} of the graphs"
    return text


def stamp(figure: Figure, runs: Runs) -> None:
    """Writes under a figure what it was made from, and in colour if that is not the paper's full budget."""
    lines = [budget_text(runs)]
    if not runs.full:
        lines[0] = f"NOT THE PAPER'S BUDGET ({lines[0]})"
    if runs.missing:
        names = [f"{MODELS[c.model].title} ({c.training}, {c.hidden})" for c in runs.missing]
        shown = names if len(names) < 5 else [*names[:4], f"{len(names) - 4} more"]
        lines.append(f"not recorded: {', '.join(shown)}")
    letters = int(20 * figure.get_figwidth())  # of six points, in a line
    text = "\n".join(textwrap.fill(line, letters) for line in lines)
    figure.supxlabel(text, fontsize=6, color=GREY if runs.full else WARN)


def save(figure: Figure, name: str, facts: dict, folder: Path) -> list[Path]:
    """Writes NAME.pdf, NAME.png and, last, the sidecar NAME.json, each in one go."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
        paths.append(folder / f"{name}.{suffix}")
        unfinished = paths[-1].with_name(f".{name}.{suffix}.tmp")
        figure.savefig(unfinished, format=suffix, metadata=metadata)
        os.replace(unfinished, paths[-1])
    return [*paths, write_sidecar(name, facts, folder)]


def write_sidecar(name: str, facts: dict, folder: Path) -> Path:
    """Writes NAME.json, in one go."""
    path = folder / f"{name}.json"
    unfinished = path.with_name(f".{name}.json.tmp")
    unfinished.write_text(json.dumps(tame(facts), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
    return path


def tame(value: object) -> object:
    """As JSON takes it: arrays as lists, five significant digits, null for what is not finite."""
    if isinstance(value, dict):
        return {str(key): tame(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [tame(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value

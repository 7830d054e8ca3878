"""What is killed, and what must be there in the end."""

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import TimeoutExpired
from unittest.mock import patch

import torch

from pna.experiments import PROFILES, Cell, MultiTaskRun, Profile, command, side_by_side
from pna.experiments import multitask as multitask_cells
from pna.files import read_tensors
from pna.multitask import COLLECTIONS, MultiTask, Spec, Split, make
from pna.multitask.command import main as multitask
from pna.training import run as training
from tests.kills.forked import Forked

CELLS = ("multitask/released/gcn/4", "multitask/described/gin/4", "single-task/described/gcn/4")
SHARE = 0.4  # of the time of a whole call: as it goes on from its last step, every moment of it is hit
SMOKE = ("--profile", "smoke", "--device", "cpu")
TRAIN, VALIDATION = Split("train", "train", (5, 6), 4), Split("validation", "validation", (5,), 4)
FEW = {name: (TRAIN, VALIDATION, Split("test", "test", (size,), 4)) for size, name in enumerate(COLLECTIONS, 5)}


@cache
def once(spec: Spec, splits: tuple[Split, ...]) -> MultiTask:
    """The graphs of trainings, made before any of them is forked; making data is killed by itself."""
    return make(spec, splits)


@dataclass(frozen=True)
class Kind:
    """A command that is killed and called again, and the cells that it trains."""

    name: str
    call: Callable[[], int]
    cells: tuple[str, ...] = ()


def kinds() -> list[Kind]:
    """Each training alone, all of them side by side, and every collection of graphs."""
    alone = [Kind("training", lambda cell=cell: command.train([cell, *SMOKE, "--resume"]), (cell,)) for cell in CELLS]
    words = [*CELLS, *SMOKE, "--side-by-side", "2"]
    sweeps = [Kind("sweep", lambda: command.train(words), CELLS)]
    data = [Kind("data", lambda name=name: multitask(["make", "--collection", name])) for name in COLLECTIONS]
    return [*alone, *sweeps, *data]


@contextlib.contextmanager
def tiny(folder: Path):
    """Few graphs, a checkpoint after every step, forked processes side by side, and all files in one folder."""
    profile = Profile("smoke", size_step=1, divisor=2, seeds=2, epochs=3)
    own = {"PNA_DATA": str(folder / "data"), "PNA_RESULTS": str(folder / "results"), "PNA_COMMIT": "0"}
    with (
        patch.dict(os.environ, own),
        patch.dict(COLLECTIONS, {name: lambda spec, splits=splits: splits for name, splits in FEW.items()}),
        patch.object(multitask_cells, "make", lambda spec, splits: once(spec, tuple(splits))),
        patch.dict(PROFILES, {"smoke": profile}),
        patch.object(training, "CHECKPOINT_SECONDS", 0.0),
        patch.object(side_by_side, "start", lambda words, _: Forked(lambda: command.train(words))),
        patch.object(side_by_side, "LOOK", 0.01),
    ):
        yield


def warm_up(folder: Path) -> None:
    """Sets torch up for all that are forked; without a gradient, as its threads would not survive a fork."""
    torch.set_num_threads(1)
    with tiny(folder), torch.no_grad():
        for cell in CELLS:
            run = MultiTaskRun(Cell.parse(cell), PROFILES["smoke"])
            fresh = run.fresh()
            run.trainer.set_errors(fresh.theta, fresh.state, run.trainer.validation)
            for collection in run.collections:
                run.data(collection)


def undisturbed(kind: Kind, folder: Path) -> tuple[dict, float]:
    """What a call leaves that nobody kills, and the seconds that it takes."""
    with tiny(folder):
        start = time.monotonic()
        process = Forked(kind.call)
        said = process.read()
        assert process.returncode == 0, said
        return contents(folder), time.monotonic() - start


def killed(kind: Kind, folder: Path, rng, kills: int, expected: dict, seconds: float) -> Counter:
    """Kills a call so often, or until it ends before; lets it end, and counts what is lost, different or left over."""
    found = Counter({"kills": 0, "lost": 0, "different": 0, "left over": 0})
    with tiny(folder):
        before = progress(kind)
        while found["kills"] < kills and _kill(kind, rng, seconds):
            found["kills"] += 1
            now = progress(kind)
            found["lost"] += any(now[cell] < steps for cell, steps in before.items())
            before = now
        process = Forked(kind.call)
        said = process.read()
        if process.returncode:
            print(f"{kind.name}: exit code {process.returncode}\n{said}")
            found["lost"] += 1
        after = contents(folder)
    for path in sorted(expected.keys() | after.keys()):
        if path not in after:
            found["lost"] += 1
        elif path not in expected:
            found["left over"] += 1
        elif after[path] != expected[path]:
            found["different"] += 1
        else:
            continue
        print(f"{kind.name}: {path} is {'missing' if path not in after else 'left over or different'}")
    return found


def _kill(kind: Kind, rng, seconds: float) -> bool:
    """Kills a call at a random moment, unless it has ended before. Of a sweep: itself, a training, or all."""
    process = Forked(kind.call)
    with contextlib.suppress(TimeoutExpired):
        process.wait(rng.uniform(0.0, SHARE * seconds))
    victims = [process.pid]
    if kind.name == "sweep" and (children := process.children()):
        victims = rng.choice(([process.pid], [rng.choice(children)], [process.pid, *children]))
    hit = process.poll() is None
    if hit:
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.read()
    return hit


def progress(kind: Kind) -> dict[str, float]:
    """The steps that each cell has behind it, by its checkpoint; infinity when it is recorded."""
    found = {}
    for cell in kind.cells:
        run = MultiTaskRun(Cell.parse(cell), PROFILES["smoke"])
        with contextlib.suppress(FileNotFoundError):
            if not run.result.exists():
                tensors, _ = read_tensors(run.checkpoint)
                found[cell] = float(tensors["step"].max())
        found.setdefault(cell, float("inf") if run.result.exists() else 0.0)
    return found


def contents(folder: Path) -> dict[str, object]:
    """Every file, hidden ones too, less what tells when it was made and how long that took."""
    paths = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): _content(path) for path in paths}


def _content(path: Path) -> object:
    if path.suffix == ".json":
        passing = ("sha256", "seconds", "written", "code")
        return {key: value for key, value in json.loads(path.read_text()).items() if key not in passing}
    return path.read_bytes()

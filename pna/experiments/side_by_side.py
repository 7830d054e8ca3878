"""Many cells under one time budget: a process for each, several of them side by side on one GPU or on all cores.

One training leaves a third of a large GPU idle. Each process is `python -m pna train CELL`, and what it prints is its
progress. When the time is over, at Ctrl-C, or if this process is killed, each ends with a checkpoint at its next step.
One that finds the memory of the GPU full goes on later, and fewer are side by side from then on.
"""

import contextlib
import math
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from pna.command_line import FAILED, GPU_FULL, UNFINISHED, Interrupts
from pna.experiments.cells import Cell
from pna.experiments.mps import mps

__all__ = ["longest_first", "start", "train_side_by_side"]

LOOK = 0.1  # seconds between two looks at the processes
DRAW = 0.5  # between two tables on a terminal
SAY = 10.0  # between two lines about a cell, where there is no terminal
END_AT_ONCE = 20.0  # for a process that was asked twice
STOPPED = (128 + 15, -15, 128 + 2, -2)  # exit codes of one that was asked to stop

# What a cell takes, roughly: epochs until its end times the time of one, PNA's on the multi-task benchmark being 1.
_TRAININGS = {"standard": 2.0, "single-task": 4.0, "zinc": 3.0, "molhiv": 4.0, "mnist": 12.0, "cifar10": 15.0}
_TRAININGS |= {"depth-diameter": 1.5, "depth-convergence": 8.0, "depth-varied": 1.5}
_MODELS = {"gcn": 0.6, "gin": 0.7, "gat": 1.1, "mpnn-max": 0.7, "mpnn-sum": 0.6, "pna-no-scalers": 0.9}
_MODELS |= {"moments-3": 1.8, "moments-4": 1.8, "moments-5": 1.8}
_MODELS |= {"mlp": 0.2, "mlp-gated": 0.2, "graphsage": 0.6, "monet": 1.2, "gatedgcn": 1.4, "diffpool": 0.7}
_PATIENT = 3.0  # with edge features the learning rate of ZINC's networks waits four times as long


def longest_first(cells: Iterable[Cell]) -> list[Cell]:
    """So that no long one is left alone at the end."""

    def cost(cell: Cell) -> float:
        width = cell.hidden / 16 if cell.variant.isdecimal() else 1.0
        patient = _PATIENT if (cell.training, cell.variant) == ("zinc", "edges") else 1.0
        return _TRAININGS.get(cell.training, 1.0) * _MODELS.get(cell.model, 1.0) * width * patient

    return sorted(cells, key=cost, reverse=True)


def train_side_by_side(
    cells: Sequence[Cell], words: Sequence[str], *, at_once: int, on_gpu: bool, seconds: float | None, logs: Path | None
) -> int:
    """Trains cells, `at_once` of them at a time; `words` go to each process. The exit code of the command."""
    deadline = None if seconds is None else time.monotonic() + seconds
    board = _Board(len(cells))
    sharing = mps(board.say) if on_gpu and at_once > 1 else contextlib.nullcontext({})
    with Interrupts() as interrupts, sharing as environment, _Sweep(cells, words, environment, logs, board) as sweep:
        while sweep.waiting or sweep.running:
            if interrupts() or (deadline is not None and time.monotonic() >= deadline):
                sweep.stop()
            while sweep.waiting and len(sweep.running) < min(at_once, sweep.room):
                sweep.start_next()
            sweep.look()
            board.show(sweep, deadline)
            time.sleep(LOOK)
    return board.end(sweep) or (128 + interrupts.signal if interrupts.signal else UNFINISHED * bool(sweep.unfinished))


def start(words: Sequence[str], environment: dict[str, str]) -> subprocess.Popen:
    """`python -m pna train ...` in a session of its own: Ctrl-C on the terminal reaches this process alone."""
    return subprocess.Popen(
        [sys.executable, "-m", "pna", "train", *words],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


class _Training:
    """The process of one cell, and what it said last."""

    def __init__(self, cell: Cell, process: subprocess.Popen, log: IO[bytes] | None) -> None:
        self.cell, self.process, self.log = cell, process, log
        self.said, self.begun, self.rest = deque(maxlen=20), time.monotonic(), b""
        self.progress = "starting"
        os.set_blocking(process.stdout.fileno(), False)

    def listen(self) -> None:
        """Takes in the lines that it printed since."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.process.stdout.fileno(), 2**16):
                self._keep(data)
                *lines, self.rest = (self.rest + data).replace(b"\r", b"\n").split(b"\n")
                self.said.extend(line.decode(errors="replace") for line in lines if line.strip())
        self.progress = next((line for line in reversed(self.said) if line.startswith("epoch ")), self.progress)

    def _keep(self, data: bytes) -> None:
        try:
            if self.log is not None:
                self.log.write(data)
        except OSError as error:
            error.filename = self.log.name  # a full disk says for which file
            raise

    def close(self) -> None:
        """No more is to be heard of it: what it said last need not be a whole line."""
        if self.rest.strip():
            self.said.append(self.rest.decode(errors="replace"))
        self.process.stdout.close()
        if self.log is not None:
            self.log.close()


class _Sweep:
    """The cells that wait, run, and are over in one way or another."""

    def __init__(
        self, cells: Sequence[Cell], words: Sequence[str], environment: dict, logs: Path | None, board: "_Board"
    ) -> None:
        self.words, self.environment, self.logs, self.board = words, environment, logs, board
        self.waiting, self.running = deque(cells), []
        self.recorded, self.unfinished, self.failed = [], [], []
        self.stopping, self.room = False, math.inf  # how many the memory of the GPU takes

    def __enter__(self) -> "_Sweep":
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves no process behind: those that are still there are asked again, which ends them at once."""
        for training in self.running:
            training.process.terminate()
        for training in self.running:
            try:
                training.process.wait(END_AT_ONCE)
            except subprocess.TimeoutExpired:
                training.process.kill()
                training.process.wait()
            training.close()

    def start_next(self) -> None:
        """Starts the next cell; it goes on from its checkpoint."""
        cell = self.waiting.popleft()
        log = None
        if self.logs is not None:
            path = self.logs / f"{cell}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            log = path.open("ab", buffering=0)
        own = ["--resume", "--wait", "--parent", str(os.getpid())]
        self.running.append(_Training(cell, start([str(cell), *self.words, *own], self.environment), log))
        self.board.tell(self.running[-1], "started")

    def stop(self) -> None:
        """Asks every process to end with a checkpoint; no other is started."""
        if not self.stopping:
            self.unfinished += self.waiting
            self.waiting.clear()
            for training in self.running:
                training.process.terminate()
        self.stopping = True

    def look(self) -> None:
        """Listens to every process, and sees which of them are over."""
        for training in list(self.running):
            code = training.process.poll()
            training.listen()
            if code is not None:
                self.running.remove(training)
                training.close()
                self._over(training, code)

    def _over(self, training: _Training, code: int) -> None:
        took = f"after {time.monotonic() - training.begun:.0f} s"
        if code == 0:
            self.recorded.append(training.cell)
            self.board.tell(training, f"recorded {took}")
        elif code in STOPPED:
            self.unfinished.append(training.cell)
            self.board.tell(training, f"stopped {took}")
        elif code == GPU_FULL and self.room > 1:
            (self.unfinished if self.stopping else self.waiting).append(training.cell)
            self.room = max(1, min(self.room - 1, len(self.running)))
            self.board.tell(training, f"stopped {took}: the memory of the GPU is full; from now on {self.room} at once")
        else:
            self.failed.append(training)
            self.board.tell(training, f"FAILED {took} (exit code {code}): {''.join([*training.said][-1:])}")


class _Board:
    """What is shown: on a terminal a table of the running cells, elsewhere a line for each now and then."""

    def __init__(self, cells: int) -> None:
        self.cells, self.terminal, self.drawn = cells, sys.stdout.isatty(), 0
        self.at, self.told = 0.0, dict[Cell, float]()

    def say(self, text: str) -> None:
        """A line that stays."""
        print(f"{self._above()}{text}", flush=True)

    def tell(self, training: _Training, text: str) -> None:
        """A line that stays, about a cell."""
        self.told[training.cell] = time.monotonic()
        self.say(f"{training.cell}: {text}")

    def show(self, sweep: _Sweep, deadline: float | None) -> None:
        """How far every running cell is."""
        if not self.terminal:
            for training in sweep.running:
                if time.monotonic() - self.told[training.cell] >= SAY:
                    self.tell(training, training.progress)
            return
        if self.drawn and time.monotonic() - self.at < DRAW:
            return
        left = "" if deadline is None else f"; {max(0, deadline - time.monotonic()):.0f} s of the time budget left"
        counts = len(sweep.recorded), self.cells, len(sweep.failed), len(sweep.waiting)
        over = "{} of {} recorded, {} failed, {} waiting".format(*counts)
        names = max((len(str(training.cell)) for training in sweep.running), default=0)
        lines = [f"{training.cell!s:{names}}  {training.progress}" for training in sweep.running]
        width = shutil.get_terminal_size().columns - 1
        lines = [line[:width] for line in (*lines, over + left)]
        print(f"{self._above()}{chr(10).join(lines)}", flush=True)
        self.drawn, self.at = len(lines), time.monotonic()

    def _above(self) -> str:
        """To the first line of the table, which is wiped."""
        drawn, self.drawn = self.drawn, 0
        return f"\033[{drawn}F\033[J" if drawn else ""

    def end(self, sweep: _Sweep) -> int:
        """The last words; FAILED if a cell failed."""
        for training in sweep.failed:
            print(f"\nFAILED: {training.cell}\n" + "\n".join(training.said), flush=True)
        words = f"{len(sweep.recorded)} of {self.cells} cells recorded"
        if sweep.failed:
            words += f", {len(sweep.failed)} failed: {_listed(training.cell for training in sweep.failed)}"
        if sweep.unfinished:
            words += f", {len(sweep.unfinished)} unfinished, the same command goes on: {_listed(sweep.unfinished)}"
        print(words, flush=True)
        return FAILED if sweep.failed else 0


def _listed(cells: Iterable[Cell]) -> str:
    return " ".join(map(str, cells))

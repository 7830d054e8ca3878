"""Training of many cells under one time budget, several side by side on one GPU or on all cores.

One training leaves a third of a large GPU idle. Each cell is a process `python -m pna train CELL`, whose output is its
progress. When the time is over, at Ctrl-C, or if this process is killed, each process writes a checkpoint at its next
step and ends. A process that finds the memory of the GPU full is restarted later, and fewer run at a time from then on.
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
DRAW = 0.5  # seconds between two tables on a terminal
SAY = 10.0  # seconds between two lines about a cell without a terminal
END_AT_ONCE = 20.0  # seconds for a process to end after it was asked twice
STOPPED = (128 + 15, -15, 128 + 2, -2)  # exit codes of a process that was asked to stop

# Rough cost of a cell, epochs times the time of an epoch, in units of PNA's on the multi-task benchmark.
_TRAININGS = {"standard": 2.0, "single-task": 4.0, "zinc": 3.0, "molhiv": 4.0, "mnist": 12.0, "cifar10": 15.0}
_TRAININGS |= {"depth-diameter": 1.5, "depth-convergence": 8.0, "depth-varied": 1.5}
_MODELS = {"gcn": 0.6, "gin": 0.7, "gat": 1.1, "mpnn-max": 0.7, "mpnn-sum": 0.6, "pna-no-scalers": 0.9}
_MODELS |= {"moments-3": 1.8, "moments-4": 1.8, "moments-5": 1.8}
_MODELS |= {"mlp": 0.2, "mlp-gated": 0.2, "graphsage": 0.6, "monet": 1.2, "gatedgcn": 1.4, "diffpool": 0.7}
_PATIENT = 3.0  # with edge features the learning rate of ZINC's networks waits four times as long


def longest_first(cells: Iterable[Cell]) -> list[Cell]:
    """Sort cells by their estimated cost, so that no long training is left to the end."""

    def cost(cell: Cell) -> float:
        width = cell.hidden / 16 if cell.variant.isdecimal() else 1.0
        patient = _PATIENT if (cell.training, cell.variant) == ("zinc", "edges") else 1.0
        return _TRAININGS.get(cell.training, 1.0) * _MODELS.get(cell.model, 1.0) * width * patient

    return sorted(cells, key=cost, reverse=True)


def train_side_by_side(
    cells: Sequence[Cell], words: Sequence[str], *, at_once: int, on_gpu: bool, seconds: float | None, logs: Path | None
) -> int:
    """Train cells, `at_once` at a time, with `words` as further arguments of each process; return the exit code."""
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
    """Start `python -m pna train ...` in a new session, where Ctrl-C on the terminal does not reach it."""
    return subprocess.Popen(
        [sys.executable, "-m", "pna", "train", *words],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


class _Training:
    """The process of one cell, and its latest output."""

    def __init__(self, cell: Cell, process: subprocess.Popen, log: IO[bytes] | None) -> None:
        self.cell, self.process, self.log = cell, process, log
        self.said, self.begun, self.rest = deque(maxlen=20), time.monotonic(), b""
        self.progress = "starting"
        os.set_blocking(process.stdout.fileno(), False)

    def listen(self) -> None:
        """Read the lines that the process has printed since the last call."""
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
            error.filename = self.log.name  # so that the message names the file
            raise

    def close(self) -> None:
        """Close the output of the process; its last line may be incomplete."""
        if self.rest.strip():
            self.said.append(self.rest.decode(errors="replace"))
        self.process.stdout.close()
        if self.log is not None:
            self.log.close()


class _Sweep:
    """The state of all cells: waiting, running, recorded, unfinished or failed."""

    def __init__(
        self, cells: Sequence[Cell], words: Sequence[str], environment: dict, logs: Path | None, board: "_Board"
    ) -> None:
        self.words, self.environment, self.logs, self.board = words, environment, logs, board
        self.waiting, self.running = deque(cells), []
        self.recorded, self.unfinished, self.failed = [], [], []
        self.stopping, self.room = False, math.inf  # how many trainings fit into the memory of the GPU

    def __enter__(self) -> "_Sweep":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind: a second SIGTERM ends those that still run at once."""
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
        """Start the next cell, from its checkpoint if there is one."""
        cell = self.waiting.popleft()
        log = None
        if self.logs is not None:
            path = self.logs / f"{cell}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            log = path.open("ab", buffering=0)
        words = [str(cell), *self.words, "--resume", "--wait", "--parent", str(os.getpid())]
        self.running.append(_Training(cell, start(words, self.environment), log))
        self.board.tell(self.running[-1], "started")

    def stop(self) -> None:
        """Ask every process to end with a checkpoint, and start no other."""
        if not self.stopping:
            self.unfinished += self.waiting
            self.waiting.clear()
            for training in self.running:
                training.process.terminate()
        self.stopping = True

    def look(self) -> None:
        """Read the output of every process, and sort out those that have ended."""
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
    """The display: on a terminal a table of the running cells, elsewhere a line for each every few seconds."""

    def __init__(self, cells: int) -> None:
        self.cells, self.terminal, self.drawn = cells, sys.stdout.isatty(), 0
        self.drawn_at, self.printed_at = 0.0, dict[Cell, float]()

    def say(self, text: str) -> None:
        """Print a line above the table."""
        print(f"{self._above()}{text}", flush=True)

    def tell(self, training: _Training, text: str) -> None:
        """Print a line about a cell above the table."""
        self.printed_at[training.cell] = time.monotonic()
        self.say(f"{training.cell}: {text}")

    def show(self, sweep: _Sweep, deadline: float | None) -> None:
        """Show the progress of every running cell."""
        if not self.terminal:
            for training in sweep.running:
                if time.monotonic() - self.printed_at[training.cell] >= SAY:
                    self.tell(training, training.progress)
            return
        if self.drawn and time.monotonic() - self.drawn_at < DRAW:
            return
        left = "" if deadline is None else f"; {max(0, deadline - time.monotonic()):.0f} s of the time budget left"
        counts = len(sweep.recorded), self.cells, len(sweep.failed), len(sweep.waiting)
        over = "{} of {} recorded, {} failed, {} waiting".format(*counts)
        names = max((len(str(training.cell)) for training in sweep.running), default=0)
        lines = [f"{training.cell!s:{names}}  {training.progress}" for training in sweep.running]
        width = shutil.get_terminal_size().columns - 1
        lines = [line[:width] for line in (*lines, over + left)]
        print(f"{self._above()}{chr(10).join(lines)}", flush=True)
        self.drawn, self.drawn_at = len(lines), time.monotonic()

    def _above(self) -> str:
        """The escape sequence that moves to the table's first line and erases the table."""
        drawn, self.drawn = self.drawn, 0
        return f"\033[{drawn}F\033[J" if drawn else ""

    def end(self, sweep: _Sweep) -> int:
        """Print the summary; return FAILED if a cell failed, else 0."""
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

"""Training of many cells under one time budget, several side by side on each GPU or on all cores.

One training leaves a third of a large GPU idle. Each cell is a process `python -m pna train CELL`, whose output is its
progress, on the GPU with the fewest trainings. When the time is over, at Ctrl-C, or if this process is killed, each
process writes a checkpoint at its next step and ends. A process that finds the memory of its GPU full is the next to be
restarted, and fewer run on that GPU from then on.
"""

import contextlib
import math
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pna.command_line import FAILED, GPU_FULL, UNFINISHED, Interrupts
from pna.experiments.cells import Cell
from pna.experiments.mps import mps

__all__ = ["ON_A_GPU", "batches", "longest_first", "start", "train_side_by_side", "visible_gpus"]

ON_A_GPU = 12  # cells side by side: from seven on, throughput is 1.6 times that of one; seventeen give no more

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
    return sorted(cells, key=_cost, reverse=True)


def batches(cells: Iterable[Cell], most: int, cost: float) -> list[list[Cell]]:
    """Divide cells into batches of at most `most` cells and, unless a single cell has more, at most the cost `cost`.

    The cost of PNA on the multi-task benchmark is 1: about a minute of an H200 at the paper's budget.
    """
    divided: list[list[Cell]] = []
    for cell in longest_first(cells):
        if not divided or len(divided[-1]) == most or sum(map(_cost, divided[-1])) + _cost(cell) > cost:
            divided.append([])
        divided[-1].append(cell)
    return divided


def _cost(cell: Cell) -> float:
    """Estimate the cost of training a cell; that of PNA on the multi-task benchmark is 1."""
    width = cell.hidden / 16 if cell.variant.isdecimal() else 1.0
    patient = _PATIENT if (cell.training, cell.variant) == ("zinc", "edges") else 1.0
    return _TRAININGS.get(cell.training, 1.0) * _MODELS.get(cell.model, 1.0) * width * patient


def visible_gpus(count: int) -> tuple[str, ...]:
    """The names of the `count` GPUs that CUDA shows, as CUDA_VISIBLE_DEVICES lists them or, without it, by number."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = map(str, range(count)) if listed is None else (name.strip() for name in listed.split(","))
    return tuple(names)[:count]


def train_side_by_side(
    cells: Sequence[Cell],
    words: Sequence[str],
    *,
    at_once: int,
    gpus: Sequence[str],
    seconds: float | None,
    logs: Path | None,
) -> int:
    """Train cells, `at_once` at a time, with `words` as further arguments of each process; return the exit code.

    The processes are spread over `gpus`, names from `visible_gpus`, of which each sees one. Without any they run on the
    cores.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    board = _Board(len(cells))
    with (
        Interrupts() as interrupts,
        _places(gpus, at_once, board.say) as places,
        _Sweep(cells, words, places, logs, board) as sweep,
    ):
        while sweep.waiting or sweep.running:
            if interrupts() or (deadline is not None and time.monotonic() >= deadline):
                sweep.stop()
            while sweep.waiting and len(sweep.running) < at_once and (place := sweep.free_place()):
                sweep.start_next(place)
            sweep.look()
            board.show(sweep, deadline)
            time.sleep(LOOK)
    return board.end(sweep) or (128 + interrupts.signal if interrupts.signal else UNFINISHED * bool(sweep.unfinished))


@dataclass
class _Place:
    """Where trainings run: one GPU, or all cores."""

    name: str  # in the messages about its trainings; empty if there is no other place
    environment: dict[str, str]  # makes a process see this GPU alone
    room: float = math.inf  # how many trainings fit into its memory
    running: list["_Training"] = field(default_factory=list)


@contextlib.contextmanager
def _places(gpus: Sequence[str], at_once: int, say: Callable[[str], None]) -> Iterator[list[_Place]]:
    """Yield the places for trainings; several on one GPU share it through an MPS daemon."""
    reasons: dict[str, None] = {}
    with contextlib.ExitStack() as daemons:
        places = [_Place("", {})] if not gpus else []
        for gpu in gpus:
            shared = daemons.enter_context(mps(gpu, reasons.setdefault)) if at_once > len(gpus) else {}
            places.append(_Place(f" on GPU {gpu}" * (len(gpus) > 1), {"CUDA_VISIBLE_DEVICES": gpu} | shared))
        for reason in reasons:  # once, and not for each GPU
            say(reason)
        yield places


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

    def __init__(self, cell: Cell, place: _Place, process: subprocess.Popen, log: IO[bytes] | None) -> None:
        self.cell, self.place, self.process, self.log = cell, place, process, log
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
        """Append output of the process to its log, if it has one; an error names the log's file."""
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
        self, cells: Sequence[Cell], words: Sequence[str], places: list[_Place], logs: Path | None, board: "_Board"
    ) -> None:
        self.words, self.places, self.logs, self.board = words, places, logs, board
        self.waiting, self.stopping = deque(cells), False
        self.recorded, self.unfinished, self.failed = [], [], []

    @property
    def running(self) -> list[_Training]:
        """The trainings on all places."""
        return [training for place in self.places for training in place.running]

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

    def free_place(self) -> _Place | None:
        """The place with the fewest trainings among those with room for another."""
        free = (place for place in self.places if len(place.running) < place.room)
        return min(free, key=lambda place: len(place.running), default=None)

    def start_next(self, place: _Place) -> None:
        """Start the next cell at a place, from its checkpoint if there is one."""
        cell = self.waiting.popleft()
        log = None
        if self.logs is not None:
            path = self.logs / f"{cell}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            log = path.open("ab", buffering=0)
        words = [str(cell), *self.words, "--resume", "--wait", "--parent", str(os.getpid())]
        training = _Training(cell, place, start(words, place.environment), log)
        place.running.append(training)
        self.board.tell(training, f"started{place.name}")

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
        for training in self.running:
            code = training.process.poll()
            training.listen()
            if code is not None:
                training.place.running.remove(training)
                training.close()
                self._over(training, code)

    def _over(self, training: _Training, code: int) -> None:
        """Record how a training ended by its exit code: recorded, unfinished or failed.

        If the memory of its GPU was full, the cell is the next to start, and fewer run on that GPU from then on.
        """
        took = f"after {time.monotonic() - training.begun:.0f} s"
        if code == 0:
            self.recorded.append(training.cell)
            self.board.tell(training, f"recorded {took}")
        elif code in STOPPED:
            self.unfinished.append(training.cell)
            self.board.tell(training, f"stopped {took}")
        elif code == GPU_FULL and (place := training.place).room > 1:
            if self.stopping:
                self.unfinished.append(training.cell)
            else:
                self.waiting.appendleft(training.cell)  # it has a checkpoint, and the longest cells start first
            place.room = max(1, min(place.room - 1, len(place.running)))
            words = f"the memory of the GPU is full; from now on {place.room} at once{place.name}"
            self.board.tell(training, f"stopped {took}: {words}")
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
    """Names of cells, separated by spaces."""
    return " ".join(map(str, cells))

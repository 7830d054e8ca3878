"""Trainings that are prepared side by side and timed alone: processes compile and record, then wait for their turn.

An epoch takes milliseconds; the imports, compilations and recordings before it take most of a minute. That is
work for the processor, shared by all cores. Jobs that fail, or are not ready in time, are left out and named.
"""

import contextlib
import gc
import multiprocessing
import os
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch
from torch.profiler import ProfilerActivity, profile

from pna.experiments import PROFILES, TRAININGS, Cell, MultiTaskRun, Profile
from pna.kernels.selection import plain
from pna.training.replicas import Replicas
from pna.training.trainer import Trainer

__all__ = ["Crew", "Job", "prepare_cell"]

SPAWN = multiprocessing.get_context("spawn")  # a forked process has no CUDA
ROOM = 0.4  # of the GPU's memory: with less left, what is prepared is timed before more is
PREPARING = 0.6  # of the time that is left, at most
LATE = 40.0  # seconds that the last cell of a process may take to be ready
GRACE = 30.0  # for any other answer
LEAVE = 5.0  # for a process to end


@dataclass(frozen=True)
class Job:
    """A cell to be timed with a number of seeds at once, and again with `fewer` if given."""

    cell: str
    seeds: int
    fewer: int | None = None
    path: str = "kernels"  # or plain


def prepare_cell(
    name: str, seeds: int, profile: Profile, device: str, dtype: torch.dtype = torch.float32
) -> tuple[Trainer, Replicas]:
    """Make the trainer of a cell and its replicas before the first epoch."""
    endless = replace(profile, seeds=seeds, epochs=PROFILES["paper"].epochs)
    run = MultiTaskRun(Cell.parse(name), endless, device, dtype)
    return run.trainer, run.fresh()


class _Trained:
    """Replicas of a cell whose epoch is compiled and recorded."""

    def __init__(self, trainer: Trainer, replicas: Replicas) -> None:
        self.replicas, self.steps = replicas, trainer.epochs(replicas)
        self.epoch()

    def epoch(self) -> float:
        """Run one more epoch and return its seconds."""
        start = time.perf_counter()
        next(self.steps)
        if self.replicas.theta.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start


class _Worker:
    """State of one process: the jobs that are ready and those that wait. The crew calls its methods by name."""

    def __init__(self, jobs: Sequence[Job], profile: Profile, device: str) -> None:
        self.profile, self.device = profile, device
        self.waiting, self.ready = deque(jobs), dict[Job, list[_Trained]]()

    def prepare(self, until: float) -> tuple[list[Job], dict[Job, str]]:
        """Prepare as many jobs as time and memory allow; return them, and why others failed."""
        self.ready.clear()
        _free()
        failed = {}
        while self.waiting and time.monotonic() < until and (not self.ready or _room(self.device)):
            job = self.waiting.popleft()
            try:
                self.ready[job] = self._trained(job)
            except torch.cuda.OutOfMemoryError:
                self.waiting.appendleft(job)  # when others have been timed
                break
            except Exception as error:  # a cell that fails must not stop the others
                failed[job] = _words(error)
            _free()
        return list(self.ready), failed

    def _trained(self, job: Job) -> list[_Trained]:
        """Set up the training of a job, and one of fewer seeds if the job has them."""
        with plain() if job.path == "plain" else contextlib.nullcontext():
            trainer, replicas = prepare_cell(job.cell, job.seeds, self.profile, self.device)
            parts = [replicas]
            if job.fewer is not None:
                parts.append(replicas.rows(torch.arange(len(replicas) * job.fewer // job.seeds)))
            return [_Trained(trainer, part) for part in parts]

    def time(self, job: Job, epochs: int) -> list[tuple[int, float]]:
        """Number of replicas, and the median seconds of an epoch of all of them; two warm-up epochs are not counted."""
        return [
            (len(one.replicas), statistics.median([one.epoch() for _ in range(epochs + 2)][2:]))
            for one in self.ready[job]
        ]

    def breakdown(self, job: Job) -> dict[str, float]:
        """Milliseconds of each kernel in one epoch, the longest first."""
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            self.ready[job][0].epoch()
        times = {event.key: event.device_time_total / 1e3 for event in recorded.key_averages()}
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    def together(self, job: Job, start: float, seconds: float) -> float:
        """Epochs a second, from a moment at which the other processes start, too."""
        time.sleep(max(0.0, start - time.monotonic()))
        begun, count = time.monotonic(), 0
        while time.monotonic() < start + seconds:
            self.ready[job][0].epoch()
            count += 1
        return count / (time.monotonic() - begun)


def _free() -> None:
    """Return unused memory to the GPU."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _room(device: str) -> bool:
    """Whether the GPU has memory left for one more job of this process and of the others."""
    free, total = torch.cuda.mem_get_info() if device != "cpu" else (1, 1)
    return free > ROOM * total


def _words(error: BaseException) -> str:
    """First line of an error in at most 200 characters, with its type."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _serve(jobs: Sequence[Job], profile: Profile, device: str, environment: dict[str, str], orders: Connection) -> None:
    """Main loop of the process: answer questions until the pipe closes."""
    os.environ.update(environment)  # which CUDA reads when it is first used
    torch.set_num_threads(1)  # the other processes have the other cores
    worker = _Worker(jobs, profile, device)
    with contextlib.suppress(EOFError, OSError):
        while True:
            name, *arguments = orders.recv()
            try:
                answer = getattr(worker, name)(*arguments)
            except Exception as error:  # told to the one who asked
                answer = RuntimeError(_words(error))
            orders.send(answer)


class _Member:
    """A process of the crew, seen from outside."""

    def __init__(self, jobs: Sequence[Job], *facts: Profile | str | dict[str, str]) -> None:
        self.jobs, self.open = jobs, True
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(jobs, *facts, theirs), daemon=True)
        self.process.start()
        theirs.close()  # so that a process that dies is an EOFError here, not a wait without end

    def ask(self, *order: object) -> None:
        """Send a question without waiting for the answer."""
        with contextlib.suppress(OSError):  # its answer will tell
            self.pipe.send(order)

    def answer(self, until: float) -> object:
        """Return the answer to the last question. A process that has died, or does not answer in time, is dropped."""
        try:
            if not self.pipe.poll(max(0.0, until - time.monotonic())):
                raise TimeoutError("no answer in time")
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:  # TimeoutError is an OSError
            self.end()
            raise RuntimeError(f"its process is out: {_words(error)}") from error
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    def end(self, patience: float = 0.0) -> None:
        """End the process: close its pipe, which ends its loop, and kill it if it hangs."""
        self.open = False
        self.pipe.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join()


class Crew:
    """Processes that share jobs among them. `failed` maps each job without a time to the reason."""

    def __init__(
        self, jobs: Sequence[Job], profile: Profile, device: str, environment: dict[str, str] | None = None
    ) -> None:
        self.failed: dict[Job, str] = {}
        self.left = dict.fromkeys(jobs, "the time was over")
        self.members = [_Member(share, profile, device, environment or {}) for share in shared_out(jobs, _cores())]

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.pipe.close()
        for member in self.members:
            member.end(LEAVE)
        self.failed = self.left | self.failed

    def rounds(self, end: float) -> Iterator[list[tuple[_Member, Job]]]:
        """Yield all jobs that are ready, round by round, while every process is idle; the next round frees them."""
        while self.left and time.monotonic() < end:
            until = time.monotonic() + PREPARING * (end - time.monotonic())
            asked = [member for member in self.members if member.open]
            for member in asked:
                member.ask("prepare", until)
            ready = []
            for member in asked:
                try:
                    jobs, failed = member.answer(until + LATE)
                except RuntimeError as error:
                    jobs, failed = [], {job: str(error) for job in member.jobs if job in self.left}
                ready += [(member, job) for job in jobs]
                self._fail(failed)
            if not ready:
                return
            yield ready

    def time(self, member: _Member, job: Job, epochs: int) -> list[tuple[int, float]] | None:
        """Number of replicas and seconds of an epoch of a job; None if it failed."""
        member.ask("time", job, epochs)
        try:
            times = member.answer(time.monotonic() + GRACE)
        except RuntimeError as error:
            self._fail({job: str(error)})
            return None
        self.left.pop(job, None)
        return times

    def breakdown(self, member: _Member, job: Job) -> dict[str, float] | None:
        """Milliseconds of each kernel in an epoch of a job; None if the profiler failed."""
        member.ask("breakdown", job)
        with contextlib.suppress(RuntimeError):
            return member.answer(time.monotonic() + GRACE)
        return None

    def together(self, chosen: Sequence[tuple[_Member, Job]], seconds: float) -> dict[Job, float]:
        """Epochs a second of several jobs that run at once, each in its own process."""
        start = time.monotonic() + 0.5
        for member, job in chosen:
            member.ask("together", job, start, seconds)
        rates = {}
        for member, job in chosen:
            with contextlib.suppress(RuntimeError):  # the others have run beside it all the same
                rates[job] = member.answer(start + seconds + GRACE)
        return rates

    def _fail(self, failed: dict[Job, str]) -> None:
        """Note why jobs failed, and expect them no longer."""
        self.failed |= failed
        for job in failed:
            self.left.pop(job, None)


def shared_out(jobs: Sequence[Job], processes: int) -> list[list[Job]]:
    """Deal jobs to processes: jobs that share compiled kernels stay together, and each process has as much to compile.

    Within a process they keep their order.
    """
    groups = defaultdict(list)
    for job in jobs:
        groups[_kernels(job)].append(job)
    shares = [[] for _ in range(min(processes, len(groups)))]
    for group in sorted(groups.values(), key=len, reverse=True):
        min(shares, key=_work).extend(group)
    place = {job: k for k, job in enumerate(jobs)}
    return [sorted(share, key=place.get) for share in shares]


def _kernels(job: Job) -> tuple[str, ...]:
    """Key of the kernels that a job compiles; all trainings of the recurrent network share theirs."""
    training, *others = job.cell.split("/")
    return TRAININGS[training].architecture, TRAININGS[training].depth, *others, job.path


def _work(jobs: Sequence[Job]) -> int:
    """Rough cost of preparing jobs: compiling kernels counts four times as much as setting up a cell that has them."""
    return 4 * len({_kernels(job) for job in jobs}) + len(jobs)


def _cores() -> int:
    """Number of cores that this process may use."""
    has = getattr(os, "sched_getaffinity", None)
    return len(has(0)) if has else os.cpu_count() or 1

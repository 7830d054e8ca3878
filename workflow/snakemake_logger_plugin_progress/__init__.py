"""Snakemake's progress in one line: what is running, how many of how many steps are done, the time left.

On a terminal the line is rewritten every second; elsewhere a line is printed when a step ends and every half minute.
Steps that Ctrl-C ends are not called failed.
"""

import re
import sys
import threading
import time
from collections import Counter
from logging import ERROR, LogRecord
from pathlib import Path

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

__all__ = ["LogHandler", "interrupt"]

_EPOCH = re.compile(r"epoch (\d+) of at most (\d+)")
EVERY = 30.0  # seconds between two lines where there is no terminal
GRACE = 10.0  # seconds in which one more interrupt is taken for the same one, which came by another way
_interrupted: list[float] = []  # when


def interrupt(number: int, frame: object) -> None:
    """Handle SIGINT: stop, but once. One more while Snakemake ends its jobs would make it end in tracebacks."""
    now = time.monotonic()
    if not _interrupted or now - _interrupted[-1] > GRACE:
        _interrupted.append(now)
        raise KeyboardInterrupt


class LogHandler(LogHandlerBase):
    """Follows the events of one run and prints a progress line."""

    def __post_init__(self) -> None:
        self.total, self.done, self.failed = 0, 0, 0
        self.names: dict[int, str] = {}
        self.logs: dict[int, Path] = {}
        self.running: dict[int, float] = {}
        self.took: dict[str, list[float]] = {}
        self.expected: dict[str, int] = {}
        self.dry = bool(self.common_settings.dryrun)
        self.terminal = sys.stderr.isatty()
        self.last_message = time.monotonic()
        if not self.dry:
            threading.Thread(target=self._tick, daemon=True).start()

    def emit(self, record: LogRecord) -> None:
        """Handle one event; an error message is printed as it is."""
        handle = {
            LogEvent.RUN_INFO: self._run_info,
            LogEvent.JOB_INFO: self._job_info,
            LogEvent.JOB_STARTED: self._started,
            LogEvent.JOB_FINISHED: self._finished,
            LogEvent.JOB_ERROR: self._error,
        }.get(getattr(record, "event", None))
        try:
            if handle:
                handle(record)
            elif record.msg == NOTHING_TO_BE_DONE_MSG:
                self._say("nothing to do")
            elif record.levelno >= ERROR and not _interrupted:
                self._say(record.getMessage())
        except Exception:
            self.handleError(record)  # a line that cannot be written never ends a run

    def _run_info(self, record: LogRecord) -> None:
        """Count the steps of a run by kind, and print how many there are."""
        stats = {rule: count for rule, count in record.stats.items() if rule not in ("total", "all")}
        self.total = sum(stats.values())
        self.expected = Counter()
        for rule, count in stats.items():
            self.expected[_kind(rule)] += count
        words = ", ".join(f"{count} x {kind}" for kind, count in self.expected.items())
        steps = "step" if self.total == 1 else "steps"
        self._say(f"{self.total} {steps}: {words}" if words else "nothing to do")

    def _job_info(self, record: LogRecord) -> None:
        """Remember a job's name and log; in a dry run, print what would be run."""
        self.names[record.jobid] = record.rule_name
        self.logs[record.jobid] = Path(record.log[0]) if record.log else Path()
        if self.dry and record.rule_name != "all":
            needs = _resources(record) if _kind(record.rule_name) == "train" else ""
            self._say(f"would run {_title(record.rule_name, self.logs[record.jobid])}{needs}")

    def _started(self, record: LogRecord) -> None:
        """Remember when jobs began."""
        for job in record.jobs:
            self.running[job] = time.monotonic()

    def _finished(self, record: LogRecord) -> None:
        """Print that a step is done, how long it took, and the time left."""
        name = self.names.get(record.job_id, "")
        begun = self.running.pop(record.job_id, None)
        if name in ("", "all"):
            return
        self.done += 1
        seconds = time.monotonic() - begun if begun else 0.0
        self.took.setdefault(_kind(name), []).append(seconds)
        title = _title(name, self.logs[record.job_id])
        self._say(f"[{self.done}/{self.total}] done: {title} ({_time(seconds)}); {self._left()}")

    def _error(self, record: LogRecord) -> None:
        """Print that a step failed, with the path of its log; after Ctrl-C it was ended, and did not fail."""
        self.running.pop(record.jobid, None)
        if _interrupted:
            return
        self.failed += 1
        log = self.logs.get(record.jobid, Path())
        self._say(f"FAILED: {_title(record.rule_name, log)}; see {log}")

    def _left(self) -> str:
        """The time left in words: the mean time of each kind of step times the steps left, over the jobs at work."""
        means = {kind: sum(times) / len(times) for kind, times in self.took.items()}
        if not means:
            return "time left: not known yet"
        unknown = max(means.values())
        left = {kind: count - len(self.took.get(kind, [])) for kind, count in self.expected.items()}
        work = sum(max(0, count) * means.get(kind, unknown) for kind, count in left.items())
        for job, begun in list(self.running.items()):
            work -= min(time.monotonic() - begun, means.get(_kind(self.names.get(job, "")), 0.0))
        return f"about {_time(max(0.0, work) / max(1, len(self.running)))} left"

    def _line(self) -> str:
        """The progress line: steps done and failed, the time left, what is running."""
        names = [_title(self.names.get(job, ""), self.logs.get(job, Path()), epochs=True) for job in list(self.running)]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        failed = f", {self.failed} failed" if self.failed else ""
        if _interrupted:
            return f"[{self.done}/{self.total}{failed}] stopping; still running: {shown or '-'}"
        return f"[{self.done}/{self.total}{failed}] {self._left()}; running: {shown or '-'}"

    def _tick(self) -> None:
        """Print the progress line again and again: each second on a terminal, elsewhere every half minute."""
        while True:
            time.sleep(1 if self.terminal else 5)
            if self.terminal and self.running:
                print(f"\r\033[K{self._line()[:150]}", end="", file=sys.stderr, flush=True)
            elif self.running and time.monotonic() - self.last_message >= EVERY:
                self._say(self._line())

    def _say(self, text: str) -> None:
        """Print a line; on a terminal it takes the place of the progress line."""
        self.last_message = time.monotonic()
        print(f"\r\033[K{text}" if self.terminal else text, file=sys.stderr, flush=True)

    @property
    def writes_to_stream(self) -> bool:
        """True: its lines take the place of Snakemake's own output."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """False: it writes no file."""
        return False

    @property
    def has_filter(self) -> bool:
        """True: it chooses the events itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """True: it writes its own lines."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """False: it only counts steps."""
        return False


def _kind(rule: str) -> str:
    """The kind of a rule: its name up to the first underscore."""
    return rule.partition("_")[0]


def _title(rule: str, log: Path, epochs: bool = False) -> str:
    """A rule in words, from the path of its log; with `epochs`, also how far a training has come."""
    kind = _kind(rule)
    name = log.as_posix().partition("/logs/")[2].removesuffix(".log")
    if kind != "train":
        return name.replace("notebooks/", "notebook ").replace("data/", "data ") or rule
    name = name.replace("train/", "training ", 1)
    return f"{name}{_epochs(log)}" if epochs else name


def _resources(record: LogRecord) -> str:
    """What a training asks for, in words."""
    names = ("gpu", "gres", "cpus_per_task", "runtime")
    gpus, gres, cpus, minutes = (record.resources.get(name) for name in names)
    devices = gres or (f"{gpus} GPU{'s' * (gpus != 1)}" if gpus else "no GPU")
    cores = f"{cpus} core{'s' * (cpus != 1)}"
    words = [devices, cores, f"{record.resources.mem_mb / 1000:.0f} GB", f"{minutes} minutes" if minutes else ""]
    return f" ({', '.join(filter(None, words))})"


def _epochs(log: Path) -> str:
    """The last line about epochs in the log of a training."""
    try:
        matches = [_EPOCH.search(line) for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]]
    except OSError:
        return ""
    last = next((match for match in reversed(matches) if match), None)
    return f" (epoch {last[1]} of {last[2]})" if last else ""


def _time(seconds: float) -> str:
    """A duration in words: "45 s", "12 min" or "1.5 h", by its length."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

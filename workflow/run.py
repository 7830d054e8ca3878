"""Run the whole workflow: choose the budget, train, draw; if a training fails, draw the others and say so."""

import argparse
import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import jobs
import stamp

from pna.command_line import positive
from pna.experiments import EXPERIMENTS, PROFILE_NAMES
from pna.experiments.side_by_side import ON_A_GPU
from pna.figures.catalogue import NOTEBOOKS
from pna.figures.runs import RECORDED
from pna.files import write_whole
from pna.places import data_folder
from pna.training.run import Run

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
PATIENCE = 20  # seconds for Snakemake and its jobs to end after Ctrl-C


@dataclass(frozen=True)
class Plan:
    """What to train, what to draw, and where it goes.

    figures/ shows the fullest recorded budget of each figure, or the profile that is asked for; a smaller one than the
    paper's goes to build/ instead.
    """

    profile: str
    drawn: str
    build: Path
    figures: Path
    results: Path
    device: str  # the device of the notebooks, which run here
    trained_on: str  # the device of the trainings, here or in a Slurm job

    @classmethod
    def of(cls, asked: str | None, gpus: int, slurm: bool, cpu: bool) -> "Plan":
        """The plan for a profile; if none is asked for, paper with a GPU and quick without one.

        A Slurm job has a GPU, unless `cpu` is set.
        """
        device, trained_on = ("cuda" if there and not cpu else "cpu" for there in (gpus, gpus or slurm))
        profile = asked or ("paper" if trained_on == "cuda" else "quick")
        build = Path(os.environ.get("PNA_BUILD") or ROOT / "build") / (asked or "default")
        apart = asked in ("smoke", "quick")
        figures = Path(os.environ.get("PNA_FIGURES") or (build / "figures" if apart else ROOT / "figures"))
        results = Path(os.environ.get("PNA_RESULTS") or (build / "results" if asked == "smoke" else ROOT / "results"))
        drawn = asked or RECORDED
        return cls(profile, drawn, build, figures.resolve(), results.resolve(), device, trained_on)


def main(arguments: list[str]) -> int:
    """Run the workflow; return 0 if all of it succeeded, 1 if something failed, 130 if it was interrupted."""
    ours, extra = _split(arguments)
    parser = _parser()
    options = parser.parse_args(ours)
    if options.cpu and options.gres:
        parser.error("--gres asks for a GPU, and --cpu for none")
    if (options.gres or options.cells_per_job) and not options.slurm:
        parser.error("--gres and --cells-per-job are for the jobs of --slurm")
    plan = Plan.of(options.profile, _gpus(), options.slurm, options.cpu)
    began = stamp.environment()
    os.environ["PNA_RESULTS"] = str(plan.results)  # for what is missing, below
    plan.build.mkdir(parents=True, exist_ok=True)
    with (plan.build / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"run_all.sh: another run of this profile is at work (it holds {lock.name})", file=sys.stderr)
            return 1
        code = _run(plan, options, extra)
    if not options.dry_run:
        left = (plan.build, plan.figures, plan.results, data_folder())
        stamp.remember(arguments, left, _succeeded(plan, options) if code == 0 else None, began)
    return code


def _run(plan: Plan, options: argparse.Namespace, extra: list[str]) -> int:
    """Train and draw what the options ask for; if a step fails, draw what is there. Return the exit code."""
    where = f"Slurm ({plan.trained_on})" if options.slurm else plan.trained_on
    print(f"profile {plan.profile} on {where}; figures: {plan.figures}; results: {plan.results}", flush=True)
    if options.from_results:
        code = _snakemake(plan, options, extra, partial=True)
    else:
        code = _side_by_side(plan, options)
        if code != 130:
            code = _snakemake(plan, options, extra, partial=False)
        if code == 1 and not options.dry_run:
            print("\nSome steps failed. Drawing what is there:", flush=True)
            _snakemake(plan, options, [], partial=True)
    if code == 130 or options.dry_run:
        if code == 130:
            print("\nStopped. The same command goes on where this one was.", file=sys.stderr)
        return code
    return _last_words(plan, options, code)


def _side_by_side(plan: Plan, options: argparse.Namespace) -> int:
    """Train what is missing side by side, where there are GPUs; return the exit code.

    Snakemake tries a training that failed once more, alone.
    """
    wanted = [word for name in _wanted(options) if name in EXPERIMENTS for word in ("--experiment", name)]
    if plan.trained_on != "cuda" or options.slurm or options.dry_run or not wanted:
        return 0
    at_once = ["--side-by-side", str(min(options.cores, ON_A_GPU * _gpus()))]
    logs = ["--logs", str(plan.build / "logs" / "train")]
    command = [sys.executable, "-m", "pna", "train", "--missing", *wanted, "--profile", plan.profile, *at_once, *logs]
    return _wait(subprocess.Popen(command, cwd=ROOT, env=_environment(plan)))


def _snakemake(plan: Plan, options: argparse.Namespace, extra: list[str], *, partial: bool) -> int:
    """Make one pass over the DAG; return the exit code.

    A partial pass draws from what is recorded and trains nothing.
    """
    config = {
        "profile": plan.profile,
        "drawn": plan.drawn,
        "build": os.path.relpath(plan.build, ROOT),
        "figures": plan.figures,
        "results": plan.results,
        "device": plan.device,
        "trained_on": plan.trained_on,
        "partial": int(partial),
        "only": ",".join(options.only or []),
        "slice_minutes": options.slice_minutes if options.slurm else 0,
        "gres": options.gres or "",
    }
    missing = [] if partial else _missing(plan, options)
    other_data = [run.result for run in missing if run.result.exists()]
    shared = options.slurm and plan.trained_on == "cuda"
    divided = jobs.divide((run.cell for run in missing), plan.profile, options.cells_per_job, shared)
    text = json.dumps([[str(cell) for cell in job] for job in divided], indent=1)
    write_whole(plan.build / "jobs.json", lambda file: file.write(text.encode()))
    where = "slurm" if options.slurm and not partial else "local"
    cores = {"local": ["--cores", options.cores, "--resources", "gpu=1"]}  # what failed side by side is tried alone
    words = [
        *("--snakefile", HERE / "Snakefile", "--directory", ROOT),
        *("--workflow-profile", HERE / "profiles" / where),
        *cores.get(where, ["--local-cores", options.cores]),
        *(["--dry-run"] if options.dry_run else []),
        *(["--forcerun", *other_data] if other_data else []),
        *("--config", *(f"{key}={value}" for key, value in config.items())),
        *extra,
    ]
    return _wait(Snakemake([str(word) for word in words], _environment(plan)))


class Snakemake:
    """Snakemake in a fork of this process, which has already imported what the Snakefile needs."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        sys.stdout.flush()
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # while it imports; nothing is begun yet
            os._exit(self._run(words, environment))
        self.pid = pid

    @staticmethod
    def _run(words: list[str], environment: dict[str, str]) -> int:
        """Run Snakemake in the forked process; return its exit code."""
        code = 1
        try:
            os.chdir(ROOT)
            os.environ.update(environment)
            sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
            from snakemake.cli import main
            from snakemake_logger_plugin_progress import interrupt

            signal.signal(signal.SIGINT, interrupt)
            code = main(words) or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:  # while it starts; later Snakemake ends its jobs by itself
            code = 130
        except BaseException:
            traceback.print_exc()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code, as Popen.wait does."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, 0 if end is None else os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("snakemake", timeout)
            time.sleep(0.05)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)


def _environment(plan: Plan) -> dict[str, str]:
    """The environment of Snakemake and its jobs: the package, the plugin, one thread for each process."""
    paths = [str(ROOT), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PNA_RESULTS": plan.results, "PNA_FIGURES": plan.figures, "PYTHONPATH": os.pathsep.join(paths)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return (
        {"OMP_NUM_THREADS": "1"} | os.environ | {key: str(value) for key, value in variables.items()} | {"PATH": path}
    )


def _wait(process: subprocess.Popen) -> int:
    """Wait for a process; return 0, 1, or 130 if it was interrupted.

    Ctrl-C on a terminal reaches Snakemake and its jobs directly, and a second interrupt, sent while Snakemake ends
    them, would make it end in tracebacks. So the signal is passed on at once only where there is no terminal, otherwise
    after a while.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # start.py's ends this process and no other
    interrupted, patience = False, None
    while True:
        try:
            code = process.wait(patience)
            break
        except KeyboardInterrupt:
            interrupted, patience = True, PATIENCE if _in_front() else 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            patience = None
    return 130 if interrupted else min(1, abs(code))


def _in_front() -> bool:
    """Whether Ctrl-C on the terminal is meant for this process and all that it started."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:  # there is none
        return False


def _last_words(plan: Plan, options: argparse.Namespace, code: int) -> int:
    """Print what is missing and what failed; return the exit code."""
    missing = _missing(plan, options)
    print()
    for run in missing:
        log = plan.build / "logs" / "train" / f"{run.cell}.log"
        other = f"; drawn is a result of other data ({run.other_data})" if run.other_data else ""
        print(f"{'NOT RECORDED' if options.from_results else 'FAILED'}: training {run.cell}{other}{_last_line(log)}")
    undone = [name for name in _wanted(options) if not _executed(plan, name).exists()]
    for name in undone:
        print(f"FAILED: notebook {name}{_last_line(plan.build / 'logs' / 'notebooks' / f'{name}.log')}")
    failed = code or undone or (missing and not options.from_results)
    print("Something failed: see above." if failed else _succeeded(plan, options))
    return 1 if failed else 0


def _succeeded(plan: Plan, options: argparse.Namespace) -> str:
    """The last words of a run that succeeded, with the path of the page if there is one."""
    page = plan.figures / "report.html"
    return (f"Figures and report: {page}\n" if not options.only and page.exists() else "") + "All steps succeeded."


def _executed(plan: Plan, name: str) -> Path:
    """The path of a notebook's executed copy."""
    return plan.build / "notebooks" / f"{name.replace('-', '_')}.ipynb"


def _wanted(options: argparse.Namespace) -> list[str]:
    """The names of the notebooks that are asked for; all of them by default."""
    return options.only or list(NOTEBOOKS)


def _missing(plan: Plan, options: argparse.Namespace) -> list[Run]:
    """The unrecorded trainings behind the notebooks that are asked for; fuller ones count where any is drawn."""
    return jobs.missing(_wanted(options), plan.profile, or_fuller=plan.drawn == RECORDED)


def _last_line(log: Path) -> str:
    """The path of a log and its last line, in brackets; empty if there is no log."""
    try:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return f" ({log}: {lines[-1].strip()})" if lines else f" ({log})"


def _gpus() -> int:
    """The number of GPUs that torch can use."""
    import torch

    return torch.cuda.device_count()


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `--`, which are options of run_all.sh, and those after it, which go to Snakemake as they are."""
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    """The parser of run_all.sh."""
    parser = argparse.ArgumentParser(prog="./run_all.sh", description=__doc__)
    parser.add_argument("--profile", choices=PROFILE_NAMES, help="default: paper on a machine with a GPU, else quick")
    parser.add_argument(
        "--only",
        type=_only,
        action="extend",
        metavar="FIGURE",
        help=f"one or more, with commas: {', '.join(NOTEBOOKS)}",
    )
    parser.add_argument("--slurm", action="store_true", help="trainings as jobs of a Slurm cluster, each with one GPU")
    parser.add_argument("--cpu", action="store_true", help="train on CPUs, here and on Slurm")
    parser.add_argument("--gres", type=_gres, metavar="GRES", help="of a Slurm job instead of one GPU, as gpu:h100:1")
    parser.add_argument(
        "--cells-per-job",
        type=positive,
        metavar="N",
        help="trained side by side by a Slurm job (default: by their estimated times)",
    )
    parser.add_argument("--from-results", action="store_true", help="draw from recorded runs, train nothing")
    parser.add_argument("--cores", type=positive, default=os.cpu_count(), metavar="N", help="default: all")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    parser.add_argument("--slice-minutes", type=positive, default=240, metavar="N", help="of a Slurm job")
    return parser


def _gres(text: str) -> str:
    """A generic resource of Slurm, such as gpu:h100:1; a usage error if it has another form."""
    if not re.fullmatch(r"\w+(:[\w.]+)?(:\d+[TGM]?)?", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"must be NAME, NAME:NUMBER or NAME:TYPE:NUMBER, as gpu:h100:1; got {text!r}")
    return text


def _only(text: str) -> list[str]:
    """The names in a comma-separated list of notebooks; a usage error if one is unknown."""
    if unknown := [name for name in text.split(",") if name not in NOTEBOOKS]:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(NOTEBOOKS)}; got {', '.join(map(repr, unknown))}")
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

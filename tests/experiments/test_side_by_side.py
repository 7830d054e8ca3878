"""Many cells under one budget, on a CPU: the processes are forked here, and are told and killed like real ones."""

import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from pna.experiments import EXPERIMENTS, Cell, MultiTaskRun, all_cells, command, side_by_side
from pna.experiments.command import train
from pna.experiments.multitask import MultiTaskTrainer
from pna.training.store import load
from tests.kills.forked import Forked, forks

NAMES = ["multitask/released/gcn/4", "multitask/described/gcn/4", "multitask/released/gin/4"]
SMOKE = ["--profile", "smoke", "--device", "cpu"]
FAILED, STOPPED = 1, 3
pytestmark = forks


@pytest.fixture
def runs(few_graphs, warm):
    runs = [MultiTaskRun(Cell.parse(name), few_graphs.profile) for name in NAMES]
    for run in runs:
        for collection in run.collections:
            run.data(collection)  # made here, too
    return runs


@pytest.fixture(autouse=True)
def started(runs, monkeypatch):
    """What is started side by side, in order: words, environment and process."""
    processes = []

    def start(words, environment):
        processes.append((words, environment, Forked(lambda: train(words))))
        return processes[-1][2]

    monkeypatch.setattr(side_by_side, "start", start)
    monkeypatch.setattr(side_by_side, "LOOK", 0.01)
    return processes


def files(few_graphs):
    return [path.name for path in (few_graphs.folder / "data" / "runs").rglob("*") if path.is_file()]


def replicas(runs):
    return [load(run.result).replicas for run in runs]


def last_line(capfd):
    return capfd.readouterr().out.splitlines()[-1]


def test_every_cell_is_trained_as_alone_or_on_from_its_checkpoint_and_told_of(few_graphs, runs, capfd):
    for name in NAMES:
        assert Forked(lambda name=name: train([name, *SMOKE])).wait() == 0
    expected = replicas(runs)
    for run in runs:
        run.result.unlink()
    begun = Forked(lambda: train([NAMES[0], *SMOKE, "--time-budget", "0"]))
    assert begun.wait() == STOPPED
    assert train([*NAMES, *SMOKE, "--side-by-side", "2", "--logs", str(few_graphs.folder / "logs")]) == 0
    assert replicas(runs) == expected
    out = capfd.readouterr().out
    assert out.splitlines()[-1] == "3 of 3 cells recorded"
    for name, run in zip(NAMES, runs, strict=True):
        assert f"{name}: started\n" in out
        assert re.search(rf"^{name}: recorded after \d+ s$", out, re.MULTILINE)
        assert f"{run.result} written\n" in (few_graphs.folder / "logs" / f"{name}.log").read_text()
    assert files(few_graphs) == []


def test_no_more_than_so_many_run_at_a_time(monkeypatch):
    most, look = [], side_by_side._Sweep.look
    monkeypatch.setattr(side_by_side._Sweep, "look", lambda sweep: most.append(len(sweep.running)) or look(sweep))
    assert train([*NAMES, *SMOKE, "--epochs", "1", "--side-by-side", "2"]) == 0
    assert max(most) == 2


# ---- stopped ----


@pytest.fixture
def held_up(few_graphs, monkeypatch):
    """Trainings that do not get beyond their first epoch until they are asked to stop; how many of them are there."""
    validate = MultiTaskTrainer._validate

    def wrapped(*arguments):
        parent = os.getppid()
        (few_graphs.folder / f"begun-{os.getpid()}").touch()
        while not signal.getsignal(signal.SIGTERM).__self__.signal and os.getppid() == parent:
            time.sleep(0.01)
        return validate(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(MultiTaskTrainer, "_validate", wrapped)
        yield lambda: len(list(few_graphs.folder.glob("begun-*")))
        for path in few_graphs.folder.glob("begun-*"):
            path.unlink()


def test_at_the_deadline_every_cell_has_a_checkpoint(runs, held_up, monkeypatch, capfd, started):
    clock = SimpleNamespace(sleep=time.sleep, monotonic=lambda: time.monotonic() + 1e6 * (held_up() == 2))
    monkeypatch.setattr(side_by_side, "time", clock)
    assert train([*NAMES, *SMOKE, "--side-by-side", "2", "--time-budget", "100000"]) == STOPPED
    assert last_line(capfd).startswith("0 of 3 cells recorded, 3 unfinished, the same command goes on: multitask/")
    assert sum(run.checkpoint.exists() for run in runs) == 2
    assert [process.poll() for _, _, process in started] == [143, 143]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_makes_every_cell_save_a_checkpoint(few_graphs, runs, held_up, monkeypatch, capfd, number):
    sent = []

    def monotonic():
        if held_up() == 2 and not sent:  # once: a second one would end it at once
            sent.append(number)
            os.kill(os.getpid(), number)
        return time.monotonic()

    words = [*NAMES, *SMOKE, "--side-by-side", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(side_by_side, "time", SimpleNamespace(sleep=time.sleep, monotonic=monotonic))
        assert train(words) == 128 + number
    assert "3 unfinished, the same command goes on" in last_line(capfd)
    assert len(files(few_graphs)) == sum(run.checkpoint.exists() for run in runs) == 2


def test_when_the_sweep_is_killed_its_trainings_end_and_the_same_command_goes_on(few_graphs, runs, held_up, capfd):
    words = [*NAMES, *SMOKE, "--side-by-side", "2"]
    sweep = Forked(lambda: train(words))
    while held_up() < 2 and sweep.poll() is None:
        time.sleep(0.01)
    sweep.kill()
    assert sweep.wait() == -9
    for name, run in zip(NAMES, runs, strict=True):
        words = [name, *SMOKE, "--resume", "--time-budget", "0"]
        while (code := Forked(lambda words=words: train(words)).wait()) == FAILED:
            time.sleep(0.01)  # until it has ended
        assert code == STOPPED
        assert run.checkpoint.exists()
    assert len(files(few_graphs)) == 3


# ---- failures ----


def test_a_cell_that_fails_is_named_and_the_others_go_on(runs, capfd):
    runs[0].checkpoint.parent.mkdir(parents=True)
    runs[0].checkpoint.write_bytes(b"no checkpoint")
    assert train([*NAMES, *SMOKE, "--time-budget", "1000"]) == FAILED
    out = capfd.readouterr().out
    assert f"{NAMES[0]}: FAILED after " in out
    assert f"\nFAILED: {NAMES[0]}\npna train: {runs[0].checkpoint} is not a file that this package wrote whole" in out
    assert out.splitlines()[-1] == f"2 of 3 cells recorded, 1 failed: {NAMES[0]}"
    assert [run.result.exists() for run in runs] == [False, True, True]


def test_a_cell_that_is_killed_has_failed(runs, monkeypatch, capfd):
    monkeypatch.setattr(MultiTaskTrainer, "_validate", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert train([NAMES[0], *SMOKE, "--side-by-side", "1"]) == FAILED
    assert "(exit code -9)" in capfd.readouterr().out


def test_an_output_that_nobody_reads_stops_the_sweep_with_checkpoints(few_graphs, held_up, started, monkeypatch):
    def show(*_):
        if held_up() == 2:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(side_by_side._Board, "show", show)
    with pytest.raises(BrokenPipeError):
        train([*NAMES, *SMOKE, "--side-by-side", "2"])
    assert [process.poll() for _, _, process in started] == [143, 143]
    assert len(files(few_graphs)) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([NAMES[0], "--missing"], "a CELL is needed, or --missing"),
        ([NAMES[0], "--experiment", "figure4"], "--experiment and --spec choose among what is --missing"),
        ([NAMES[0], "--spec", "released"], "--experiment and --spec choose among what is --missing"),
        (["--missing", "--experiment", "figure9"], "invalid choice: 'figure9'"),
        (["--missing", "--spec", "D1"], "invalid choice: 'D1'"),
        ([NAMES[0], "--side-by-side", "0"], "must be a positive integer, got '0'"),
    ],
)
def test_wrong_arguments_are_told(capsys, words, message, started):
    with pytest.raises(SystemExit) as stop:
        train(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert started == []


def test_a_wrong_cell_among_right_ones_starts_nothing(capsys, started):
    assert train([NAMES[0], "multitask/released/gnn/16", *SMOKE]) == 2
    assert "model in 'multitask/released/gnn/16' must be one of" in capsys.readouterr().err
    assert started == []


# ---- the memory of the GPU ----


@pytest.fixture
def full(started, monkeypatch):
    """Makes trainings find the memory full, by the order in which they were started."""
    validate = MultiTaskTrainer._validate

    def of(*which):
        def wrapped(*arguments):
            if len(started) in which:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 438.00 MiB. GPU 0 has 139 GiB")
            return validate(*arguments)

        monkeypatch.setattr(MultiTaskTrainer, "_validate", wrapped)

    return of


def test_a_cell_that_finds_the_memory_full_goes_on_with_fewer_beside_it(runs, full, started, monkeypatch, capfd):
    full(1)
    most, look = [], side_by_side._Sweep.look
    monkeypatch.setattr(side_by_side._Sweep, "look", lambda sweep: most.append(len(sweep.running)) or look(sweep))
    assert train([*NAMES, *SMOKE, "--epochs", "1", "--side-by-side", "2"]) == 0
    out = capfd.readouterr().out
    assert "s: the memory of the GPU is full; from now on 1 at once\n" in out
    assert out.splitlines()[-1] == "3 of 3 cells recorded"
    assert (max(most), len(started)) == (2, 4)
    assert {words[0] for words, _, _ in started} == set(NAMES)
    lines = out.splitlines()
    (place,) = (k for k, line in enumerate(lines) if "the memory of the GPU is full" in line)
    full_one = lines[place].partition(":")[0]  # is the next to start, before one that has no checkpoint
    assert next(line for line in lines[place:] if line.endswith(": started")) == f"{full_one}: started"


def test_a_cell_for_which_the_memory_is_too_small_fails_in_words(full, started, capfd):
    full(0, 1)
    assert train([NAMES[0], *SMOKE, "--side-by-side", "1"]) == FAILED
    out = capfd.readouterr().out
    assert "the memory of the GPU is full: CUDA out of memory. multitask/released/gcn/4 goes on from its last" in out
    assert len(started) == 2  # the second time alone


# ---- which cells, in which order ----


def test_what_is_missing_is_trained_and_then_nothing_is(few_graphs, started, capfd):
    missing = ["multitask/released/gin/16", "multitask/released/gcn/16"]  # the longer one first
    for cell in EXPERIMENTS["figure4"].cells("released"):
        path = MultiTaskRun(cell, few_graphs.profile).result
        path.parent.mkdir(parents=True, exist_ok=True)
        if str(cell) not in missing:
            path.touch()
    words = ["--missing", "--experiment", "figure4", "--spec", "released", *SMOKE]
    assert train(words) == 0
    assert [words[0] for words, _, _ in started] == missing
    capfd.readouterr()
    assert train(words) == 0
    assert capfd.readouterr().out == "nothing to train: every cell whose data are here is recorded\n"


def test_the_departures_that_are_missing_are_found_by_their_experiment(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    words = ["--missing", "--experiment", "departures"]
    cells = command._missing(command._train_parser().parse_args(words))
    assert cells == [cell for spec in EXPERIMENTS["departures"].specs for cell in EXPERIMENTS["departures"].cells(spec)]
    assert command._missing(command._train_parser().parse_args([*words, "--profile", "quick"])) == []


def test_each_cell_once_and_cells_that_are_trained_alike_too(started):
    assert train(["multitask/released/gcn/4", "extrapolation/released/gcn/4", *SMOKE, "--epochs", "1"]) == 0
    assert len(started) == 1


def test_the_longest_come_first():
    cells = list(all_cells())
    order = side_by_side.longest_first(cells)
    assert sorted(map(str, order)) == sorted(map(str, cells))
    place = {str(cell): k for k, cell in enumerate(order)}
    for longer, shorter in (
        ("cifar10/released/pna/edges", "zinc/released/pna/edges"),
        ("zinc/released/mpnn-sum/edges", "zinc/released/pna/no-edges"),
        ("zinc/released/gcn/no-edges", "zinc/released/mlp/no-edges"),
        ("standard/released/pna/16", "multitask/released/pna/16"),
        ("multitask/described/moments-4/16", "multitask/described/moments-1/16"),
        ("multitask/released/gat/20", "multitask/released/gat/16"),
        ("multitask/released/pna/16", "multitask/released/gin/16"),
    ):
        assert place[longer] < place[shorter]


def test_on_a_terminal_a_table_is_drawn_over(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    assert train([*NAMES, *SMOKE, "--side-by-side", "2", "--time-budget", "1000"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"\033\[3F\033\[J(.*\n){2}\d of 3 recorded, 0 failed, \d waiting; \d+ s of the time budget left\n", out
    )
    assert out.endswith("3 of 3 cells recorded\n")


def test_a_process_is_started_in_a_session_of_its_own(monkeypatch, tmp_path):
    monkeypatch.undo()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@ $PNA_X"; echo words >&2; read end || ps -o sid= -p $$')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    process = side_by_side.start(["--list"], {"PNA_X": "1"})
    assert process.stdout.read().split() == [*b"-m pna train --list 1 words".split(), str(process.pid).encode()]
    assert process.wait() == 0


def test_the_last_words_of_a_process_need_not_be_a_whole_line():
    process = subprocess.Popen([sys.executable, "-c", "print('epoch 1\\nno room', end='')"], stdout=subprocess.PIPE)
    training = side_by_side._Training(Cell.parse(NAMES[0]), None, process, None)
    process.wait()
    training.listen()
    training.close()
    assert list(training.said) == ["epoch 1", "no room"]

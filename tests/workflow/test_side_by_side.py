"""On a machine with a GPU the missing cells are trained side by side before Snakemake looks for them."""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pna.experiments.side_by_side import ON_A_GPU
from tests.workflow.conftest import ROOT


def module(name):
    sys.path.insert(0, str(ROOT / "workflow"))
    specification = importlib.util.spec_from_file_location(f"workflow_{name}", ROOT / "workflow" / f"{name}.py")
    loaded = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = loaded  # for its dataclass
    specification.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run.py on a machine with one GPU, whose commands are written down and end with the codes given."""
    run = module("run")
    for name in ("PNA_RESULTS", "PNA_FIGURES", "PNA_BUILD"):
        monkeypatch.setenv(name, str(tmp_path / name))
    run.commands, run.codes = [], []

    def start(command, *_, **__):
        run.commands.append(command)
        return SimpleNamespace(wait=lambda patience: run.codes.pop(0) if run.codes else 0)

    monkeypatch.setattr(run, "Snakemake", lambda words, _: start([sys.executable, "-m", "snakemake", *words]))
    monkeypatch.setattr(run, "_gpus", lambda: 1)
    monkeypatch.setattr(run, "subprocess", SimpleNamespace(Popen=start, TimeoutExpired=subprocess.TimeoutExpired))
    monkeypatch.setattr(run, "_last_words", lambda plan, options, code: code)
    return run


def programs(run):
    return [command[2] for command in run.commands]


def test_what_is_missing_is_trained_first(run, tmp_path):
    assert run.main(["--only", "figure1,figure4,moments", "--profile", "quick", "--cores", "99"]) == 0
    assert programs(run) == ["pna", "snakemake"]
    assert run.commands[0][3:] == [
        *("train", "--missing", "--experiment", "figure4", "--experiment", "moments", "--profile", "quick"),
        *("--side-by-side", str(ON_A_GPU), "--logs", str(tmp_path / "PNA_BUILD" / "quick" / "logs" / "train")),
    ]


def test_eight_gpus_train_eight_times_as_many_and_cpu_none(run, monkeypatch):
    monkeypatch.setattr(run, "_gpus", lambda: 8)
    assert run.main(["--only", "figure4", "--cores", "999"]) == 0
    assert run.commands[0][-3] == str(8 * ON_A_GPU)
    run.commands.clear()
    assert run.main(["--only", "figure4", "--cpu"]) == 0
    assert programs(run) == ["snakemake"]
    assert "trained_on=cpu" in run.commands[0]


def test_a_cell_that_failed_is_left_to_snakemake_and_an_interrupt_ends_it_all(run):
    run.codes = [1, 0]
    assert run.main([]) == 0
    assert programs(run) == ["pna", "snakemake"]
    run.commands.clear()

    def interrupted():
        raise KeyboardInterrupt

    waits = [interrupted, lambda: 130]
    process = SimpleNamespace(wait=lambda patience: waits.pop(0)())
    run.subprocess.Popen = lambda command, **_: run.commands.append(command) or process
    assert run.main([]) == 130
    assert programs(run) == ["pna"]


@pytest.mark.parametrize("words", [["--slurm"], ["--dry-run"], ["--from-results"], ["--only", "figure1"]])
def test_not_on_slurm_nor_where_nothing_is_trained(run, words):
    assert run.main(words) == 0
    assert programs(run) == ["snakemake"]


def test_not_without_a_gpu(run, monkeypatch):
    monkeypatch.setattr(run, "_gpus", lambda: 0)
    assert run.main([]) == 0
    assert programs(run) == ["snakemake"]


@pytest.mark.parametrize(("codes", "code", "trained"), [([0, 3, 0], 3, 3), ([0, 130], 130, 2), ([1, 0, 143], 143, 3)])
def test_a_job_of_several_cells_ends_at_a_signal_only(monkeypatch, tmp_path, codes, code, trained):
    cell, called = module("cell"), []
    monkeypatch.setattr(cell, "train", lambda words: called.append(words) or codes[len(called) - 1])
    assert cell.main("smoke", "cpu", str(tmp_path), "a/b/c/1", "a/b/c/2", "a/b/c/3") == code
    assert len(called) == trained
    assert called[0] == ["a/b/c/1", "--profile", "smoke", "--device", "cpu", "--resume", "--wait"]


def test_a_slurm_job_trains_its_cells_side_by_side(monkeypatch, tmp_path):
    cell, called = module("cell"), []
    monkeypatch.setattr(cell, "train", lambda words: called.append(words) or 3)
    limits = ("--time-budget", "60", "--side-by-side", "2")
    assert cell.main("paper", "cuda", str(tmp_path), "a/b/c/1", "a/b/c/2", *limits) == 3
    assert cell.main("paper", "cuda", str(tmp_path), "a/b/c/1", *limits) == 3
    logs = str(tmp_path / "logs" / "train")
    assert called == [
        ["a/b/c/1", "a/b/c/2", "--profile", "paper", "--device", "cuda", *limits, "--logs", logs],
        ["a/b/c/1", "--profile", "paper", "--device", "cuda", *limits[:2], "--resume", "--wait"],
    ]

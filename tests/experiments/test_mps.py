"""NVIDIA's MPS with a control program that only writes down how it is called."""

import errno
import fcntl
import os
import tempfile

import pytest
import torch

from pna.experiments import Cell, command, side_by_side
from pna.experiments import mps as starting
from pna.experiments.command import train
from pna.experiments.mps import mps
from pna.experiments.multitask import MultiTaskTrainer
from tests.kills.forked import Forked, forks
from tests.test_locks import holder

CONTROL = """#!/bin/sh
echo "$CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY $* $(cat) of ${{CUDA_VISIBLE_DEVICES-all}}" >> {log}
{then}
"""


@pytest.fixture
def control(tmp_path, monkeypatch):
    """Puts a control program on the PATH that ends in a given way; its calls, as (folder, words)."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    log = tmp_path / "calls"
    log.touch()

    def calls(gpus=False):
        rows = [line.split() for line in log.read_text().splitlines()]
        assert all(pipe == folder for pipe, folder, *_ in rows)
        return [(pipe, words[0], words[-1])[: 3 if gpus else 2] for pipe, _, *words in rows]

    def make(then=""):
        path = tmp_path / "bin" / "nvidia-cuda-mps-control"
        path.write_text(CONTROL.format(log=log, then=then))
        path.chmod(0o755)
        return calls

    return make


def left_over(tmp_path):
    return os.listdir(tmp_path / "tmp")


def test_it_is_started_used_and_ended(control, tmp_path):
    calls, messages = control(), []
    with mps("0", messages.append) as environment:
        folder = environment["CUDA_MPS_PIPE_DIRECTORY"]
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        assert environment == places | {"CUDA_VISIBLE_DEVICES": "0"}
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert calls() == [(folder, "-d")]
    assert calls() == [(folder, "-d"), (folder, "quit")]
    assert messages == []
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(("gpu", "number"), [("0", "0"), ("5", "0"), ("GPU-8a1c", "GPU-8a1c")])
def test_a_daemon_has_one_gpu_which_its_clients_count_from_0(control, gpu, number):
    calls = control()
    with mps(gpu, print) as environment:
        assert environment["CUDA_VISIBLE_DEVICES"] == number
    assert calls(gpus=True)[0][1:] == ("-d", gpu)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_is_ended_after_an_error_too(control, tmp_path, error):
    calls = control()
    with pytest.raises(error), mps("0", print):
        raise error
    assert [words for _, words in calls()] == ["-d", "quit"]
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("then", "why"),
    [("echo no such device >&2; exit 1", "no such device"), ("exit 3", "nvidia-cuda-mps-control failed with 3")],
)
def test_where_it_cannot_be_started_the_reason_is_said(control, tmp_path, then, why):
    control(then)
    messages = []
    with mps("0", messages.append) as environment:
        assert environment == {}
    assert messages == [f"no MPS ({why}): the trainings take turns on the GPU"]
    assert left_over(tmp_path) == []


def test_without_the_program_or_root_it_is_not_started(control, tmp_path, monkeypatch):
    messages, path = [], os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # a machine with a GPU has the program
    with mps("0", messages.append) as environment:
        assert environment == {}
    monkeypatch.setenv("PATH", path)
    calls = control()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with mps("0", messages.append) as environment:
        assert environment == {}
    assert [text[: text.index(")")] for text in messages] == [
        "no MPS (nvidia-cuda-mps-control is not on the PATH",
        "no MPS (it needs root",
    ]
    assert [words for _, words in calls()] == ["quit"]
    assert left_over(tmp_path) == []


def test_the_daemon_of_a_killed_process_is_ended_by_the_next_and_a_living_ones_is_not(control, tmp_path):
    calls = control()
    killed, living = (tmp_path / "tmp" / f"pna-mps-{name}" for name in ("killed", "living"))
    killed.mkdir(), living.mkdir()
    with holder(living / "daemon"), mps("0", print):
        assert calls()[0] == (str(killed), "quit")
    assert str(living) not in {folder for folder, _ in calls()}
    assert left_over(tmp_path) == [living.name]


def test_without_locks_nobody_elses_daemon_is_ended(control, tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    calls = control()
    (perhaps := tmp_path / "tmp" / "pna-mps-perhaps").mkdir()
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(UserWarning, match="has no locks"), mps("0", print):
        pass
    assert str(perhaps) not in {folder for folder, _ in calls()}
    assert left_over(tmp_path) == [perhaps.name]


@pytest.mark.parametrize(("module", "step"), [(tempfile, "mkdtemp"), (starting, "locked"), (starting, "_start")])
def test_one_that_starts_at_the_same_time_takes_nothing_for_left_over(control, tmp_path, monkeypatch, module, step):
    """Another one looks for what is left over right before and after a step of this one."""
    calls, original = control(), getattr(module, step)

    def watched(*arguments, **options):
        monkeypatch.setattr(module, step, original)
        starting._end_left_over()
        result = original(*arguments, **options)
        starting._end_left_over()
        return result

    monkeypatch.setattr(module, step, watched)
    with mps("0", print) as environment:
        folder = environment["CUDA_MPS_PIPE_DIRECTORY"]
        assert calls() == [(folder, "-d")]
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert left_over(tmp_path) == [os.path.basename(folder)]
    assert left_over(tmp_path) == []


@forks
@pytest.mark.usefixtures("few_graphs", "warm")
@pytest.mark.parametrize(("then", "shared"), [("", True), ("exit 1", False)])
def test_trainings_side_by_side_share_it_or_do_without(control, monkeypatch, capfd, then, shared):
    calls, environments = control(then), []

    def start(words, environment):
        environments.append(environment)
        return Forked(lambda: train(words))

    monkeypatch.setattr(side_by_side, "start", start)
    cells = [Cell.parse(f"multitask/released/{model}/4") for model in ("gcn", "gin")]
    words = ["--profile", "smoke", "--device", "cpu", "--epochs", "1"]
    code = side_by_side.train_side_by_side(cells, words, at_once=2, gpus=["0"], seconds=None, logs=None)
    assert code == 0
    assert ["CUDA_MPS_PIPE_DIRECTORY" in environment for environment in environments] == [shared, shared]
    assert [words for _, words in calls()] == ["-d", "quit"]
    assert ("the trainings take turns on the GPU" in capfd.readouterr().out) != shared


EIGHT = tuple(map(str, range(8)))


@pytest.fixture
def eight(monkeypatch):
    """Eight GPUs that CUDA shows, and the environment of each process, whose training runs on the CPU."""
    environments = []

    def start(words, environment):
        environments.append(environment)
        return Forked(lambda: train([*words, "--device", "cpu"]))

    monkeypatch.setattr(side_by_side, "start", start)
    monkeypatch.setattr(side_by_side, "LOOK", 0.01)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return environments


MODELS = ("gcn", "gin", "gat", "mpnn-max", "mpnn-sum")
CELLS = [f"multitask/{spec}/{model}/4" for spec in ("released", "described") for model in MODELS]
WORDS = ["--profile", "smoke", "--epochs", "1", "--device", "cuda"]


@forks
@pytest.mark.usefixtures("few_graphs", "warm")
def test_ten_cells_are_spread_over_eight_gpus_each_with_a_daemon_of_its_own(control, eight, tmp_path, capfd):
    calls = control()
    assert train([*CELLS, *WORDS, "--side-by-side", "10"]) == 0
    started = [gpu for _, word, gpu in calls(gpus=True) if word == "-d"]
    daemons = [environment["CUDA_MPS_PIPE_DIRECTORY"] for environment in eight]
    assert sorted(started) == sorted(EIGHT)
    assert len(set(daemons[:8])) == 8  # the first eight, a GPU for each
    assert sorted(map(daemons.count, set(daemons))) == [1] * 6 + [2] * 2
    assert {environment["CUDA_VISIBLE_DEVICES"] for environment in eight} == {"0"}
    out = capfd.readouterr().out
    assert all(f": started on GPU {gpu}\n" in out for gpu in EIGHT)
    assert out.splitlines()[-1] == "10 of 10 cells recorded"
    assert left_over(tmp_path) == []


@forks
@pytest.mark.usefixtures("few_graphs", "warm")
@pytest.mark.parametrize(
    ("listed", "count", "device", "gpus"),
    [("6,7", 2, "cuda", ["6", "7"]), ("6,GPU-8a1c", 2, "cuda:1", ["GPU-8a1c"]), (None, 8, "cuda:3", ["3"])],
)
def test_cuda_visible_devices_and_device_are_respected(control, eight, monkeypatch, listed, count, device, gpus, capfd):
    control("exit 1")  # no MPS
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    options = command._train_parser().parse_args([*CELLS[:3], *WORDS, "--side-by-side", "3"])
    options.device = device
    assert command._train_several(options) == 0
    assert {environment["CUDA_VISIBLE_DEVICES"] for environment in eight} == set(gpus)
    out = capfd.readouterr().out
    assert out.count("no MPS (") == 1  # not once for each
    assert (" on GPU " in out) == (len(gpus) > 1)


@forks
@pytest.mark.usefixtures("few_graphs", "warm")
def test_a_gpu_whose_memory_is_full_trains_fewer_and_the_others_as_many(control, eight, monkeypatch, capfd):
    control("exit 1")
    validate = MultiTaskTrainer._validate

    def full_at_first(*arguments):
        if len(eight) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return validate(*arguments)

    monkeypatch.setattr(MultiTaskTrainer, "_validate", full_at_first)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert train([*CELLS[:5], *WORDS, "--side-by-side", "4"]) == 0
    out = capfd.readouterr().out
    assert "the memory of the GPU is full; from now on 1 at once on GPU 0\n" in out
    assert len(eight) == 6
    assert out.splitlines()[-1] == "5 of 5 cells recorded"

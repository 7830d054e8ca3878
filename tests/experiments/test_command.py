"""`python -m pna train`, `results` and `evaluate`."""

import errno
import io
import itertools
import os
import re
import shlex
import signal
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from pna import command_line, locks
from pna.__main__ import main
from pna.experiments import EVERY_SPEC, PROFILES, Cell, MultiTaskRun, all_cells
from pna.experiments.command import results, train
from pna.experiments.multitask import MultiTaskTrainer
from pna.files import read_tensors, write_tensors
from pna.multitask import TASKS
from pna.places import results_folder
from pna.pretrained.evaluate import evaluate
from pna.training.store import load, save
from tests.test_locks import holder

NAME = "multitask/released/gcn/8"
SMOKE = [NAME, "--profile", "smoke", "--device", "cpu"]
FAILED, BAD_VALUE, STOPPED, MISSING_DATA = 1, 2, 3, 4  # exit codes


@pytest.fixture(autouse=True)
def run(few_graphs):
    """The run that the commands below stand for."""
    return MultiTaskRun(Cell.parse(NAME), few_graphs.profile)


def result(run):
    return run.result


def replicas(run):
    return load(result(run)).replicas


def resuming(options):
    """The command that a stopped training prints: with the folders that the environment names, and these options."""
    folders = (f"{name}={shlex.quote(os.environ[name])}" for name in ("PNA_DATA", "PNA_RESULTS"))
    return " ".join([*folders, "python -m pna train", *SMOKE, options])


# ---- train ----


def test_list_prints_every_cell(capsys):
    assert train(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(map(str, all_cells(EVERY_SPEC)))


def test_training_writes_a_result_and_says_so(run, capsys):
    assert train(SMOKE) == 0
    out = capsys.readouterr().out
    assert f"{result(run)} written" in out
    assert "epoch 3 of at most 3: best validation 0." in out
    assert "2 of 2 replicas running" in out
    for word in (*(task.name for task in TASKS), "multitask/test", "families/tree", "families/star"):
        assert word in out
    assert load(result(run)).hash == run.hash
    assert run.weights.exists()
    assert not run.checkpoint.exists()


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert train(SMOKE) == 0
    out, err = capsys.readouterr()
    assert "epoch 3 of" not in out
    assert "3/3" in err
    assert "best validation 0." in err
    assert "2 of 2 replicas running" in err


def test_a_training_leaves_the_other_cores_to_the_cells_beside_it(run):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert train(SMOKE) == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_second_call_finds_the_result(run, capsys):
    assert train(SMOKE) == 0
    before = result(run).read_bytes()
    capsys.readouterr()
    assert train(SMOKE) == 0
    again = f"PNA_RESULTS=FOLDER python -m pna train {NAME} --profile smoke"
    assert capsys.readouterr().out == f"{result(run)} is there already; to train it anew: {again}\n"
    assert result(run).read_bytes() == before


def test_a_time_budget_stops_and_resume_finishes(run, capsys):
    assert train(SMOKE) == 0
    expected = replicas(run)
    result(run).unlink()

    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    again = resuming("--time-budget 0 --resume")
    assert f"{NAME}: stopped after 0 epochs by the time budget; go on with: {again}\n" in capsys.readouterr().out
    assert not result(run).exists()
    before = run.checkpoint.read_bytes()

    assert train(SMOKE) == BAD_VALUE
    assert f"{run.checkpoint} holds an unfinished training: go on with --resume" in capsys.readouterr().err
    assert run.checkpoint.read_bytes() == before

    assert train([*SMOKE, "--time-budget", "0", "--resume"]) == STOPPED
    assert train([*SMOKE, "--resume"]) == 0
    assert replicas(run) == expected
    assert not run.checkpoint.exists()


def test_a_budget_large_enough_finishes(run):
    assert train([*SMOKE, "--time-budget", "1000"]) == 0
    assert result(run).exists()


def test_the_last_batch_within_the_budget_is_the_end(run):
    once = [*SMOKE, "--epochs", "1", "--time-budget", "0", "--resume"]
    batches = len(run.trainer.train)
    assert batches > 1
    assert [train(once) for _ in range(batches)] == [STOPPED] * (batches - 1) + [0]


def test_resume_without_a_checkpoint_starts(run):
    assert train([*SMOKE, "--resume"]) == 0
    assert result(run).exists()


def test_other_seeds_and_epochs_are_other_results(run):
    assert train([*SMOKE, "--seeds", "1", "--epochs", "2"]) == 0
    assert not result(run).exists()
    recorded = load(MultiTaskRun(run.cell, run.profile.changed(1, 2)).result)
    assert [(r.seed, r.epochs) for r in recorded.replicas] == [(0, 2)]
    assert recorded.configuration["profile"]["name"] == "smoke-1-seeds-2-epochs"


def test_single_tasks_are_trained(few_graphs, capsys):
    words = ["single-task/released/gcn/8", "--profile", "smoke", "--device", "cpu", "--epochs", "1"]
    assert train(words) == 0
    run = MultiTaskRun(Cell.parse(words[0]), few_graphs.profile.changed(epochs=1))
    assert len(load(run.result).replicas) == 12
    run.weights.unlink()  # beside the result there is one network for each task
    assert evaluate([*words, "--on", "multitask"]) == 0
    assert "log10 MSE, the best of each task " in capsys.readouterr().out


def test_an_error_too_large_for_json_is_printed_and_recorded(run, monkeypatch, capsys):
    """Networks that fit their training set may overflow on larger graphs."""
    test = MultiTaskRun.test
    monkeypatch.setattr(MultiTaskRun, "test", lambda *a: {k: e.fill_(torch.inf) for k, e in test(*a).items()})
    assert train(SMOKE) == 0
    assert "inf" in capsys.readouterr().out
    assert replicas(run)[0].test["multitask/test"] == [None] * 6


# ---- Ctrl-C, SIGTERM, and who listens ----


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_saves_a_checkpoint_at_the_next_step_and_says_how_to_go_on(run, monkeypatch, capsys, number, name):
    assert train(SMOKE) == 0
    expected = replicas(run)
    result(run).unlink()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(MultiTaskTrainer, "_validate", sending(number, MultiTaskTrainer._validate, at=2))
        assert train(SMOKE) == 128 + number
    out, err = capsys.readouterr()
    again = resuming("--resume")
    assert out.splitlines()[-1] == f"{NAME}: stopped after 2 epochs by {name}; go on with: {again}"
    assert err == ""
    assert len(read_tensors(run.checkpoint)[0]["curves"]) == 2
    assert os.listdir(run.checkpoint.parent) == [run.checkpoint.name]
    assert train(shlex.split(again)[6:]) == 0
    assert replicas(run) == expected


def test_a_folder_that_no_variable_names_is_not_in_the_command(run, monkeypatch, capsys):
    monkeypatch.setenv("HOME", os.environ["PNA_DATA"])  # so that the folder is not the user's
    monkeypatch.delenv("PNA_DATA")
    monkeypatch.setenv("PNA_RESULTS", os.environ["PNA_RESULTS"] + " of mine")
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    again = f"PNA_RESULTS='{os.environ['PNA_RESULTS']}' python -m pna train {' '.join(SMOKE)} --time-budget 0 --resume"
    assert capsys.readouterr().out.endswith(f"go on with: {again}\n")


def test_a_process_whose_parent_is_gone_stops_at_the_next_step_and_says_why(run, capsys):
    nobody = str(2**22 + 1)  # beyond the largest process id
    assert train([*SMOKE, "--resume", "--parent", nobody]) == STOPPED
    again = resuming("--resume")
    words = f"{NAME}: stopped after 0 epochs by the end of its parent process; go on with: {again}"
    assert capsys.readouterr().out.splitlines()[-1] == words
    assert train(shlex.split(again)[6:]) == 0


def sending(number, function, at=1):
    """A function that sends this process a signal when it is called the at-th time."""
    calls = itertools.count(1)

    def wrapped(*arguments):
        if next(calls) == at:
            os.kill(os.getpid(), number)
        return function(*arguments)

    return wrapped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_step_ends_it_at_once(run, monkeypatch, capsys, number):
    with monkeypatch.context() as patch:
        patch.setattr(MultiTaskRun, "fresh", sending(number, MultiTaskRun.fresh))
        assert train(SMOKE) == 128 + number
    again = resuming("--resume")
    assert capsys.readouterr() == ("", f"pna train: stopped; go on with: {again}\n")
    assert os.listdir(run.checkpoint.parent) == []
    assert train(shlex.split(again)[6:]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("owner", "function", "at"), [(MultiTaskTrainer, "_validate", 3), (MultiTaskRun, "test", 1)])
def test_a_signal_after_the_last_step_ends_it_before_it_is_recorded(
    run, monkeypatch, capsys, number, owner, function, at
):
    """In the last epoch or while it is tested: nobody waits for what the checkpoint can be tested for later."""
    assert train(SMOKE) == 0
    expected = replicas(run)
    result(run).unlink()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(owner, function, sending(number, getattr(owner, function), at=at))
        assert train(SMOKE) == 128 + number
    again = resuming("--resume")
    assert capsys.readouterr().err == f"pna train: stopped; go on with: {again}\n"
    assert not result(run).exists()
    assert train(shlex.split(again)[6:]) == 0
    assert replicas(run) == expected
    assert not run.checkpoint.exists()


@pytest.mark.parametrize("same", [False, True])
def test_a_second_signal_ends_it_at_once_unless_it_is_the_first_once_more(run, monkeypatch, capsys, same):
    with monkeypatch.context() as patch:
        patch.setattr(command_line, "SAME", 1e9 if same else -1.0)
        twice = sending(signal.SIGTERM, sending(signal.SIGINT, MultiTaskTrainer._validate))
        patch.setattr(MultiTaskTrainer, "_validate", twice)
        assert train(SMOKE) == (143 if same else 130)
    assert ("pna train: stopped; go on with: " in capsys.readouterr().err) != same
    assert run.checkpoint.exists() == same


def test_the_handlers_of_signals_are_put_back_and_one_that_is_ignored_stays_so(run, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        monkeypatch.setattr(MultiTaskTrainer, "_validate", sending(signal.SIGINT, MultiTaskTrainer._validate))
        assert train(SMOKE) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_training_whose_lines_nobody_reads_ends_with_a_checkpoint(run, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Closed())
        with pytest.raises(BrokenPipeError):  # which ends the program quietly
            train(SMOKE)
    assert len(read_tensors(run.checkpoint)[0]["curves"]) == 1
    assert train([*SMOKE, "--resume"]) == 0


# ---- two at once ----


def test_a_second_process_is_told_that_the_first_is_training(run, capsys):
    with holder(run.checkpoint) as pid:
        for more in ([], ["--resume"]):
            assert train([*SMOKE, *more]) == FAILED
            assert capsys.readouterr().err == f"pna train: process {pid} is training {NAME} at this moment\n"
        assert train([*SMOKE, "--epochs", "1"]) == 0  # another profile's
    assert train(SMOKE) == 0
    assert os.listdir(run.checkpoint.parent) == []


def test_a_second_process_can_wait(run, monkeypatch):
    with holder(run.checkpoint) as pid:
        monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: os.kill(pid, 9)))
        assert train([*SMOKE, "--wait"]) == 0


def test_who_waits_does_so_no_longer_than_the_time_budget(run, capsys):
    with holder(run.checkpoint):
        assert train([*SMOKE, "--wait", "--time-budget", "0.1"]) == STOPPED
    again = resuming("--wait --time-budget 0.1 --resume")
    words = f"another process was training {NAME} to the end of the time budget; go on with: {again}"
    assert capsys.readouterr().err == f"pna train: {words}\n"


def test_what_a_kill_after_the_result_left_goes_with_the_next_call(run, capsys):
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    before = run.checkpoint.read_bytes()
    assert train([*SMOKE, "--resume"]) == 0
    run.checkpoint.write_bytes(before)
    run.checkpoint.with_name(f".{run.checkpoint.name}.x1.unfinished").touch()
    assert train(SMOKE) == 0
    assert "is there already" in capsys.readouterr().out
    assert os.listdir(run.checkpoint.parent) == []


# ---- errors ----


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("figure4", "a cell is named training/spec/model/variant, as multitask/released/pna/16 or .*; got 'figure4'"),
        ("multitask/released/gcn", "a cell is named training/spec/model/variant"),
        ("figure4/released/gcn/16", "training in .* must be one of multitask, .*, got 'figure4'"),
        ("multitask/released/gnn/16", "model in .* must be one of pna, .*, got 'gnn'"),
        ("multitask/D9/gcn/16", "spec must be described, released, released less .*; got 'D9'"),
        ("multitask/D3+D1/gcn/16", r"spec in '.*' must name each departure once, in the order D1\+D3"),
        ("multitask/D1+D1/gcn/16", "spec in '.*' must name each departure once, in the order D1"),
        ("multitask/released-D5-D1/gcn/16", "spec in '.*' must name each departure once, in the order D1-D5"),
        ("multitask/released/gcn/016", "the number of hidden features must be a multiple of 4 .*, got '016'"),
        ("multitask/released/gcn/18", "the number of hidden features must be a multiple of 4 .*, got '18'"),
        ("multitask/released/gcn/0", "the number of hidden features must be a multiple of 4 .*, got '0'"),
    ],
)
@pytest.mark.parametrize("call", [train, lambda a: evaluate([*a, "--on", "families"])], ids=["train", "evaluate"])
def test_a_wrong_cell_is_told_in_words(few_graphs, capsys, call, name, message):
    assert call([name, "--profile", "smoke"]) == BAD_VALUE
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"pna (train|evaluate): {message}.*\n", err)
    assert list(few_graphs.folder.rglob("*.*")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a CELL is needed, or --missing; --list shows all"),
        ([NAME, "--epochs", "0"], "must be a positive integer, got '0'"),
        ([NAME, "--epochs", "-1"], "must be a positive integer, got '-1'"),
        ([NAME, "--epochs", "1.5"], "must be a positive integer, got '1.5'"),
        ([NAME, "--seeds", "ten"], "must be a positive integer, got 'ten'"),
        ([NAME, "--seeds", "99999999999999"], "must be less than 2,147,483,648, got '99999999999999'"),
        ([NAME, "--profile", "huge"], "invalid choice: 'huge'"),
        ([NAME, "--logs", "logs"], "--logs is for several cells, or with --side-by-side"),
        ([NAME, "--time-budget", "soon"], "must be a number of seconds, not negative, got 'soon'"),
        ([NAME, "--time-budget", "nan"], "must be a number of seconds, not negative, got 'nan'"),
        ([NAME, "--time-budget", "-1"], "must be a number of seconds, not negative, got '-1'"),
    ],
)
def test_wrong_arguments_are_told(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        train(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_more_seeds_than_memory_holds_are_refused_before_any_is_taken(capsys):
    assert train([NAME, "--seeds", "2000000000"]) == BAD_VALUE
    assert "seeds must be at most 10,000, got 2,000,000,000: all are trained together" in capsys.readouterr().err


def test_the_first_cpu_is_the_cpu():
    assert command_line.device("cpu:0") == command_line.device("cpu") == "cpu"


@pytest.mark.parametrize("device", ["nonsense", "meta", *["cuda"] * (not torch.cuda.is_available())])
def test_a_device_that_is_not_there_is_told(capsys, device):
    for call in (train, lambda arguments: evaluate([*arguments, "--on", "families"])):
        with pytest.raises(SystemExit) as stop:
            call([NAME, "--profile", "smoke", "--device", device])
        assert stop.value.code == 2
        message = f"'{device}' cannot be used here: " if device == "cuda" else f"must be cpu or cuda, got '{device}'"
        assert f"argument --device: {message}" in capsys.readouterr().err


def foreign(path):
    save_file({"x": torch.ones(3)}, path)


def garbage(path):
    path.write_bytes(b"these are not tensors")


def truncated(path):
    write_tensors(path, {"theta": torch.ones(3)}, {"hash": "0"})
    os.truncate(path, path.stat().st_size - 1)


def empty(path):
    path.touch()


@pytest.mark.parametrize("damage", [foreign, garbage, truncated, empty])
def test_a_checkpoint_that_is_not_ours_is_named_and_left_in_place(run, capsys, damage):
    run.checkpoint.parent.mkdir(parents=True)
    damage(run.checkpoint)
    before = run.checkpoint.read_bytes()
    assert train([*SMOKE, "--resume"]) == BAD_VALUE
    assert f"pna train: {run.checkpoint} is not a file that this package wrote whole" in capsys.readouterr().err
    assert run.checkpoint.read_bytes() == before
    assert not result(run).exists()


def test_a_checkpoint_of_another_configuration_is_named_and_left_in_place(run, monkeypatch, capsys):
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    before = run.checkpoint.read_bytes()
    monkeypatch.setitem(PROFILES, "smoke", replace(run.profile, patience=7))
    assert train([*SMOKE, "--resume"]) == BAD_VALUE
    assert (
        f"{run.checkpoint} is of another configuration or of other data ({NAME}); it is left" in capsys.readouterr().err
    )
    assert run.checkpoint.read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", '{"hash": "0"}'])
def test_a_result_that_is_not_ours_is_named_and_left_in_place(few_graphs, capsys, text):
    cell = next(all_cells())
    path = MultiTaskRun(cell, few_graphs.profile).result
    path.parent.mkdir(parents=True)
    path.write_text(text)
    for call, arguments, code in ((train, [str(cell)], BAD_VALUE), (results, [], FAILED)):
        assert call([*arguments, "--profile", "smoke"]) == code
        assert str(path) in capsys.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize("kind", [".json", ".safetensors"])
def test_a_full_disk_loses_nothing_that_was_trained(run, monkeypatch, capsys, kind):
    assert train(SMOKE) == 0
    expected = replicas(run)
    result(run).unlink()
    run.weights.unlink()
    real = os.replace

    def full(source, target):
        if str(target) in (str(result(run)), str(run.weights)) and str(target).endswith(kind):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert train(SMOKE) == FAILED
    assert "No space left on device" in capsys.readouterr().err
    assert not result(run).exists()
    assert len(read_tensors(run.checkpoint)[0]["curves"]) == 3
    assert train([*SMOKE, "--resume"]) == 0
    assert replicas(run) == expected
    assert run.weights.exists()
    assert not run.checkpoint.exists()


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs a file system on which nobody can make a folder")
def test_a_folder_that_nobody_can_make_is_told_before_the_training(run, monkeypatch, capsys):
    monkeypatch.setenv("PNA_RESULTS", "/proc/results")
    assert train(SMOKE) == 2
    assert "/proc is no folder that can be written to" in capsys.readouterr().err
    assert not run.checkpoint.exists()


def test_a_folder_for_results_that_is_none_is_told_before_the_training(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "file" / "results"))
    assert train(SMOKE) == 2
    assert f"{tmp_path / 'file'} is no folder that can be written to" in capsys.readouterr().err
    assert not run.checkpoint.exists()


def test_a_full_disk_at_a_checkpoint_leaves_the_one_before(run, monkeypatch, capsys):
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = run.checkpoint.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert train([*SMOKE, "--resume"]) == FAILED
    assert "No space left on device" in capsys.readouterr().err
    assert run.checkpoint.read_bytes() == before
    assert os.listdir(run.checkpoint.parent) == [run.checkpoint.name]
    assert train([*SMOKE, "--resume"]) == 0


# ---- evaluate ----


@pytest.mark.parametrize(
    ("collection", "splits"),
    [("multitask", ["test"]), ("families", ["tree", "star"]), ("extrapolation", ["test_10_11", "test_11_12"])],
)
def test_evaluate_prints_a_row_for_every_test_set(run, capsys, collection, splits):
    assert train(SMOKE) == 0
    capsys.readouterr()
    assert evaluate([*SMOKE, "--on", collection]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{NAME}, smoke"
    assert lines[:2] == ["exactly as recorded", "weights of seeds 0, 1"]
    assert lines[2].startswith("in units of this training set's maxima")
    lines = lines[3:]
    assert lines[0].startswith("log10 MSE, 2 seeds")
    for task in TASKS:
        assert task.name in lines[0]
    rows = {line.split()[0]: list(map(float, line.split()[1:])) for line in lines[1:]}
    assert list(rows) == [f"{collection}/{split}" for split in splits]
    for row in rows.values():
        assert len(row) == 7
        assert row[-1] == pytest.approx(sum(row[:6]) / 6, abs=2e-3)


def test_evaluate_takes_the_fullest_budget_that_is_recorded(run, capsys):
    assert train(SMOKE) == 0
    assert train([*SMOKE, "--seeds", "1"]) == 0
    capsys.readouterr()
    assert evaluate([NAME, "--device", "cpu", "--on", "multitask"]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}, smoke\n")  # of two seeds


def test_evaluate_agrees_with_the_result(run, capsys):
    assert train(SMOKE) == 0
    capsys.readouterr()
    assert evaluate([*SMOKE, "--on", "multitask"]) == 0
    errors = torch.tensor([r.test["multitask/test"] for r in replicas(run)]).log10().mean(0)
    printed = [float(word) for word in capsys.readouterr().out.splitlines()[-1].split()[1:7]]
    assert printed == pytest.approx(errors.tolist(), abs=6e-4)


def test_evaluate_says_how_far_the_errors_are_from_those_recorded(run, capsys):
    assert train(SMOKE) == 0
    result = load(run.result)
    first, second = result.replicas
    errors = second.test["multitask/test"]
    altered = replace(second, test=second.test | {"multitask/test": [errors[0] / 1.3, *errors[1:]]})
    save(run.result, replace(result, replicas=(first, altered)))
    capsys.readouterr()
    assert evaluate([*SMOKE, "--on", "multitask"]) == 0
    out = capsys.readouterr().out
    assert "NOT as recorded on multitask/test: 3e-01 of an error away\n" in out
    assert not re.search(r"^(exactly )?as recorded", out, re.MULTILINE)


def test_evaluate_tests_every_recorded_network(run, capsys):
    other = NAME.replace("gcn", "gin")
    assert train(SMOKE) == train([other, *SMOKE[1:]]) == 0
    result = load(run.result)
    best, *others = result.replicas
    errors = best.test["multitask/test"]
    altered = replace(best, test=best.test | {"multitask/test": [errors[0] / 1.3, *errors[1:]]})
    save(run.result, replace(result, replicas=(altered, *others)))
    capsys.readouterr()
    assert evaluate(["--all", "--device", "cpu"]) == 0
    *networks, last = capsys.readouterr().out.splitlines()
    assert sorted(networks) == [
        f"0e+00 of an error on multitask/test: {other}, smoke",
        f"3e-01 of an error on multitask/test: {NAME}, smoke",
    ]
    assert last.startswith("1 of 2 networks as recorded, to 0.001 of an error; ")


def test_evaluate_all_needs_recorded_networks(run, capsys):
    assert evaluate(["--all", "--device", "cpu"]) == MISSING_DATA
    assert "no multi-task network is recorded in " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a CELL is needed, or --all"),
        ([NAME, "--all"], "a CELL is needed, or --all, not both"),
        (["--all", "--on", "families"], "--all goes with --device alone"),
        (["--all", "--profile", "paper"], "--all goes with --device alone"),
    ],
)
def test_evaluate_takes_one_cell_or_all_on_their_own_test_graphs(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        evaluate(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_evaluate_takes_none_that_diverged(run, capsys):
    run = MultiTaskRun(run.cell, run.profile.changed(seeds=7))
    assert run.train()
    for best in (run.replicas.best, run.replicas.best_metric):
        best.copy_(torch.tensor([0.7, 0.1, torch.inf, 0.3, torch.inf, torch.inf, 0.2]))
    run.replicas.best_theta[[2, 4, 5]] = torch.nan
    run.record()
    assert evaluate([*SMOKE, "--seeds", "7", "--on", "multitask"]) == 0
    errors = run.test("multitask")["multitask/test"][[0, 1, 3, 6]].log10().mean(0)
    *_, header, row = capsys.readouterr().out.splitlines()
    assert header.startswith("log10 MSE, five best ")
    printed = [float(word) for word in row.split()[1:7]]
    assert printed == pytest.approx(errors.tolist(), abs=6e-4)


def test_evaluate_takes_the_best_seed_from_an_installed_package(run, monkeypatch, capsys):
    assert train(SMOKE) == 0
    installed = run.result.parents[4] / "weights"
    weights = installed / run.shipped.relative_to(run.result.parents[3])
    weights.parent.mkdir(parents=True)
    run.shipped.rename(weights)
    run.weights.unlink()
    monkeypatch.setattr("pna.training.run.weights_folders", lambda: (run.result.parents[3], installed))
    capsys.readouterr()
    assert evaluate([*SMOKE, "--on", "multitask"]) == 0
    assert "\nweights of seed " in capsys.readouterr().out


def test_evaluate_without_weights_names_the_command(run, capsys):
    assert evaluate([*SMOKE, "--epochs", "2", "--on", "families"]) == MISSING_DATA
    err = capsys.readouterr().err
    weights = MultiTaskRun(run.cell, run.profile.changed(epochs=2)).weights
    assert f"{weights} is missing" in err
    assert f"python -m pna train {NAME} --profile smoke --epochs 2" in err


def test_evaluate_says_that_weights_of_a_budget_are_not_kept_and_which_budget_has_some(run, monkeypatch, capsys):
    assert train(SMOKE) == 0
    run.weights.unlink()
    run.shipped.unlink()
    assert evaluate([*SMOKE, "--on", "families"]) == MISSING_DATA
    words = f"no weights of {NAME} are kept under smoke: PNA_RESULTS=FOLDER python -m pna train {NAME} --profile smoke"
    assert f"{words} makes them\n" in capsys.readouterr().err
    other = MultiTaskRun(run.cell, PROFILES["quick"])
    write_tensors(other.shipped, {"theta": torch.zeros(1)}, {})
    assert evaluate([*SMOKE, "--on", "families"]) == MISSING_DATA
    assert "are kept under smoke: --profile quick has some, or PNA_RESULTS=FOLDER" in capsys.readouterr().err


def test_evaluate_refuses_weights_of_another_configuration(run, monkeypatch, capsys):
    assert train(SMOKE) == 0
    monkeypatch.setitem(PROFILES, "smoke", replace(run.profile, patience=7))
    assert evaluate([*SMOKE, "--on", "families"]) == BAD_VALUE
    assert f"{run.weights} holds the weights of another configuration ({NAME})" in capsys.readouterr().err
    garbage(run.weights)
    assert evaluate([*SMOKE, "--on", "families"]) == BAD_VALUE
    assert f"{run.weights} is not a file" in capsys.readouterr().err


def test_evaluate_knows_its_collections(capsys):
    with pytest.raises(SystemExit) as stop:
        evaluate([*SMOKE, "--on", "molecules"])
    assert stop.value.code == 2
    assert "invalid choice: 'molecules'" in capsys.readouterr().err


# ---- results ----


def test_results_tells_recorded_partial_and_missing_per_figure(few_graphs, capsys):
    options = ["--profile", "smoke", "--device", "cpu"]
    assert train(["multitask/released/gcn/16", *options]) == 0
    assert train(["multitask/released/gin/16", *options, "--time-budget", "0"]) == STOPPED
    capsys.readouterr()
    assert results(["--profile", "smoke"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"profile smoke in {results_folder()}"
    for line in (
        r"figure 4 +released +recorded +1 of 7 +\S*gcn/16",
        r"figure 4 +released +partial +1 of 7 +\S*gin/16",
        r"figure 4 +released +missing +5 of 7 +\S*pna/16 .*",
        r"figure 4 +described +missing +7 of 7 +\S*pna/16 .*",
        r"figure 5 +released +recorded +1 of 6 +multitask/gcn/16",
        r"appendix, parameters comparison +released +recorded +1 of 13 +\S*gcn/16",
    ):
        assert re.search(f"^{line}$", out, re.MULTILINE), line


def test_results_tells_apart_the_cells_of_one_model(capsys):
    assert results(["--profile", "smoke"]) == 0
    for line in capsys.readouterr().out.splitlines()[1:]:
        cells = re.split(r" of \d+ +", line)[1].split()
        assert len(cells) == len(set(cells)), line


def test_results_of_other_epochs(capsys):
    assert results(["--profile", "paper", "--epochs", "300", "--seeds", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("profile paper-3-seeds-300-epochs in ")
    assert "recorded" not in out


def test_results_without_a_budget_show_each_cell_at_its_fullest(few_graphs, capsys):
    options = ["--profile", "smoke", "--device", "cpu"]
    for epochs in ([], ["--epochs", "1"]):
        assert train(["multitask/released/gcn/16", *options, *epochs]) == 0
    assert train(["multitask/released/gin/16", *options, "--epochs", "1"]) == 0
    capsys.readouterr()
    assert results([]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == f"each cell at the fullest budget recorded in {results_folder()}"
    for line in (
        r"figure 4 +released +smoke +1 of 7 +multitask/gcn/16",
        r"figure 4 +released +smoke-1-epochs +1 of 7 +multitask/gin/16",
        r"figure 4 +released +missing +5 of 7 +\S*pna/16 .*",
        r"figure 6 +released +missing +(\d+) of \1 .*",
    ):
        assert re.search(f"^{line}$", out, re.MULTILINE), line


def test_results_without_a_budget_tell_what_is_of_another_configuration(few_graphs, monkeypatch, capsys):
    assert train(["multitask/released/gcn/16", "--profile", "smoke", "--device", "cpu"]) == 0
    monkeypatch.setitem(PROFILES, "smoke", replace(few_graphs.profile, patience=7))
    capsys.readouterr()
    assert results([]) == 0
    line = r"^figure 4 +released +smoke, outdated +1 of 7 +multitask/gcn/16$"
    assert re.search(line, capsys.readouterr().out, re.MULTILINE)


def test_results_without_a_budget_name_what_is_damaged_and_go_on(few_graphs, capsys):
    path = MultiTaskRun(Cell.parse("multitask/released/gcn/16"), few_graphs.profile).result
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert results([]) == FAILED
    out, err = capsys.readouterr()
    assert err.count(str(path)) == 1
    assert re.search(r"^figure 4 +released +damaged +1 of 7 +multitask/gcn/16$", out, re.MULTILINE)


def test_the_commands_are_reached_from_the_package(capsys):
    assert main(["train", "--list"]) == 0
    assert main(["results", "--profile", "smoke"]) == 0
    assert capsys.readouterr().err.startswith("No result is recorded in ")
    assert main(["evaluate", *SMOKE, "--on", "families"]) == MISSING_DATA
    assert capsys.readouterr().err.startswith("pna evaluate: ")

"""A real-world cell by its name: the commands, the checkpoint, the result and what it says of the data."""

import json
import math
import re

import pytest
import torch

import pna
from pna.experiments import Cell, Figure6Run, Profile
from pna.experiments.command import results, train
from pna.experiments.figure6 import COLUMNS
from pna.experiments.realworld import PROFILES, summary
from pna.files import read_tensors, write_tensors
from pna.places import results_folder
from pna.pretrained.evaluate import evaluate
from pna.realworld.data import storage
from pna.realworld.data.datasets import DATASETS
from pna.training.store import load
from tests.realworld.conftest import write_archive

NAME = "zinc/released/mpnn-sum/edges"
SMOKE = [NAME, "--profile", "smoke", "--device", "cpu"]
BAD_VALUE, STOPPED, MISSING_DATA = 2, 3, 4


@pytest.fixture(autouse=True)
def run(folder):
    return Figure6Run(Cell.parse(NAME), PROFILES["smoke"])


def test_training_writes_a_result_and_says_so(run, capsys):
    assert train(SMOKE) == 0
    out = capsys.readouterr().out
    assert f"{run.result} written" in out
    (last, _), (best, _) = (summary(load(run.result))[name] for name in ("last", "best"))
    assert re.search(rf"MAE on the test set, 2 seeds: {last:.3f}±\d\.\d{{3}} after the last epoch, as released", out)
    assert f"({best:.3f}±" in out
    assert "training set unofficial: 3 of 20 rows" in out
    assert run.weights.exists()
    assert not run.checkpoint.exists()
    assert train(SMOKE) == 0
    assert f"{run.result} is there already" in capsys.readouterr().out


def test_a_result_has_its_provenance_and_says_what_it_was_trained_on(run):
    assert train(SMOKE) == 0
    result = load(run.result)
    facts = result.facts
    assert run.result.parts[-4:] == ("smoke", "zinc", "released", "mpnn-sum-edges.json")
    assert result.cell == NAME
    assert result.hash == run.hash
    assert json.loads(json.dumps(result.configuration)) == json.loads(json.dumps(run.configuration))
    assert facts["data"] == run.data.facts | {"graphs": {"train": 20, "validation": 20, "test": 20}}
    assert facts["data"]["train"].startswith("unofficial")
    assert facts["metric"] == "MAE"
    assert facts["parameters"] == 93_695
    assert result.versions["torch"]
    assert re.fullmatch(r"[0-9a-f]{64}", result.code)
    for seed, replica in enumerate(result.replicas):
        assert replica.seed == seed
        assert (replica.epochs, replica.ended_by) == (2, "epochs")
        assert replica.best_epoch in (1, 2)
        assert set(replica.test) == {"test/best", "test/last"}
        assert [point[0] for point in replica.curve] == [1, 2]


def test_the_recorded_errors_are_those_of_the_weights(run):
    assert run.train()
    best = run.test("test")["test/best"].flatten()
    result = load(run.record())
    assert [r.test["test/best"] for r in result.replicas] == [[value] for value in best.tolist()]
    mean, deviation = summary(result)["best"]
    assert mean == pytest.approx(best.mean().item())
    assert deviation == pytest.approx(best.std().item())
    weights, _ = read_tensors(run.weights)
    graphs = run.splits["test"]
    predicted = run.trainer.predict(weights["theta"], weights["state"], graphs).squeeze(-1)
    assert (predicted - graphs.y).abs().double().mean(1).tolist() == pytest.approx(best.tolist())  # all in one batch


def replicas(run):
    return load(run.result).replicas


def test_a_time_budget_stops_and_resume_finishes_with_the_same_bits(run, capsys):
    assert train(SMOKE) == 0
    expected = replicas(run)
    run.result.unlink()
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    assert "stopped after" in capsys.readouterr().out
    assert train(SMOKE) == BAD_VALUE
    assert f"{run.checkpoint} holds an unfinished training: go on with --resume" in capsys.readouterr().err
    while train([*SMOKE, "--time-budget", "0", "--resume"]) == STOPPED:
        pass
    assert replicas(run) == expected


def test_a_checkpoint_of_other_data_is_not_gone_on_with(capsys):
    assert train([*SMOKE, "--time-budget", "0", "--epochs", "5"]) == STOPPED
    write_archive("zinc", "official")
    assert train([*SMOKE, "--epochs", "5", "--resume"]) == BAD_VALUE
    assert "is of another configuration or of other data" in capsys.readouterr().err


def test_missing_data_are_told_with_the_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "empty"))
    assert train(SMOKE) == MISSING_DATA
    err = capsys.readouterr().err
    assert str(tmp_path / "empty" / "zinc" / "train.csv.gz") in err
    assert "python -m pna realworld prepare zinc --download" in err
    assert [path for path in (tmp_path / "empty").rglob("*") if path.is_file()] == []


def test_molhiv_drops_small_graphs_and_maximises_the_roc_auc(toys):
    run = Figure6Run(Cell.parse("molhiv/released/pna/no-edges"), Profile("tiny", seeds=1, epochs=2))
    small = [int((run.data[s].nodes < 6).sum()) for s in run.data.sets]
    assert [len(graphs) for graphs in run.splits.values()] == [20 - count for count in small]
    assert run.train()
    assert run.replicas.best.item() == -run.replicas.best_metric.item()
    assert load(run.record()).facts["metric"] == "ROC-AUC"


@pytest.mark.parametrize("name", ["zinc", "molhiv"])
def test_delta_is_of_the_messages_sent_and_without_small_graphs(name):
    run = Figure6Run(Cell.parse(f"{name}/released/pna/no-edges"), PROFILES["smoke"], dtype=torch.double)
    train = run.data.large_enough("train")
    logs = []
    for g in range(len(train)):
        sources = train.source[train.message_ptr[train.node_ptr[g]] : train.message_ptr[train.node_ptr[g + 1]]]
        logs += [math.log(1 + sources.tolist().count(v)) for v in range(train.nodes[g])]
    assert run.data.degrees.delta == pytest.approx(sum(logs) / len(logs), rel=1e-12)
    deltas = {float(layer.combined.delta) for layer in run.network(0).layers}
    assert deltas == {run.data.degrees.delta}  # not rounded to float32 on the way


def test_which_weights_the_released_protocol_reports():
    reported = {name: data.reported for name, data in DATASETS.items()}
    assert reported == {"zinc": "last", "molhiv": "best", "cifar10": "last", "mnist": "last"}
    assert {data: DATASETS[data].reported for data, _ in COLUMNS.values()} == reported


def test_seeds_and_epochs_are_the_models_unless_told(run):
    paper = Figure6Run(Cell.parse("molhiv/released/pna/no-edges"), PROFILES["paper"])
    assert (len(paper.seeds), paper.epochs) == (10, 200)
    changed = Figure6Run(paper.cell, PROFILES["paper"].changed(seeds=3, epochs=20))
    assert (len(changed.seeds), changed.epochs, changed.profile.name) == (3, 20, "paper-3-seeds-20-epochs")
    hashes = {paper.hash, changed.hash, run.hash, Figure6Run(run.cell, run.profile, dtype=torch.double).hash}
    assert len(hashes) == 4


def test_results_tell_figure_6(capsys):
    assert train(SMOKE) == 0
    assert train(["molhiv/released/pna/no-edges", *SMOKE[1:], "--time-budget", "0"]) == STOPPED
    capsys.readouterr()
    assert results(["--profile", "smoke"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"figure 6 +released +recorded +1 of 58 +zinc/mpnn-sum/edges", out)
    assert re.search(r"figure 6 +released +partial +1 of 58 +molhiv/pna/no-edges", out)
    assert re.search(r"figure 6 +released +missing +56 of 58", out)


def numbers(text):
    """The numbers of each line that has nothing else."""
    rows = [line.split() for line in text.splitlines()]
    return [[float(word) for word in row] for row in rows if all(re.fullmatch(r"[\d.]+", word) for word in row)]


def test_the_best_seed_is_kept_beside_the_result_and_repeats_its_error(run, capsys, monkeypatch):
    """As it must where the weights of all seeds, under $PNA_DATA, are not."""
    monkeypatch.setattr("pna.pretrained.loading.weights_folders", lambda: [results_folder()])  # not the package's
    assert train(SMOKE) == 0
    capsys.readouterr()
    run.weights.unlink()
    assert evaluate(SMOKE) == 0
    best = min(replicas(run), key=lambda replica: replica.validation)
    out = capsys.readouterr().out
    both = [best.test[f"test/{name}"][0] for name in ("best", "last")]
    assert numbers(out) == [[best.seed, *[pytest.approx(number, abs=1e-5)] * 2] for number in both]
    mean, _ = summary(load(run.result))["last"]
    assert re.search(rf"As released, {mean:.3f}±\S+ is reported: the mean of 2 seeds after the last epoch", out)
    assert "not kept" not in out
    recorded = both[0]
    network, graphs = pna.load(NAME), run.splits["test"]
    assert network.seeds == (best.seed,)
    with torch.no_grad():
        predictions = network(graphs.batch(torch.arange(len(graphs)), graphs.largest(len(graphs)))).squeeze(1)
    assert (predictions - graphs.y).abs().mean().item() == pytest.approx(recorded, abs=1e-5)  # all in one batch


def test_evaluate_repeats_the_recorded_errors_and_knows_no_other_test_set(capsys):
    assert train(SMOKE) == 0
    capsys.readouterr()
    assert evaluate(SMOKE) == 0
    run = Figure6Run(Cell.parse(NAME), PROFILES["smoke"])
    expected = [
        [r.seed, *[pytest.approx(r.test[f"test/{name}"][0], abs=1e-5)] * 2]
        for name in ("best", "last")
        for r in replicas(run)
    ]
    out = capsys.readouterr().out
    assert numbers(out) == expected
    near = re.search(r"^exactly as recorded$|^as recorded, to (\S+) of an error$", out, re.MULTILINE)
    assert near
    assert float(near[1] or 0) < 1e-4
    assert evaluate([*SMOKE, "--on", "families"]) == BAD_VALUE
    assert f"{NAME} is tested on its own test set alone" in capsys.readouterr().err


def test_evaluate_on_another_version_of_the_data_says_so(run, capsys, monkeypatch):
    assert train(SMOKE) == 0
    facts = storage.facts_of(run.cell.training)
    monkeypatch.setattr(storage, "facts_of", lambda *_: facts | {"sha256": "0" * 64, "train": "official"})
    capsys.readouterr()
    assert evaluate(SMOKE) == 0
    out = capsys.readouterr().out
    assert "the recorded errors are of another version of the data set (training set " in out
    assert "as recorded" not in out


def test_where_the_last_weights_were_not_kept_it_says_which_number_they_gave(run, capsys):
    """As for the cells that were recorded before they were."""
    assert train(SMOKE) == 0
    tensors, facts = read_tensors(run.weights)
    facts = {name: facts[name] for name in ("hash", "cell", "rows", "seeds")}
    write_tensors(run.weights, {name: tensors[name] for name in ("theta", "state", "validation")}, facts)
    capsys.readouterr()
    assert evaluate(SMOKE) == 0
    out = capsys.readouterr().out
    assert numbers(out) == [[r.seed, *[pytest.approx(r.test["test/best"][0], abs=1e-5)] * 2] for r in replicas(run)]
    assert f"not kept when this cell was recorded; seed 0 had {replicas(run)[0].test['test/last'][0]:.5f}" in out


def test_the_last_weights_are_kept_where_they_are_what_is_reported():
    for name, expected in (("zinc/released/gcn/no-edges", True), ("molhiv/released/gcn/edges", False)):
        run = Figure6Run(Cell.parse(name), Profile("tiny", seeds=1, epochs=1))
        run.replicas = run.fresh()
        assert ("last_theta" in run.weight_tensors()) == expected


# ---- other data than those of the recorded result ----


def states(capsys, *words):
    """What `pna results` says of the cell."""
    capsys.readouterr()
    assert results([*words]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "zinc/mpnn-sum/edges" in line]
    return lines[-1]


def test_other_data_are_trained_on_and_nothing_recorded_is_lost(run, capsys):
    assert train(SMOKE) == 0
    files = {path.name: path.read_bytes() for path in (run.result, run.shipped)}
    write_archive("zinc", "official")
    assert not run.recorded
    assert "other data" in states(capsys, "--profile", "smoke")
    assert "smoke, of other data than yours" in states(capsys)
    assert train(SMOKE) == 0
    out = capsys.readouterr().out
    assert "is of another data set (training set unofficial: 3 of 20 rows" in out
    assert "than yours (official)" in out
    assert run.recorded
    assert load(run.result).facts["data"]["train"] == "official"
    (aside,) = run.result.parents[1].glob("released-unofficial-*")
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == files
    assert f"moves to {aside / run.result.name}" in out
    assert len([*run.weights.parent.glob("*unofficial*")]) == 1
    assert "recorded" in states(capsys, "--profile", "smoke")
    assert train(SMOKE) == 0
    assert f"{run.result} is there already" in capsys.readouterr().out


def test_data_that_come_and_go_leave_every_result(run, monkeypatch):
    """Unofficial, official, unofficial and official again: four trainings, four results, told apart by their commit."""
    contents = set()
    for commit, train_set in enumerate(("unofficial: 3 of 20 rows are the official molecules", "official") * 2):
        monkeypatch.setenv("PNA_COMMIT", str(commit))
        write_archive("zinc", train_set)
        assert train(SMOKE) == 0
        contents.add(run.result.read_bytes())
        assert contents == {path.read_bytes() for path in run.result.parents[1].rglob("*.json")}
    assert len(contents) == 4


def test_until_they_are_trained_on_the_recorded_result_stays(run, capsys):
    assert train(SMOKE) == 0
    before = run.result.read_bytes()
    write_archive("zinc", "official")
    assert train([*SMOKE, "--time-budget", "0"]) == STOPPED
    assert run.result.read_bytes() == before


def test_a_result_of_other_data_is_missing(run, monkeypatch):
    """It is trained with other missing cells; while its data are not here, the recorded result counts."""
    assert train(SMOKE) == 0
    calls = []
    monkeypatch.setattr("pna.experiments.command.train_side_by_side", lambda cells, *_, **__: calls.append(cells) or 0)
    missing = ["--missing", "--experiment", "figure6", *SMOKE[1:]]
    assert train(missing) == 0
    write_archive("zinc", "official")
    assert train(missing) == 0
    storage.archive_path("zinc").unlink()
    assert run.recorded
    assert [Cell.parse(NAME) in cells for cells in calls] == [False, True]


def test_a_damaged_result_is_not_taken_for_one_of_other_data(run):
    assert train(SMOKE) == 0
    run.result.write_text("{}")
    assert run.other_data is None

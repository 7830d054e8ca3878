"""Results are facts with provenance: what is recorded, and that nothing altered is taken for it."""

import json
import re
from dataclasses import asdict, replace

import pytest
import torch

import pna
from pna.experiments import Cell
from pna.multitask import COLLECTIONS, TASKS, Split
from pna.training.cells import CellRun
from pna.training.files import read_tensors
from pna.training.store import five_best, load, mean_log_errors, record, result_path, results_folder, table_of

CELL = Cell.parse("multitask/released/gcn/8")


@pytest.fixture
def trained(few_graphs):
    run = CellRun(CELL, few_graphs.profile)
    assert run.train()
    return run


def text_without_nan(path):
    """The file as strict JSON."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_result_comes_back(trained, few_graphs):
    path = record(trained)
    assert path == result_path(CELL, few_graphs.profile)
    assert path == few_graphs.folder / "results" / "smoke" / "multitask" / "released" / "gcn-8.json"
    facts = load(path)
    assert facts == text_without_nan(path)
    assert facts["cell"] == str(CELL)
    assert facts["hash"] == trained.hash
    assert facts["configuration"] == trained.configuration
    assert facts["tasks"] == [task.name for task in TASKS]


def test_results_go_to_the_folder_results_by_default(monkeypatch):
    monkeypatch.delenv("PNA_RESULTS", raising=False)
    assert str(results_folder()) == "results"


def test_the_configuration_decides_the_hash(few_graphs):
    configuration = CellRun(CELL, few_graphs.profile).configuration
    assert configuration["profile"] == asdict(few_graphs.profile)
    assert configuration["settings"] == {"learning_rate": 0.003, "weight_decay": 1e-6, "epochs": 3, "patience": 1_000}
    assert configuration["seeds"] == [0, 1]
    profile = few_graphs.profile
    runs = [
        CellRun(CELL, profile),
        CellRun(Cell.parse("multitask/released/gin/8"), profile),
        CellRun(Cell.parse("multitask/released/gcn/12"), profile),
        CellRun(Cell.parse("multitask/described/gcn/8"), profile),
        CellRun(Cell.parse("standard/released/gcn/8"), profile),
        CellRun(CELL, profile, dtype=torch.double),
        *(CellRun(CELL, replace(profile, **{field: 5})) for field in ("divisor", "seeds", "epochs", "patience")),
    ]
    assert len({run.hash for run in runs}) == len(runs)
    assert CellRun(CELL, profile).hash == runs[0].hash


def test_provenance_is_recorded(trained):
    facts = load(record(trained))
    assert facts["versions"].keys() == {"torch", "torch_geometric", "numpy", "networkx", "python"}
    assert (
        facts["versions"]["torch"] == torch.__version__.split("+")[0] or facts["versions"]["torch"] == torch.__version__
    )
    assert all(facts["versions"].values())
    assert facts["device"]
    assert facts["seconds"] >= 0
    assert re.fullmatch(r"[0-9a-f]{64}", facts["hash"])
    assert re.fullmatch(r"[0-9a-f]{64}", facts["code"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts["written"])


def test_the_code_hash_is_of_the_sources(trained, monkeypatch, tmp_path):
    first, again = (load(record(trained))["code"] for _ in range(2))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("changed = True\n")
    monkeypatch.setattr(pna, "__file__", str(tmp_path / "package" / "__init__.py"))
    assert first == again != load(record(trained))["code"]


def test_every_replica_has_its_errors(trained):
    facts = load(record(trained))
    r = trained.replicas
    assert [replica["seed"] for replica in facts["replicas"]] == [0, 1]
    for row, replica in enumerate(facts["replicas"]):
        assert replica["task"] is None
        assert replica["epochs"] == 3
        assert replica["best_epoch"] == r.best_epoch[row]
        assert replica["diverged_at_epoch"] is None
        assert replica["validation"] == r.best[row].item()
        assert replica["test"].keys() == {"multitask/test", "families/tree", "families/star"}
        assert replica["test"]["multitask/test"] == trained.test("multitask")["test"][row].tolist()
        curve = torch.tensor(replica["curve"])
        assert curve[:, 0].tolist() == [1, 2, 3]
        torch.testing.assert_close(curve[:, 1:], torch.stack(trained.curves)[:, row], rtol=1e-5, atol=0)


def test_other_collections_are_measured_in_the_units_of_the_training_set(trained, monkeypatch):
    splits = tuple(Split(role, role, (5,), 4, "star") for role in ("train", "validation", "test"))
    monkeypatch.setitem(COLLECTIONS, "families", lambda spec: splits)
    data = trained.data("families")
    assert (data.maxima < trained.own_data.maxima).any()
    batches = trained.batches(data, "test")
    labels = torch.cat([batch.y_graph for batch in batches]) * torch.from_numpy(trained.own_data.maxima[3:])
    torch.testing.assert_close(labels, torch.from_numpy(data["test"].graph_labels).float())


def test_the_baseline_is_there_for_every_test_set(trained):
    facts = load(record(trained))
    assert facts["baseline"].keys() == facts["replicas"][0]["test"].keys()
    expected = trained.own_data.baseline(trained.own_data["test"])
    assert facts["baseline"]["multitask/test"] == {task: round(value, 5) for task, value in expected.items()}


def test_a_label_that_never_varies_can_be_recorded(few_graphs, monkeypatch):
    """The mean of the training set is then without error, and its logarithm not a number of JSON."""
    splits = tuple(Split(role, role, (5, 8), 4, "star") for role in ("train", "validation", "test"))
    monkeypatch.setitem(COLLECTIONS, "multitask", lambda spec: splits)
    monkeypatch.setitem(COLLECTIONS, "families", lambda spec: splits)
    run = CellRun(Cell.parse("multitask/described/gcn/8"), replace(few_graphs.profile, epochs=1))
    assert run.train()
    facts = text_without_nan(record(run))
    assert facts["baseline"]["multitask/test"]["connected"] is None


def test_single_tasks_are_recorded_by_seed_and_task(few_graphs):
    run = CellRun(Cell.parse("single-task/released/gcn/8"), replace(few_graphs.profile, epochs=1))
    assert run.train()
    facts = load(record(run))
    names = [task.name for task in TASKS]
    assert [(replica["seed"], replica["task"]) for replica in facts["replicas"]] == [
        (seed, task) for seed in (0, 1) for task in names
    ]
    assert torch.equal(run.replicas.tasks, torch.eye(6).repeat(2, 1))


def test_weights_are_written_with_the_hash_and_the_checkpoint_goes(trained):
    assert trained.checkpoint.exists()
    record(trained)
    assert not trained.checkpoint.exists()
    tensors, facts = read_tensors(trained.weights)
    assert facts == {"hash": trained.hash, "cell": str(CELL), "seeds": [0, 1]}
    assert torch.equal(tensors["theta"], trained.replicas.best_theta)
    assert torch.equal(tensors["state"], trained.replicas.best_state)
    assert torch.equal(tensors["validation"], trained.replicas.best)


def test_an_altered_configuration_is_refused(trained):
    path = record(trained)
    text = path.read_text()
    path.write_text(text.replace('"patience": 1000', '"patience": 999'))
    with pytest.raises(ValueError, match=r"gcn-8\.json has been altered"):
        load(path)
    path.write_text(text.replace('"hash": "', '"hash": "0'))
    with pytest.raises(ValueError, match=r"gcn-8\.json has been altered"):
        load(path)
    path.write_text(text[:-20])
    with pytest.raises(ValueError, match=r"gcn-8\.json does not hold a JSON object"):
        load(path)


@pytest.mark.parametrize("epochs", [1, 2, 499, 500, 501, 1_203, 10_000])
def test_curves_are_thinned_to_five_hundred_points(trained, epochs):
    trained.curves = list(torch.rand(epochs, 2, 2))
    trained.replicas.epoch.fill_(epochs)
    for row, replica in enumerate(load(record(trained))["replicas"]):
        points = [point[0] for point in replica["curve"]]
        assert len(points) == len(set(points)) == min(epochs, 500)
        assert points == sorted(points)
        assert (points[0], points[-1]) == (1, epochs)
        for epoch, *losses in replica["curve"]:
            assert losses == pytest.approx(trained.curves[epoch - 1][row].tolist(), rel=1e-5)


def test_the_curve_of_a_replica_ends_with_its_last_epoch(trained):
    trained.replicas.epoch[1] = 2
    trained.curves[2][1] = torch.nan
    first, second = load(record(trained))["replicas"]
    assert [point[0] for point in first["curve"]] == [1, 2, 3]
    assert [point[0] for point in second["curve"]] == [1, 2]


def test_a_diverged_replica_is_null_and_says_when(few_graphs, monkeypatch):
    fresh = CellRun._fresh

    def poisoned(run):
        replicas = fresh(run)
        replicas.theta[0] = replicas.best_theta[0] = torch.nan
        return replicas

    monkeypatch.setattr(CellRun, "_fresh", poisoned)
    run = CellRun(CELL, few_graphs.profile)
    assert run.train()
    bad, good = text_without_nan(record(run))["replicas"]
    assert (bad["diverged_at_epoch"], bad["epochs"], bad["best_epoch"], bad["validation"]) == (1, 1, 0, None)
    assert bad["curve"] == [[1, None, None]]
    assert bad["test"]["multitask/test"] == [None] * 6
    assert good["diverged_at_epoch"] is None
    assert good["epochs"] == 3
    table = table_of(load(result_path(CELL, few_graphs.profile)))["multitask/test"]
    expected = torch.tensor(good["test"]["multitask/test"]).log10().tolist()
    assert table == pytest.approx(expected, rel=1e-5)


INF = float("inf")


def test_the_five_best_have_the_least_validation_errors():
    validation = torch.tensor([0.7, 0.1, INF, 0.3, 0.9, 0.2, 0.8, 0.6, INF, 0.5])
    assert five_best(validation, [None] * 10, task=0).tolist() == [1, 5, 3, 9, 7]


def test_fewer_than_five_are_all_taken_and_none_is_none():
    assert five_best(torch.tensor([2.0, INF, 1.0]), [None] * 3, task=0).tolist() == [2, 0]
    assert five_best(torch.tensor([INF]), [None], task=0).tolist() == []


def test_single_tasks_have_five_best_each():
    tasks = [task for _ in range(7) for task in (0, 1)]
    validation = torch.arange(14.0)
    assert five_best(validation, tasks, task=0).tolist() == [0, 2, 4, 6, 8]
    assert five_best(validation, tasks, task=1).tolist() == [1, 3, 5, 7, 9]


def test_the_mean_of_the_logarithms_is_over_the_five_best():
    errors = 10.0 ** -torch.arange(12.0).view(2, 6)
    assert mean_log_errors(errors, torch.tensor([1.0, 2.0]), [None, None]) == pytest.approx(
        [-(3 + k) for k in range(6)]
    )
    assert mean_log_errors(errors, torch.tensor([1.0, INF]), [None, None]) == pytest.approx([-k for k in range(6)])

"""Results are facts with provenance: what is recorded, and that nothing altered is taken for it."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

import pna
from pna.experiments import Cell, MultiTaskRun
from pna.experiments.depth import RULES, THRESHOLDS
from pna.experiments.multitask import five_best, mean_log_errors, table_of
from pna.files import read_tensors, write_tensors
from pna.multitask import COLLECTIONS, TASKS, Split
from pna.places import results_folder
from pna.training.store import code_hash, load, save, thinned, thinner

CELL = Cell.parse("multitask/released/gcn/8")
# as released, the cells of the extrapolation are trained alike: trained once, tested everywhere
TESTED = {"multitask/test", "multitask-15-24/test", "families/tree", "families/star"}
TESTED |= {"redrawn/test_1", "redrawn/test_2"}
TESTED |= {"extrapolation/test_10_11", "extrapolation/test_11_12"}


@pytest.fixture
def trained(few_graphs):
    run = MultiTaskRun(CELL, few_graphs.profile)
    assert run.train()
    return run


def text_without_nan(path):
    """The file as strict JSON."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_a_result_comes_back(trained, few_graphs):
    path = trained.record()
    assert path == trained.result
    assert path == few_graphs.folder / "results" / "smoke" / "multitask" / "released" / "gcn-8.json"
    result, content = load(path), text_without_nan(path)
    assert content.pop("sha256")
    tests = content.pop("tests")
    for k, replica in enumerate(content["replicas"]):
        replica["test"] = {name: rows[k] for name, rows in tests.items()}
    assert json.loads(json.dumps(asdict(result))) == content
    assert result.cell == str(CELL)
    assert result.hash == trained.hash
    assert result.configuration == trained.configuration
    assert result.facts["tasks"] == [task.name for task in TASKS]


def test_results_go_to_the_repositorys_folder_from_wherever_they_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.delenv("PNA_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert results_folder() == Path(pna.__file__).parents[1] / "results"


def test_the_configuration_decides_the_hash(few_graphs):
    configuration = MultiTaskRun(CELL, few_graphs.profile).configuration
    assert configuration["profile"].items() <= asdict(few_graphs.profile).items()
    assert configuration["settings"] == {"learning_rate": 0.003, "weight_decay": 1e-6, "epochs": 3, "patience": 1_000}
    assert configuration["seeds"] == [0, 1]
    profile = few_graphs.profile
    runs = [
        MultiTaskRun(CELL, profile),
        MultiTaskRun(Cell.parse("multitask/released/gin/8"), profile),
        MultiTaskRun(Cell.parse("multitask/released/gcn/12"), profile),
        MultiTaskRun(Cell.parse("multitask/described/gcn/8"), profile),
        MultiTaskRun(Cell.parse("standard/released/gcn/8"), profile),
        MultiTaskRun(CELL, profile, dtype=torch.double),
        *(MultiTaskRun(CELL, replace(profile, **{field: 5})) for field in ("divisor", "seeds", "epochs", "patience")),
    ]
    assert len({run.hash for run in runs}) == len(runs)
    assert MultiTaskRun(CELL, profile).hash == runs[0].hash


def test_provenance_is_recorded(trained):
    result = load(trained.record())
    assert result.versions.keys() == {"torch", "torch_geometric", "numpy", "networkx", "python"}
    assert result.versions["torch"] == torch.__version__.split("+")[0] or result.versions["torch"] == torch.__version__
    assert all(result.versions.values())
    assert result.device
    assert result.seconds >= 0
    assert re.fullmatch(r"[0-9a-f]{64}", result.hash)
    assert result.code == code_hash(Path(pna.__file__).parent)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", result.written)


def test_replicas_carry_the_seeds_of_their_run(few_graphs):
    run = MultiTaskRun(Cell.parse("single-task/released/gcn/8"), few_graphs.profile)
    run.seeds = [107, 3]
    replicas = run.fresh()
    assert replicas.seed.tolist() == [107] * len(TASKS) + [3] * len(TASKS)
    theta, _ = run.trainer.lifted.stack([run.network(107), run.network(3)])
    assert torch.equal(replicas.theta, theta.repeat_interleave(len(TASKS), dim=0))


def test_every_replica_has_its_errors(trained):
    result = load(trained.record())
    r = trained.replicas
    assert [replica.seed for replica in result.replicas] == [0, 1]
    for row, replica in enumerate(result.replicas):
        assert replica.task is None
        assert replica.epochs == 3
        assert replica.best_epoch == r.best_epoch[row]
        assert replica.ended_by == "epochs"
        assert replica.validation == r.best[row].item()
        assert replica.test.keys() == TESTED
        errors = trained.test("multitask")["multitask/test"][row].tolist()
        assert replica.test["multitask/test"] == pytest.approx(errors, rel=1e-6)
        curve = torch.tensor(replica.curve)
        assert curve[:, 0].tolist() == [1, 2, 3]
        torch.testing.assert_close(curve[:, 1:], torch.stack(trained.curves)[:, row], rtol=1e-5, atol=0)


def test_other_collections_are_measured_in_the_units_of_the_training_set(trained, monkeypatch):
    splits = tuple(Split(role, role, (5,), 4, "star") for role in ("train", "validation", "test"))
    monkeypatch.setitem(COLLECTIONS, "families", lambda spec: splits)
    data = trained.data("families")
    assert (data.maxima < trained.training_data.maxima).any()
    batches = trained.batches(data, "test")
    labels = torch.cat([batch.y_graph for batch in batches]) * torch.from_numpy(trained.training_data.maxima[3:])
    torch.testing.assert_close(labels, torch.from_numpy(data["test"].graph_labels).float())


def test_the_baseline_is_there_for_every_test_set(trained):
    result = load(trained.record())
    assert result.facts["baseline"].keys() == result.replicas[0].test.keys()
    expected = trained.training_data.baseline(trained.training_data["test"], batched_mean=True)  # D14
    assert result.facts["baseline"]["multitask/test"] == {task: round(value, 5) for task, value in expected.items()}


def test_a_label_that_never_varies_can_be_recorded(few_graphs, monkeypatch):
    """The mean of the training set is then without error, and its logarithm not a number of JSON."""
    splits = tuple(Split(role, role, (5, 8), 4, "star") for role in ("train", "validation", "test"))
    monkeypatch.setitem(COLLECTIONS, "multitask", lambda spec: splits)
    monkeypatch.setitem(COLLECTIONS, "families", lambda spec: splits)
    run = MultiTaskRun(Cell.parse("multitask/described/gcn/8"), replace(few_graphs.profile, epochs=1))
    assert run.train()
    facts = text_without_nan(run.record())
    assert facts["facts"]["baseline"]["multitask/test"]["connected"] is None


def test_single_tasks_are_recorded_by_seed_and_task(few_graphs):
    run = MultiTaskRun(Cell.parse("single-task/released/gcn/8"), replace(few_graphs.profile, epochs=1))
    assert run.train()
    result = load(run.record())
    names = [task.name for task in TASKS]
    assert [(replica.seed, replica.task) for replica in result.replicas] == [
        (seed, task) for seed in (0, 1) for task in names
    ]
    assert torch.equal(run.replicas.tasks, torch.eye(6).repeat(2, 1))


def test_weights_are_written_with_the_hash_and_the_checkpoint_goes(trained):
    assert trained.checkpoint.exists()
    trained.record()
    assert not trained.checkpoint.exists()
    tensors, facts = read_tensors(trained.weights)
    assert facts == {"hash": trained.hash, "cell": str(CELL), "rows": [0, 1], "seeds": [0, 1]}
    assert torch.equal(tensors["theta"], trained.replicas.best_theta)
    assert torch.equal(tensors["state"], trained.replicas.best_state)
    assert torch.equal(tensors["validation"], trained.replicas.best)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"patience": 1000', '"patience": 999'),
        ('"hash": "', '"hash": "0'),
        ('"seed": 1', '"seed": 2'),
        ('"families/tree": [', '"families/tree": [0.5, '),
        ('"sssp"', '"ssp"'),
        ('"seconds": ', '"seconds": 1'),
    ],
)
def test_an_altered_file_is_refused_whatever_was_altered(trained, old, new):
    path = trained.record()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"gcn-8\.json has been altered"):
        load(path)


def test_a_damaged_file_is_named(trained):
    path = trained.record()
    text = path.read_text()
    path.write_text(text[:-20])
    with pytest.raises(ValueError, match=r"gcn-8\.json does not hold a JSON object"):
        load(path)
    path.write_text('{"hash": "0"}')
    with pytest.raises(ValueError, match=r"gcn-8\.json is not a result of format 3 or 2, but of format None"):
        load(path)


def test_an_altered_configuration_with_a_true_checksum_is_refused(trained):
    result = load(trained.record())
    save(trained.result, replace(result, configuration=result.configuration | {"seeds": [0]}))
    with pytest.raises(ValueError, match="its configuration does not have the hash that it claims"):
        load(trained.result)


def test_another_depth_is_tested_without_changing_the_network(trained):
    usual = trained.test("extrapolation")
    tests = {rule: trained.test(f"extrapolation@{rule}") for rule in (*RULES, "N/2", "3")}
    for rule, errors in tests.items():
        assert [name.replace(f"@{rule}", "") for name in errors] == list(usual)
        same = [torch.equal(e, u) for e, u in zip(errors.values(), usual.values(), strict=True)]
        assert all(same) == (rule in ("N/2", "cap"))  # these graphs have at most 24 nodes
    assert trained.threshold in THRESHOLDS
    assert all(torch.equal(a, b) for a, b in zip(trained.test("extrapolation").values(), usual.values(), strict=True))
    with pytest.raises(ValueError, match="depth must be one of"):
        trained.test("extrapolation@deep")


def test_what_was_not_asked_for_in_training_is_tested_later(trained):
    whole = load(trained.record())
    fewer = tuple(replace(r, test={"multitask/test": r.test["multitask/test"]}) for r in whole.replicas)
    save(trained.result, replace(whole, replicas=fewer))
    again = MultiTaskRun(CELL, trained.profile)
    assert again.untested() == ["multitask-15-24", "redrawn", "families", "extrapolation"]
    again.load_weights()
    again.test_more()
    assert load(trained.result) == whole
    assert again.untested() == []


def test_weights_of_another_training_test_no_recorded_result(trained):
    whole = load(trained.record())
    fewer = tuple(replace(r, test={"multitask/test": r.test["multitask/test"]}) for r in whole.replicas)
    save(trained.result, replace(whole, replicas=fewer))
    before = trained.result.read_bytes()
    tensors, facts = read_tensors(trained.weights)
    write_tensors(trained.weights, tensors | {"validation": tensors["validation"] * 1.01}, facts)
    again = MultiTaskRun(CELL, trained.profile)
    again.load_weights()
    with pytest.raises(ValueError, match=r"gcn-8\.safetensors is of another training than .*gcn-8\.json"):
        again.test_more()
    assert trained.result.read_bytes() == before


@pytest.mark.parametrize("epochs", [1, 2, 499, 500, 501, 1_203, 10_000])
def test_curves_are_thinned_to_five_hundred_points(trained, epochs):
    trained.curves = list(torch.rand(epochs, 2, 2))
    trained.replicas.epoch.fill_(epochs)
    for row, replica in enumerate(load(trained.record()).replicas):
        points = [point[0] for point in replica.curve]
        assert points == sorted(set(points))
        assert min(epochs, 500) <= len(points) <= 510
        assert points[:10] == list(range(1, min(epochs, 10) + 1))
        assert (points[0], points[-1]) == (1, epochs)
        for epoch, *losses in replica.curve:
            assert losses == pytest.approx(trained.curves[epoch - 1][row].tolist(), rel=1e-5)


@pytest.mark.parametrize(("curves", "points"), [(2, 509), (3, 509), (10, 159), (60, 34), (6_000, 11)])
def test_many_curves_have_fewer_points_beside_the_first_ten(curves, points):
    epochs = [epoch for epoch, _ in thinned(torch.rand(6_000, 1), curves)]
    assert (len(epochs), epochs[:10], epochs[-1]) == (points, list(range(1, 11)), 6_000)


@pytest.mark.parametrize("epochs", [100, 160, 161, 162, 170, 5_000])
def test_a_recorded_result_loses_nothing_but_points_of_its_curves(trained, epochs):
    trained.curves = list(torch.rand(epochs, 2, 2))
    trained.replicas.epoch.fill_(epochs)
    trained.replicas.best_epoch[:] = torch.tensor([1, epochs // 2 + 1])
    recorded = load(trained.record())
    many = replace(recorded, replicas=recorded.replicas * 5)  # 150 points of each remain, and the first ten
    thin = thinner(many, "before")
    assert replace(thin, replicas=many.replicas, unthinned=None) == many
    for before, after in zip(many.replicas, thin.replicas, strict=True):
        assert replace(after, curve=before.curve) == before
        assert [point for point in before.curve if point in after.curve] == after.curve
        assert len(after.curve) <= 161
        assert (before.curve[:10], before.curve[-1]) == (after.curve[:10], after.curve[-1])
        nearest = min(before.curve, key=lambda point: abs(point[0] - before.best_epoch))
        assert nearest in after.curve
    assert thinner(thin, "again") is thin
    assert thin.unthinned == ("before" if epochs > 161 else None)


def test_the_curve_of_a_replica_ends_with_its_last_epoch(trained):
    trained.replicas.epoch[1] = 2
    trained.curves[2][1] = torch.nan
    first, second = load(trained.record()).replicas
    assert [point[0] for point in first.curve] == [1, 2, 3]
    assert [point[0] for point in second.curve] == [1, 2]


def test_a_diverged_replica_is_null_and_says_so(few_graphs, monkeypatch):
    fresh = MultiTaskRun.fresh

    def poisoned(run):
        replicas = fresh(run)
        replicas.theta[0] = replicas.best_theta[0] = torch.nan
        return replicas

    monkeypatch.setattr(MultiTaskRun, "fresh", poisoned)
    run = MultiTaskRun(CELL, few_graphs.profile)
    assert run.train()
    bad, good = load(run.record()).replicas
    assert (bad.ended_by, bad.epochs, bad.best_epoch, bad.validation) == ("divergence", 1, 0, None)
    assert bad.diverged
    assert bad.curve == [[1, None, None]]
    assert bad.test["multitask/test"] == [None] * 6
    assert (good.ended_by, good.epochs) == ("epochs", 3)
    table = table_of(load(run.result))["multitask/test"]
    assert table == pytest.approx(torch.tensor(good.test["multitask/test"]).log10().tolist(), rel=1e-5)


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

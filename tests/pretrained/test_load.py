"""`pna.load`: a trained network from its cell's name."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open

import pna
from pna.errors import MissingData
from pna.experiments import Cell, profile_named, run_of
from pna.experiments.multitask import task_errors
from pna.files import read_tensors, write_tensors
from pna.multitask import make
from pna.networks import GraphBatch
from pna.networks.depths import DEPTHS, Until
from pna.pretrained import names
from pna.training.store import load as read_result

ROOT = Path(pna.__file__).parents[1]
NAME = "multitask/described/gcn/8"


def same_weights(a, b):
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# ---- what is shipped ----


def test_every_file_of_weights_has_a_name_and_loads():
    files = list((ROOT / "results").glob("*/*/*/*.safetensors"))
    assert len({path.parts[-3:] for path in files}) == len(names()) > 0
    for name in names():
        network = pna.load(name)
        assert network.cell == name
        assert not network.training


@pytest.mark.parametrize(
    "name",
    [
        "multitask/released/pna/16",
        "multitask/described/gat/16",
        "single-task/released/pna/16",
        "standard/released/pna/16",
    ],
)
def test_the_loaded_network_has_the_recorded_errors(name):
    network = pna.load(name)
    run = run_of(Cell.parse(name), profile_named(network.budget))
    train, _, test = run.splits_of("multitask")
    data = make(run.cell.data_spec, [train, test])
    with torch.no_grad():
        batches = [GraphBatch.of(batch) for batch in data["test"].batches(512)]
        errors = torch.stack([task_errors(network(batch), batch) for batch in batches]).mean(0)
    recorded = read_result(run.result).replicas
    for k, task in enumerate(read_result(run.result).facts["tasks"]):
        own = [replica for replica in recorded if replica.task in (None, task) and replica.validation is not None]
        best = min(own, key=lambda replica: replica.validation)
        assert best.seed in network.seeds
        assert math.log10(errors[k]) == pytest.approx(
            math.log10(best.test["multitask/test"][k]), abs=0.005
        )  # some were tested on a GPU


def test_figure_5_as_released_is_the_network_of_figure_4():
    assert same_weights(pna.load("extrapolation/released/pna/16"), pna.load("multitask/released/pna/16"))


def test_load_is_a_name_of_the_package_and_no_other_comes_with_it():
    from pna.pretrained import load

    assert pna.load is load
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        pna.lode  # noqa: B018


# ---- which weights ----


def test_without_a_seed_it_is_the_one_beside_the_result_and_with_one_that_of_the_store(shelf):
    run = shelf.run(NAME)
    (best,) = shelf.put(run, run.shipped, [7])
    every = shelf.put(run, run.weights, list(range(10)))
    assert same_weights(pna.load(NAME).network, best)
    for seed in (0, 4, 7, 9):
        network = pna.load(NAME, seed=seed)
        assert network.seeds == (seed,)
        assert network.validation == pytest.approx(seed + 0.1)
        assert same_weights(network.network, every[seed])


def test_of_single_tasks_each_network_speaks_of_its_own(shelf):
    run = shelf.run("single-task/described/gcn/8")
    rows = [6, 1, 14, 9, 4, 17]  # tasks 0 to 5 of seeds 1, 0, 2, 1, 0, 2
    shelf.put(run, run.shipped, sorted(rows))
    shelf.put(run, run.weights, list(range(60)))
    batch = GraphBatch.of(next(make(run.cell.data_spec, run.splits_of("multitask")[:1])["train"].batches(3)))
    for network, wanted in ((pna.load(str(run.cell)), rows), (pna.load(str(run.cell), seed=3), range(18, 24))):
        with torch.no_grad():
            found = torch.cat([part.flatten() for part in network(batch)])
            every = [shelf.network(run, row).eval()(batch) for row in wanted]
            nodes = torch.stack([every[k][0][:, k] for k in range(3)], 1)
            graphs = torch.stack([every[k + 3][1][:, k] for k in range(3)], 1)
        torch.testing.assert_close(found, torch.cat([nodes.flatten(), graphs.flatten()]))


def test_the_fullest_budget_comes_first(shelf):
    for order, (profile, epochs) in enumerate([("quick", None), ("paper", 300), ("paper", None)]):
        run = shelf.run(NAME, profile, epochs=epochs)
        shelf.put(run, run.shipped, [order])
        assert pna.load(NAME).budget == run.profile.name


def test_results_kept_elsewhere_do_not_hide_the_weights_that_are_shipped(tmp_path, monkeypatch):
    before, network = names(), pna.load("multitask/released/pna/16")
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    assert names() == before
    assert pna.load("multitask/released/pna/16").budget == network.budget == "planned"


def test_ones_own_networks_come_before_fuller_ones_that_are_shipped(shelf, monkeypatch):
    own, shipped = shelf.run(NAME, "quick"), shelf.run(NAME, "paper")
    monkeypatch.setattr(
        "pna.pretrained.loading.weights_folders", lambda: (shelf.folder / "results", shelf.folder / "weights")
    )
    shelf.put(shipped, shelf.folder / "weights" / "paper" / shipped.shipped.relative_to(shipped.result.parents[2]), [3])
    assert pna.load(NAME).budget == "paper"
    shelf.put(own, own.shipped, [1])
    assert (pna.load(NAME).budget, pna.load(NAME).seeds) == ("quick", (1,))


def test_the_package_is_looked_into_where_there_are_no_results(shelf, monkeypatch):
    run = shelf.run(NAME)
    monkeypatch.setattr(
        "pna.pretrained.loading.weights_folders", lambda: (shelf.folder / "none", shelf.folder / "weights")
    )
    shelf.put(run, shelf.folder / "weights" / "paper" / run.shipped.relative_to(run.result.parents[2]), [2])
    assert pna.load(NAME).seeds == (2,)
    assert names() == [NAME]


def test_loading_draws_no_random_number_of_the_callers(shelf):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [0])
    torch.manual_seed(5)
    pna.load(NAME)
    after = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))


def test_another_depth_is_the_same_network_with_other_rounds():
    usual, other = (pna.load("multitask/released/pna/16", depth=depth) for depth in ("N/2", "diameter"))
    assert same_weights(usual, other)
    assert (usual.network.depth, other.network.depth) == (DEPTHS["N/2"], DEPTHS["diameter"])


def test_a_depth_may_be_a_number():
    for depth in (20, "20"):
        network = pna.load("multitask/released/pna/16", depth=depth)
        assert network.depth == "20"
        assert network.network.depth(SimpleNamespace(N=97)) == 20
    for depth in (0, True, 2.5):
        with pytest.raises(ValueError, match=f"depth must be one of .*; got '{depth}'"):
            pna.load("multitask/released/pna/16", depth=depth)


@pytest.mark.parametrize(("N", "layers"), [(15, 7), (24, 12), (26, 12), (97, 12)])
def test_without_a_depth_it_is_no_deeper_than_in_training(N, layers):
    network = pna.load("multitask/released/pna/16")
    assert network.depth == "cap"
    assert network.network.depth(SimpleNamespace(N=N)) == layers


def test_a_network_that_was_trained_with_another_depth_has_it_as_deep_as_in_training(shelf):
    run = shelf.run("depth-convergence/described/mpnn-max/16")
    shelf.put(run, run.shipped, [0])
    found = [pna.load(str(run.cell), depth=depth).network.depth(SimpleNamespace(N=60)) for depth in (None, "N/2")]
    assert found == [Until(0.1, 24), 30]


def test_a_real_world_network_loads_and_has_no_depth_to_choose(shelf):
    run = shelf.run("zinc/released/pna/edges", epochs=200)
    (network,) = shelf.put(run, run.shipped, [1])
    loaded = pna.load("zinc/released/pna/edges")
    assert same_weights(loaded.network, network)
    assert (loaded.budget, loaded.seeds) == ("paper-200-epochs", (1,))
    with pytest.raises(ValueError, match="depth is for the recurrent networks of the multi-task benchmark"):
        pna.load("zinc/released/pna/edges", depth="N/2")


def test_it_says_where_it_comes_from(shelf):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [3])
    assert repr(pna.load(NAME)) == f"<{NAME}: seed 3, budget paper, depth cap, validation 3.1, 1,798 parameters>"


# ---- what is refused ----


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("multitask/released/pna/61", "multitask/released/pna/16"),
        ("multitask/relased/pna/16", "multitask/released/pna/16"),
        ("multitask/released/pnaa/16", "multitask/released/pna/16"),
        ("multi-task/described/gat/16", "multitask/described/gat/16"),
        ("multitask/released/pna", "multitask/released/pna/16"),
    ],
)
def test_a_wrong_name_lists_the_near_ones(name, near):
    with pytest.raises(ValueError, match=f"trained networks with a name near it: .*{near}"):
        pna.load(name)


def test_a_right_name_without_weights_is_told_the_command():
    with pytest.raises(MissingData, match="no weights of multitask/released/pna/64 are here: python -m pna train"):
        pna.load("multitask/released/pna/64")


@pytest.mark.parametrize("training", ["tuning", "dropout", "dropout-tuning", "tuned-dropout"])
def test_no_command_makes_weights_that_are_never_kept(training):
    with pytest.raises(MissingData, match=rf"no weights of {training} networks are kept; .*tuned/described/gcn/16"):
        pna.load(f"{training}/described/gcn/16")


@pytest.mark.parametrize("name", ["zinc/released/pna/edges", "single-task/described/gat/16", "multitask/D5/pna/16"])
def test_weights_of_the_study_that_are_not_here_are_told_where_to_be_had(shelf, name):
    with pytest.raises(MissingData) as error:
        pna.load(name)
    assert f"no weights of {name} are here" in str(error.value)
    assert "a clone of the repository, or with weights.zip of a release" in str(error.value)
    assert "set PNA_RESULTS to the results/ folder of either" in str(error.value)
    assert f"python -m pna train {name} makes them" in str(error.value)


def test_they_are_found_where_they_were_put_and_their_checksum_is_tested(tmp_path, monkeypatch):
    run = run_of(cell := Cell.parse("zinc/released/pna/edges"), profile_named("planned", cell))
    data = run.shipped.read_bytes()
    shutil.copy(ROOT / "results" / "plan.json", tmp_path)
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    monkeypatch.setattr("pna.pretrained.loading.weights_folders", lambda: (tmp_path,))
    run.shipped.parent.mkdir(parents=True)
    run.shipped.write_bytes(data)
    assert pna.load(str(cell)).budget == "planned"
    run.shipped.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match="has been altered: its tensors do not have the checksum it states"):
        pna.load(str(cell))


def test_every_file_of_weights_states_its_checksum():
    files = [path for name in ("paper", "planned") for path in (ROOT / "results" / name).glob("*/*/*.safetensors")]
    facts = {path: json.loads(safe_open(path, "pt").metadata()["pna"]) for path in files}
    assert len(facts) > 180
    assert [str(path) for path, stated in facts.items() if "sha256" not in stated] == []


def test_a_name_like_no_other(shelf):
    with pytest.raises(ValueError, match=r"a cell is named .*; got 'x'; .* names the 0 trained networks that are here"):
        pna.load("x")
    with pytest.raises(TypeError, match="name must be a cell's"):
        pna.load(16)


def test_another_seed_that_is_not_here_is_told_where_it_is_looked_for(shelf):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [7])
    with pytest.raises(
        MissingData, match=f"seed 3 of {NAME} are not here; only those with the lowest .* .seed 7.* {run.weights}: set"
    ):
        pna.load(NAME, seed=3)
    with pytest.raises(ValueError, match=r"seed must be one of 0, 1, .*, 9 of .*, got 10"):
        pna.load(NAME, seed=10)


def test_weights_of_another_configuration_are_refused(shelf):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [0], hash="0")
    with pytest.raises(ValueError, match="holds the weights of another configuration"):
        pna.load(NAME)


def test_altered_weights_are_refused(shelf):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [0])
    data = bytearray(run.shipped.read_bytes())
    data[-5] ^= 1
    run.shipped.write_bytes(data)
    with pytest.raises(ValueError, match="has been altered"):
        pna.load(NAME)
    run.shipped.write_bytes(data[:-7])
    with pytest.raises(ValueError, match="is not a file that this package wrote whole"):
        pna.load(NAME)


def test_the_standard_architecture_has_no_depth_to_choose():
    with pytest.raises(ValueError, match="depth is for the recurrent networks"):
        pna.load("standard/released/pna/16", depth="N/2")


def test_an_unknown_depth_is_told():
    with pytest.raises(ValueError, match=r"depth must be one of N/2, .*; got 'deep'"):
        pna.load("multitask/released/pna/16", depth="deep")


# ---- files of strangers ----


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors, _: tensors.pop("theta"), "does not hold the weights of .*theta"),
        (lambda tensors, _: tensors.pop("validation"), "does not hold the weights of .*validation"),
        (lambda tensors, _: tensors.update(theta=tensors["theta"][:, 1:]), "does not hold the weights of"),
        (lambda tensors, _: tensors.update(theta=tensors["theta"][:0]), "does not hold the weights of"),
        (lambda tensors, _: tensors["theta"][0, :1].fill_(math.nan), "holds weights that are not finite"),
        (lambda _, facts: facts.pop("seeds"), "does not say of which seeds"),
        (lambda _, facts: facts.update(rows=["0"]), "does not say of which seeds"),
        (lambda _, facts: facts.update(rows=[10**400, 1]), "does not hold the weights of"),
    ],
)
def test_weights_that_no_training_wrote_are_refused_in_a_line(shelf, change, words):
    run = shelf.run(NAME)
    shelf.put(run, run.shipped, [0])
    tensors, facts = read_tensors(run.shipped)
    change(tensors, facts)
    write_tensors(run.shipped, tensors, facts)
    with pytest.raises(ValueError, match=words) as refusal:
        pna.load(NAME)
    assert str(run.shipped) in str(refusal.value)

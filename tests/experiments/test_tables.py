"""The frozen tables: every experiment of the paper, its cells, specifications and budgets."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pna.departures import DEPARTURES, SWITCHES
from pna.experiments import (
    EVERY_SPEC,
    EXPERIMENTS,
    PROFILE_NAMES,
    PROFILES,
    SPECS,
    TRAININGS,
    Cell,
    Profile,
    all_cells,
    budgets,
    profile_named,
    profile_of,
    run_of,
)
from pna.experiments.realworld import PROFILES as FIGURE6_PROFILES
from pna.files import hash_of
from pna.multitask import COLLECTIONS, DESCRIBED, RELEASED, Spec
from pna.networks import MODELS, NetworkSpec, build
from pna.networks import RELEASED as RELEASED_NETWORK
from pna.networks.architectures import ARCHITECTURES
from pna.networks.depths import depth_named, varied
from pna.places import repository
from pna.training.store import load

SEVEN = {"pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin"}
DEPTHS = ("depth-diameter", "depth-convergence", "depth-varied")
FOUR = {"pna", "pna-no-scalers", "mpnn-sum", "mpnn-max"}


def needed(experiment, spec):
    return {(cell.training, cell.model, cell.variant) for cell in EXPERIMENTS[experiment].cells(spec)}


def of(training, models, variant="16"):
    return {(training, model, variant) for model in models}


@pytest.mark.parametrize("spec", SPECS)
def test_every_experiment_of_the_paper_is_there(spec):
    eight = SEVEN | {"mean-max-min"}
    larger = of("extrapolation" if spec == "described" else "multitask", SEVEN - {"pna-no-scalers"})
    six = [of(data, FOUR, edges) for data in ("zinc", "cifar10", "mnist") for edges in ("edges", "no-edges")]
    quoted = {"mlp", "mlp-gated", "gcn", "graphsage", "gin", "gat", "monet", "gatedgcn", "diffpool"}
    six += [of(data, quoted, "no-edges") | of(data, {"gatedgcn"}, "edges") for data in ("zinc", "cifar10", "mnist")]
    six += [of("molhiv", {"pna", "pna-no-scalers"}, "no-edges"), of("molhiv", {"gcn", "gin"}, "edges")]
    six = set.union(*six) if spec == "released" else set()
    assert {name: needed(name, spec) for name in EXPERIMENTS} == {
        "figure4": of("multitask", SEVEN),
        "figure5": larger,  # as released it is trained like figure 4, and so not trained again
        "figure6": six,
        "moments": of("multitask", {"pna", *(f"moments-{n}" for n in range(1, 6))}),
        "graph-types": of("multitask", SEVEN),
        "standard": of("multitask", eight) | of("standard", eight),
        "single-task": of("multitask", SEVEN) | of("single-task", SEVEN),
        "parameters": of("multitask", SEVEN) | of("multitask", SEVEN - {"pna"}, "20"),
        "softmax": of("multitask", {"pna", "pna-soft"}),
        "gru": of("multitask", SEVEN) | of("no-gru", SEVEN) if spec == "described" else set(),
        "s2s": of("multitask", SEVEN) | of("mean-readout", SEVEN) if spec == "described" else set(),
        "depth": larger | set.union(*(of(t, {"pna", "mpnn-max", "gin", "mpnn-sum"}) for t in DEPTHS))
        if spec == "described"
        else larger,
        "departures": set(),  # they have specifications of their own
    }


ALONE = EXPERIMENTS["departures"]


def test_each_departure_alone_for_the_models_that_it_touches():
    names = [f"{cell.training}/{cell.spec}/{cell.model}" for spec in ALONE.specs for cell in ALONE.cells(spec)]
    multitask = "D1/pna D2/pna D3/pna D5/pna D5/mpnn-max D6/gat D7/gin D11/pna released-D11/pna init/pna outputs/pna"
    multitask += " D12/moments-3 D12/moments-4 D12/moments-5"
    extrapolation = ["extrapolation/D4/pna", "extrapolation/D4/gin", "extrapolation/D13/gin"]
    assert set(names) == {
        *(f"multitask/{name}" for name in multitask.split()),
        *extrapolation,
        *(f"{depth}/D13/gin" for depth in DEPTHS),
    }
    touching = {d.id for d in DEPARTURES if d.part in ("data", "network", "training")}
    assert touching == {spec for spec in ALONE.specs if not spec.startswith("released")}
    for cell in (cell for spec in ALONE.specs for cell in ALONE.cells(spec)):
        assert cell.trained == cell
        assert cell.spec.startswith("released-") or cell.departures == (cell.spec,)


def test_departures_are_trained_at_the_papers_budget_alone():
    assert ALONE.cells("D1", "quick") == ALONE.cells("D1", "smoke") == ()
    assert ALONE.cells("D1", "paper-300-epochs") == (Cell("multitask", "D1", "pna", "16"),)


def test_every_result_at_the_papers_budget_is_of_an_experiment_or_of_tuning():
    recorded = {Cell.at(path) for path in (repository() / "results" / "paper").rglob("*.json")}
    tuning = {cell for cell in recorded if cell.training in ("tuning", "dropout", "dropout-tuning", "tuned-dropout")}
    assert recorded - tuning <= set(all_cells(EVERY_SPEC))
    assert {cell.model for cell in tuning} <= {cell.model for cell in EXPERIMENTS["figure4"].cells("described")}


def test_both_specifications_are_run():
    assert SPECS == ("described", "released")
    assert {cell.spec for cell in all_cells()} == set(SPECS)
    assert all(cell.spec == "released" for cell in all_cells(("released",)))


def test_a_shared_cell_appears_once():
    cells = list(all_cells())
    assert len(cells) == len(set(cells))
    assert set(cells) == {cell for e in EXPERIMENTS.values() for spec in SPECS for cell in e.cells(spec)}
    shared = Cell("multitask", "released", "pna", "16")
    assert cells.count(shared) == 1
    assert sum(shared in e.cells("released") for e in EXPERIMENTS.values()) > 3


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_experiment_names_a_cell_twice(name):
    cells = EXPERIMENTS[name].cells("released")
    assert len(cells) == len(set(cells))
    assert EXPERIMENTS[name].title
    assert EXPERIMENTS[name].where


@pytest.mark.parametrize("cell", list(all_cells()), ids=str)
def test_a_cell_is_its_name(cell):
    assert Cell.parse(str(cell)) == cell


def test_the_name_of_a_cell():
    assert str(Cell("multitask", "released", "pna", "16")) == "multitask/released/pna/16"
    assert Cell.parse("single-task/D1+D5/gin/20") == Cell("single-task", "D1+D5", "gin", "20")


def test_trainings_name_what_there_is():
    for training in TRAININGS.values():
        assert training.architecture in ARCHITECTURES
        assert {training.collection, *(test.partition("@")[0] for test in training.tests)} <= set(COLLECTIONS)
    assert {name for name, t in TRAININGS.items() if t.single_task} == {"single-task"}
    assert {name for name, t in TRAININGS.items() if t.architecture == "standard"} == {"standard"}
    assert TRAININGS["multitask"].tests[:4] == ("multitask", "multitask-15-24", "redrawn", "families")


def test_described_departs_in_nothing_and_released_in_all():
    described, released = (Cell("multitask", spec, "pna", "16") for spec in SPECS)
    assert (described.data_spec, described.network_spec) == (DESCRIBED, NetworkSpec())
    assert released.data_spec == RELEASED
    assert described.departures == ()
    assert released.departures == ("D1", "D2", "D3", "D5", "D11", "D13", "init", "outputs")


def test_a_switch_for_every_departure_and_a_departure_for_every_switch():
    fields = {d.field for d in DEPARTURES if d.part in ("data", "network")}
    assert fields == {*asdict(Spec()), *asdict(NetworkSpec())}
    assert RELEASED_NETWORK == NetworkSpec(**dict.fromkeys(asdict(NetworkSpec()), True))
    assert [d.id for d in DEPARTURES] == [*(f"D{k}" for k in range(1, 17)), "init", "outputs"]
    assert [d.id for d in DEPARTURES if d.part == "none"] == ["D8", "D9", "D10", "D16"]
    assert [d.id for d in DEPARTURES if d.part == "protocol"] == ["D15"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("departure", [d for d in DEPARTURES if d.part == "network"], ids=lambda d: d.id)
def test_a_configuration_names_a_departure_of_the_network_if_it_touches_the_model(departure, model):
    cell = Cell("multitask", departure.id, model, "16")
    touched = departure.touches("multitask", model)
    assert cell.departures == ((departure.id,) if touched else ())
    if departure.id in ("D5", "D6", "D7", "init", "outputs"):  # seen in the network; D11 and D12 in its numbers
        plain, other = (_network(model, spec) for spec in (NetworkSpec(), NetworkSpec(**{departure.field: True})))
        assert (plain != other) == touched


def _network(model, spec):
    """What a network is: its weights as drawn, and the switches that its modules keep."""
    torch.manual_seed(0)
    network = build(model, 16, spec)
    norms = [m.position_norm for name, m in network.named_modules() if hasattr(m, "position_norm") and "GC" in name]
    swaps = [getattr(m, "swap_extremes", None) for m in network.modules() if hasattr(m, "swap_extremes")]
    uses = {"max", "min"} & {a for m in network.modules() for a in getattr(m, "aggregators", ())}
    pairs = [m.mispaired for m in network.modules() if hasattr(m, "mispaired")]
    weights = {name: t.tolist() for name, t in network.state_dict().items()}
    return weights, norms, swaps if uses else [], pairs, network.nodes.last


def test_data_and_training_have_departures_too():
    assert Cell("multitask", "D3", "gcn", "16").departures == ("D3",)
    assert Cell("extrapolation", "D3", "gcn", "16").departures == ()
    assert Cell("multitask", "D4", "gcn", "16").departures == ()
    assert Cell("extrapolation", "D4+D13", "gcn", "16").departures == ("D4", "D13")


@pytest.mark.parametrize("spec", ["described", "released", "D11", "released-D11"])
def test_delta_is_over_batches_as_released(spec):
    """D11, in the run and in the layers of its network."""
    run = run_of(Cell("multitask", spec, "pna", "16"), PROFILES["smoke"])
    over_nodes, over_batches = run.training_data.degrees, run.training_data.batched_degrees
    assert over_nodes.delta != over_batches.delta
    expected = over_batches if spec in ("released", "D11") else over_nodes
    assert run.degrees == expected
    assert run.network(0).GC_m.conv.combined.delta.item() == pytest.approx(expected.delta)


def test_released_less_a_departure():
    whole, less = (Cell("multitask", spec, "pna", "16") for spec in ("released", "released-D11"))
    assert set(whole.departures) - set(less.departures) == {"D11"}
    assert Cell.parse("multitask/released-D5-D11/pna/16").departures == ("D1", "D2", "D3", "D13", "init", "outputs")
    for wrong in ("described-D11", "released-D8", "released-", "D1-D11"):
        with pytest.raises(ValueError, match="spec m"):
            Cell.parse(f"multitask/{wrong}/pna/16")
    assert "D14" in SWITCHES


def test_what_is_trained_alike_is_trained_once_and_tested_everywhere():
    cell = Cell.parse("extrapolation/released/gin/16")
    assert cell.trained == Cell.parse("multitask/released/gin/16")
    run = run_of(cell.trained, PROFILES["paper"])
    deeper = tuple(f"extrapolation@{rule}" for rule in ("12", "cap", "diameter", "N", "convergence"))
    at_once = ("multitask", "multitask-15-24", "redrawn", "families")
    assert run.collections == (*at_once, "real", "real@cap", "extrapolation", *deeper)
    assert run.collections_needed == (*at_once, "real", "extrapolation")
    assert run_of(cell.trained, PROFILES["quick"]).collections == (*at_once, "extrapolation")
    described = Cell.parse("extrapolation/described/gin/16")
    assert described.trained == described
    assert run_of(described, PROFILES["paper"]).collections == ("extrapolation", *deeper)
    tests = ("multitask", "redrawn", "families", "real", "real@cap")
    assert run_of(Cell.parse("multitask/described/gin/16"), PROFILES["paper"]).collections == tests


@pytest.mark.parametrize("training", DEPTHS)
def test_a_training_with_another_depth_is_another(training):
    """Tested with all depths, its own among them, and no deeper in training than it says."""
    cell = Cell.parse(f"{training}/described/gin/16")
    assert cell.trained == cell
    run, as_published = (run_of(replace(cell, training=t), PROFILES["paper"]) for t in (training, "extrapolation"))
    assert run.collections == ("extrapolation", "extrapolation@N/2", *as_published.collections[1:])
    assert {"depth", "varied"} == set(run.configuration) - set(as_published.configuration)
    assert max(COLLECTIONS["extrapolation"](DESCRIBED)[0].sizes) == 24
    path, longer = (SimpleNamespace(N=N, G=1, diameter=torch.tensor([N - 1]), widest=N - 1) for N in (24, 99))
    in_training = varied(path, torch.tensor(0)) if run.training.varied else depth_named(run.training.depth)(path)
    capped = run.depth("cap")(longer)
    assert in_training.most == run.training.deepest == (capped if isinstance(capped, int) else capped.most)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a cell is named training/spec/model/variant"),
        ("pna", "a cell is named training/spec/model/variant"),
        ("multitask/released/pna", "a cell is named training/spec/model/variant"),
        ("multitask/released/pna/16/1", "a cell is named training/spec/model/variant"),
        ("multitask/released/pna/big", "the number of hidden features must be a multiple of 4"),
        ("multitask/released/pna/-16", "the number of hidden features must be a multiple of 4"),
        ("multitask/released/pna/0", "the number of hidden features must be a multiple of 4"),
        (
            "multitask/released/pna/18",
            "must be a multiple of 4 .*, got '18' in 'multitask/released/pna/18'",
        ),
        ("figure4/released/pna/16", "training in .* must be one of multitask, extrapolation.*'figure4'"),
        ("multitask/released/gnn/16", "model in .* must be one of pna, .*'gnn'"),
        ("multitask/D8/pna/16", "spec must be described, released, .*'D8'"),
        ("multitask/released+D1/pna/16", "spec must be described.*'released' in 'released\\+D1'"),
        ("multitask//pna/16", "spec must be described"),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        Cell.parse(name)


def test_the_paper_profile_is_the_papers_budget():
    assert PROFILES["paper"] == Profile("paper", 10, 10_000, 1, 1, None, patience=1_000, learning_rate=0.003)


def test_profiles_grow():
    smoke, quick, paper = (PROFILES[name] for name in ("smoke", "quick", "paper"))
    assert tuple(PROFILES) == tuple(FIGURE6_PROFILES) == PROFILE_NAMES == tuple(p.name for p in PROFILES.values())
    assert smoke.divisor > quick.divisor > paper.divisor
    assert smoke.seeds <= quick.seeds < paper.seeds
    assert smoke.epochs < quick.epochs < paper.epochs


def test_a_changed_profile_has_a_name_of_its_own():
    paper = PROFILES["paper"]
    assert paper.changed() == paper.changed(seeds=10, epochs=10_000) == paper
    assert paper.changed(epochs=300) == Profile("paper-300-epochs", 10, 300)
    assert paper.changed(seeds=3) == Profile("paper-3-seeds", 3, 10_000)
    assert paper.changed(3, 300).name == "paper-3-seeds-300-epochs"


def test_a_path_says_which_cell_it_is_of():
    names = [*map(str, all_cells()), "multitask/released-D11/pna/16", "multitask/D5/mpnn-max/16"]
    for cell in map(Cell.parse, names):
        for suffix in (".json", ".safetensors"):
            assert Cell.at(Path("anywhere/paper", cell.place).with_suffix(suffix)) == cell
    for other in ("a/b/c.json", "multitask/released/pna.json", "multitask/released/pnx-16.json", "x-16.json"):
        assert Cell.at(Path(other)) is None


def test_budgets_come_the_fullest_first(tmp_path):
    names = ["paper", "paper-3-seeds", "paper-300-epochs", "paper-200-epochs", "quick", "quick-1-seeds", "smoke"]
    for name in (*reversed(names), "paper-backup", "paper-0-epochs", "other"):
        (tmp_path / name).mkdir()
    for cell in (None, Cell.parse("zinc/released/pna/edges")):
        assert [profile.name for profile in budgets(tmp_path, cell)] == names
    assert budgets(tmp_path / "none") == []


# ---- what is recorded ----

RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*/*/*/*.json"))
ARCHIVED = sorted((Path(__file__).parents[2] / "results" / "archive").glob("*/*/*/*.json"))
RELABELLED = [path for path in RESULTS if '\n"relabelled": {' in path.read_text(encoding="utf-8")]
FIRST = ["D1", "D2", "D3", "D4", "D5", "D6", "D7", "init", "outputs"]  # the departures known when the first runs ended


def place(path):
    return "/".join(path.parts[-4:])


@pytest.mark.parametrize("path", RESULTS, ids=place)
def test_a_recorded_result_is_of_the_configuration_that_its_place_says(path):
    result = load(path)
    assert (result.relabelled is not None) == (path in RELABELLED)
    cell = Cell.parse(result.cell)
    profile = profile_named(path.parts[-4], cell)
    assert result.hash == run_of(cell, profile).hash
    assert path == path.parents[3] / profile.name / cell.place
    assert len(result.replicas) == len(result.configuration["seeds"]) * (6 if cell.training == "single-task" else 1)


def test_superseded_results_are_whole_and_no_command_finds_them():
    assert len(ARCHIVED) == 23
    assert {load(path).cell for path in ARCHIVED} <= {str(Cell.at(path)) for path in ARCHIVED}
    names = [profile.name for profile in budgets(ARCHIVED[0].parents[4])]
    assert names == ["planned", "paper", "quick"]


@pytest.mark.parametrize("path", [path for path in RELABELLED if "tuning" in path.parts], ids=place)
def test_a_search_whose_first_label_lacked_D3_is_the_run_that_it_was(path):
    result = load(path)
    first = result.relabelled["configuration"]
    assert hash_of(first) == result.relabelled["hash"]
    assert first["departures"] == [name for name in result.configuration["departures"] if name != "D3"]
    assert first | {"departures": list(Cell.parse(result.cell).departures)} == result.configuration


@pytest.mark.parametrize("path", [path for path in RELABELLED if "tuning" not in path.parts], ids=place)
def test_a_relabelled_result_is_the_run_that_it_was(path):
    """Its first label named all departures known then, also those that do not touch its model; it lacked later ones."""
    result = load(path)
    first = result.relabelled["configuration"]
    assert hash_of(first) == result.relabelled["hash"]
    assert first["departures"] == FIRST
    cell = Cell.parse(result.cell)
    touching = {d.id for d in DEPARTURES if d.touches(cell.training, cell.model)}
    # D13 bears a validation loss that is not finite, and none of these runs had one
    had = [name for name in SWITCHES if name in touching and (name in FIRST or name == "D13")]
    assert list(cell.departures) == had
    assert not any(replica.diverged for replica in result.replicas)
    assert first | {"cell": str(cell), "departures": had} == result.configuration
    assert replace(cell, spec=cell.spec.split("-")[0]) == Cell.parse(result.relabelled["cell"])


@pytest.mark.parametrize(
    ("name", "seeds", "epochs", "profile"),
    [
        ("zinc/released/mlp/no-edges", 4, 1_000, "paper"),
        ("zinc/released/mlp/no-edges", 5, 1_000, "paper-5-seeds"),
        ("molhiv/released/gcn/edges", 10, 100, "paper"),
        ("molhiv/released/gcn/edges", 10, 200, "paper-200-epochs"),
        ("multitask/released/pna/16", 10, 10_000, "paper"),
        ("multitask/released/pna/16", 9, None, "paper-9-seeds"),
    ],
)
def test_a_budget_that_is_the_models_own_is_the_profile(name, seeds, epochs, profile):
    assert profile_of(Cell.parse(name), "paper", seeds, epochs).name == profile

"""The frozen tables: every experiment of the paper, its cells, specifications and budgets."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pna.experiments import EXPERIMENTS, PROFILES, SPECS, TRAININGS, Cell, Profile, all_cells
from pna.multitask import COLLECTIONS, DESCRIBED, RELEASED, Spec
from pna.networks import MODELS, NetworkSpec
from pna.networks import RELEASED as RELEASED_NETWORK
from pna.networks.architectures import ARCHITECTURES
from pna.realworld.models import REAL_PROFILES, RealCell, RealProfile, is_real
from pna.realworld.run import RealRun
from pna.training.cells import CellRun

SEVEN = {"pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin"}
SINGLE = ("D1", "D2", "D3", "D4", "D5", "D6", "D7", "init", "outputs")


def needed(experiment, spec):
    return {(cell.training, cell.model, cell.hidden) for cell in EXPERIMENTS[experiment].cells(spec)}


def of(training, models, hidden=16):
    return {(training, model, hidden) for model in models}


@pytest.mark.parametrize("spec", SPECS)
def test_every_experiment_of_the_paper_is_there(spec):
    eight = SEVEN | {"mean-max-min"}
    assert {name: needed(name, spec) for name in EXPERIMENTS} == {
        "figure4": of("multitask", SEVEN),
        "figure5": of("extrapolation", SEVEN - {"pna-no-scalers"}),
        "moments": of("multitask", {"pna", *(f"moments-{n}" for n in range(1, 6))}),
        "graph-types": of("multitask", SEVEN),
        "standard": of("multitask", eight) | of("standard", eight),
        "single-task": of("multitask", SEVEN) | of("single-task", SEVEN),
        "parameters": of("multitask", SEVEN) | of("multitask", SEVEN - {"pna"}, 20),
    }


def test_both_specifications_are_run():
    assert SPECS == ("described", "released")
    assert {cell.spec for cell in all_cells()} == set(SPECS)
    assert all(cell.spec == "released" for cell in all_cells(("released",)))


def test_a_shared_cell_appears_once():
    cells = list(all_cells())
    assert len(cells) == len(set(cells))
    assert set(cells) == {cell for e in EXPERIMENTS.values() for spec in SPECS for cell in e.cells(spec)}
    shared = Cell("multitask", "released", "pna", 16)
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
    assert cell.model in MODELS


def test_the_name_of_a_cell():
    assert str(Cell("multitask", "released", "pna", 16)) == "multitask/released/pna/16"
    assert Cell.parse("single-task/D1+D5/gin/20") == Cell("single-task", "D1+D5", "gin", 20)


def test_trainings_name_what_there_is():
    for training in TRAININGS.values():
        assert training.architecture in ARCHITECTURES
        assert {training.collection, *training.tests} <= set(COLLECTIONS)
    assert {name for name, t in TRAININGS.items() if t.single_task} == {"single-task"}
    assert {name for name, t in TRAININGS.items() if t.architecture == "standard"} == {"standard"}
    assert TRAININGS["multitask"].tests == ("multitask", "families")


def test_described_departs_in_nothing_and_released_in_all():
    described, released = (Cell("multitask", spec, "pna", 16) for spec in SPECS)
    assert (described.data_spec, described.network_spec) == (DESCRIBED, NetworkSpec())
    assert (released.data_spec, released.network_spec) == (RELEASED, RELEASED_NETWORK)
    assert described.departures == ()
    assert released.departures == SINGLE


def switches(spec):
    """Every field of both specifications, and whether it is as released."""
    cell = Cell.parse(f"multitask/{spec}/pna/16")
    fields = asdict(cell.data_spec) | asdict(cell.network_spec)
    return {name for name, value in fields.items() if value is True or value == "released"}


def test_a_departure_alone_switches_one_thing():
    fields = [switches(departure) for departure in SINGLE]
    assert [len(field) for field in fields] == [1] * len(SINGLE)
    assert set.union(*fields) == switches("released") == {*asdict(Spec()), *asdict(NetworkSpec())}
    assert switches("D1+D6") == switches("D1") | switches("D6") == {"connected", "mispaired_attention"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a cell is named training/spec/model/hidden"),
        ("pna", "a cell is named training/spec/model/hidden"),
        ("multitask/released/pna", "a cell is named training/spec/model/hidden"),
        ("multitask/released/pna/16/1", "a cell is named training/spec/model/hidden"),
        ("multitask/released/pna/big", "a cell is named training/spec/model/hidden"),
        ("multitask/released/pna/-16", "a cell is named training/spec/model/hidden"),
        ("multitask/released/pna/0", "hidden must be a positive multiple of 4"),
        (
            "multitask/released/pna/18",
            "hidden must be a positive multiple of 4 .*, got 18 in 'multitask/released/pna/18'",
        ),
        ("figure4/released/pna/16", "training must be one of multitask, extrapolation.*'figure4'"),
        ("multitask/released/gnn/16", "model must be one of pna, .*'gnn'"),
        ("multitask/D8/pna/16", "spec must be described, released, or departures.*'D8'"),
        ("multitask/released+D1/pna/16", "spec must be described.*'released' in 'released\\+D1'"),
        ("multitask//pna/16", "spec must be described"),
    ],
)
def test_other_names_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        Cell.parse(name)


def test_the_paper_profile_is_the_papers_budget():
    assert PROFILES["paper"] == Profile("paper", 1, 1, seeds=10, epochs=10_000, patience=1_000, learning_rate=0.003)


def test_profiles_grow():
    smoke, quick, paper = (PROFILES[name] for name in ("smoke", "quick", "paper"))
    assert list(PROFILES) == ["smoke", "quick", "paper"] == [p.name for p in PROFILES.values()]
    assert smoke.divisor > quick.divisor > paper.divisor
    assert smoke.seeds <= quick.seeds < paper.seeds
    assert smoke.epochs < quick.epochs < paper.epochs


def test_a_changed_profile_has_a_name_of_its_own():
    paper = PROFILES["paper"]
    assert paper.changed() == paper.changed(seeds=10, epochs=10_000) == paper
    assert paper.changed(epochs=300) == Profile("paper-300-epochs", 1, 1, 10, 300)
    assert paper.changed(seeds=3) == Profile("paper-3-seeds", 1, 1, 3, 10_000)
    assert paper.changed(3, 300).name == "paper-3-seeds-300-epochs"


RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*/*/*/*.json"))


REAL = [path for path in RESULTS if is_real(path.parts[-3])]
SYNTHETIC = [path for path in RESULTS if path not in REAL]


def place(path):
    return "/".join(path.parts[-4:])


@pytest.mark.parametrize("path", SYNTHETIC, ids=place)
def test_a_recorded_result_is_of_the_configuration_that_its_place_says(path):
    facts = json.loads(path.read_text())
    profile, cell = Profile(**facts["configuration"]["profile"]), Cell.parse(facts["cell"])
    assert profile == PROFILES.get(profile.name, profile)
    assert facts["hash"] == CellRun(cell, profile).hash
    assert path == path.parents[3] / profile.name / cell.training / cell.spec / f"{cell.model}-{cell.hidden}.json"


@pytest.mark.parametrize("path", REAL, ids=place)
def test_so_is_one_of_a_real_world_cell(path):
    facts = json.loads(path.read_text())
    profile, cell = RealProfile(**facts["configuration"]["profile"]), RealCell.parse(facts["cell"])
    assert profile == REAL_PROFILES.get(profile.name, profile)
    assert facts["hash"] == RealRun(cell, profile).hash
    assert path == path.parents[3] / profile.name / cell.training / cell.spec / f"{cell.model}-{cell.edges}.json"

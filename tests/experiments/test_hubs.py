"""The scalers beyond the degrees of training: trained small, recorded, resumed, and scored with a cap."""

from dataclasses import replace

import numpy as np
import pytest

from pna.__main__ import main
from pna.experiments import hubs
from pna.experiments.hubs import BINS, CAP, SCALERS, SETTINGS, Settings, scores
from pna.multitask.dataset import SEED, make
from pna.multitask.real import RealSplit
from pna.multitask.specification import DESCRIBED
from pna.training.store import load

SMALL = Settings(hidden=4, layers=2, epochs=2, graphs_per_batch=64, seeds=2)
SPLITS = (RealSplit("train", "train", "train", 40), RealSplit("validation", "validation", "validation", 20))


@pytest.fixture(scope="module")
def data():
    return make(DESCRIBED, SPLITS, SEED)


@pytest.fixture(scope="module")
def parts():
    """The first neighbourhood of each bin."""
    everything = hubs.graph_set(SEED)
    wanted = [int(np.flatnonzero(hubs.bin_of(everything.sizes - 1) == k)[0]) for k in range(len(BINS))]
    return [hubs_part(everything, k) for k in wanted]


@pytest.fixture
def few(data, parts, monkeypatch, tmp_path):
    """Few training graphs, the first neighbourhoods of each bin, and folders of their own."""
    monkeypatch.setattr(hubs, "graph_set", lambda seed: type(parts[0]).joined(parts))
    monkeypatch.setattr(hubs, "cached", lambda *_: data)
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))


def hubs_part(graphs, k):
    nodes = slice(graphs.first_node[k], graphs.first_node[k + 1])
    edges = slice(graphs.first_edge[nodes.start], graphs.first_edge[nodes.stop])
    one = {name: getattr(graphs, name)[[k]] for name in ("sizes", "family", "source", "graph_labels")}
    rows = {name: getattr(graphs, name)[nodes] for name in ("degree", "x", "node_labels")}
    return type(graphs)(**one, **rows, neighbour=graphs.neighbour[edges], maxima=graphs.maxima)


@pytest.mark.parametrize("name", SCALERS)
def test_a_training_is_recorded_with_all_bins_and_is_repeatable(few, name, tmp_path):
    result = hubs.train(name, SMALL)
    path = hubs.path_of(name, SMALL)
    assert load(path).replicas == result.replicas
    assert [replica.seed for replica in result.replicas] == [100, 101]
    assert set(result.replicas[0].test) == {"hubs/{}-{}".format(*pair) for pair in BINS}
    assert not list((tmp_path / "data" / "runs").rglob("hubs-*.json"))  # nothing is left unfinished
    learned = SCALERS[name][1]
    assert [len(layers) for layers in result.facts["exponents"]] == [SMALL.layers * learned] * SMALL.seeds
    path.unlink()
    assert hubs.train(name, SMALL).replicas == result.replicas


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_training(few, monkeypatch):
    blocked = hubs.path_of("none", SMALL).parents[2]
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder must be")
    monkeypatch.setattr(hubs, "_train_seed", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(ValueError, match="is no folder that can be written to"):
        hubs.train("none", SMALL)


@pytest.fixture
def trained(few, monkeypatch):
    """The seeds that are trained once the training of "none" has been interrupted at its second seed."""
    train_seed, seeds = hubs._train_seed, []

    def interrupted(*arguments):
        monkeypatch.setattr(hubs, "_train_seed", counted)
        return train_seed(*arguments)

    def counted(*arguments):
        if not seeds:
            seeds.append("interrupted")
            raise KeyboardInterrupt
        seeds.append(arguments[4])
        return train_seed(*arguments)

    monkeypatch.setattr(hubs, "_train_seed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hubs.train("none", SMALL)
    return seeds


def test_finished_seeds_survive_an_interruption(trained):
    resumed = hubs.train("none", SMALL)
    assert trained == ["interrupted", 101]
    hubs.path_of("none", SMALL).unlink()
    assert hubs.train("none", SMALL).replicas == resumed.replicas


def test_seeds_that_were_tested_on_other_bins_are_trained_again(trained, monkeypatch):
    monkeypatch.setattr(hubs, "BINS", BINS[:-1])
    assert all(len(replica.test) == len(BINS) - 1 for replica in hubs.train("none", SMALL).replicas)
    assert trained == ["interrupted", 100, 101]


def test_exponents_are_learned_only_where_they_should_be(data):
    parameters = {name: dict(hubs.network_of(name, SMALL, data).named_parameters()) for name in SCALERS}
    assert {name for name in SCALERS if any("alpha" in key for key in parameters[name])} == {"learned"}


def test_large_errors_and_explosions_count_as_the_cap(few):
    result = hubs.train("none", replace(SMALL, seeds=1, epochs=1))
    baseline = np.array(result.facts["baseline"])
    name = "hubs/{}-{}".format(*BINS[-1])
    capped = np.log10(CAP * baseline[-1]).mean()
    for value in (1e30, None):
        worse = replace(result.replicas[0], test=result.replicas[0].test | {name: [value] * 3})
        assert scores(replace(result, replicas=(worse,)))[0, -1] == pytest.approx(capped)
    exact = replace(result.replicas[0], test=result.replicas[0].test | {name: baseline[-1].tolist()})
    assert scores(replace(result, replicas=(exact,)))[0, -1] == pytest.approx(np.log10(baseline[-1]).mean())


def test_the_command_prints_a_row_for_each_network(few, capsys):
    assert main(["hubs", "none", "linear", "--epochs", "1", "--seeds", "1", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["none", "linear"]


def test_the_planned_sizes_have_the_planned_seeds():
    assert SETTINGS.seeds == 10
    assert SETTINGS.first_seed == 100
    assert hubs.path_of("linear", SETTINGS).parts[-3:] == ("planned", "hubs", "linear.json")


def test_an_unknown_name_is_refused_in_words(capsys):
    with pytest.raises(SystemExit):
        main(["hubs", "quadratic"])
    assert "none, linear, logarithmic, learned" in capsys.readouterr().err

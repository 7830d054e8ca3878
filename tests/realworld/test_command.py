"""`python -m pna realworld`, and the benchmark."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import realworld as benchmark
from benchmarks.plain_realworld import PlainNetwork
from pna.__main__ import main
from pna.command_line import MISSING_DATA
from pna.experiments import Cell, Figure6Run
from pna.experiments.figure6 import COLUMNS, TITLES
from pna.experiments.realworld import PROFILES
from pna.figures import published
from pna.networks import count_parameters
from pna.realworld.data import storage
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.realworld.networks import Network

ROOT = Path(__file__).parents[2]


def test_show_prints_a_card(folder, capsys):
    assert main(["realworld", "show", "zinc"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ZINC: local, training set unofficial: 3 of 20 rows")
    for word in ("published: 12,000 graphs", "here: 60 graphs", "δ = ", "mean log(d+1)", "label", "sha256"):
        assert word in out
    assert main(["realworld", "show", "molhiv"]) == 0
    out = capsys.readouterr().out
    assert "graphs of label" in out
    assert "fewer than 6 nodes" not in out


def test_a_missing_data_set_has_an_exit_code_of_its_own(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PNA_DATA", str(tmp_path))
    assert main(["realworld", "show", "all"]) == MISSING_DATA == 4
    assert main(["realworld", "prepare", "mnist"]) == MISSING_DATA
    err = capsys.readouterr().err
    assert "ZINC is not here" in err
    assert "MNIST is not here" in err


def test_prepare_to_a_folder(local, tmp_path, capsys):
    pytest.importorskip("rdkit")
    local.zinc(tmp_path / "from")
    arguments = ["realworld", "prepare", "zinc", "--source", str(tmp_path / "from"), "--to", str(tmp_path / "to")]
    assert main([*arguments, "--workers", "1"]) == 0
    assert f"{tmp_path / 'to' / 'realworld' / 'zinc.npz'}: 0.0 MiB" in capsys.readouterr().out


def test_a_damaged_file_is_told_in_words(folder, capsys):
    path = folder / "data" / "realworld" / "zinc.npz"
    path.write_bytes(b"?")
    assert main(["realworld", "show", "zinc"]) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["show", "qm9"], ["show"], ["prepare", "zinc", "--workers", "0"], []])
def test_bad_arguments(arguments):
    with pytest.raises(SystemExit) as stop:
        main(["realworld", *arguments])
    assert stop.value.code == 2


def test_models_prints_every_cell_with_its_parameters(capsys):
    assert main(["realworld", "models"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        f"{data}/released/{model}/{edges}" for data, model, edges in HYPERPARAMETERS
    ]
    assert lines[0].split()[-1] == "94,995"


def test_the_table_marks_what_was_not_run(folder, capsys):
    assert main(["figure6", "--profile", "smoke"]) == 0
    assert capsys.readouterr().out.count("not run") == len(HYPERPARAMETERS)


def test_the_table_has_ours_beside_the_published(folder, capsys):
    cell = "zinc/released/mpnn-max/no-edges"
    options = ["--profile", "smoke", "--device", "cpu"]
    assert main(["train", cell, *options]) == 0
    assert main(["train", cell, *options, "--epochs", "1"]) == 0
    capsys.readouterr()
    for arguments, epochs in (([], 2), (["--epochs", "1"], 1), (["--epochs", "zinc=1"], 1)):
        assert main(["figure6", "--profile", "smoke", *arguments]) == 0
        out = capsys.readouterr().out
        (line,) = (line for line in out.splitlines() if "0.468±0.002" in line)
        assert line.split()[-3:-1] == ["2", str(epochs)]
        assert "not run" not in line
        assert out.endswith("ZINC: the training set is unofficial: 3 of 20 rows are the official molecules\n")
    assert main(["figure6"]) == 0  # the fullest that is recorded
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "0.468±0.002" in line)
    assert line.endswith(" smoke")


def test_published_numbers_are_those_of_the_papers_table(shared):
    path = shared.parent / "paper" / "published.json"
    if not path.exists():
        pytest.skip("the published numbers are not here")
    table = json.loads(path.read_text())["realworld"]
    assert set(table["rows"]) <= set(TITLES.values())
    ours = published.realworld()
    for title, row in table["rows"].items():
        theirs = [None if value is None else value.rstrip("*") for value in row]
        assert [pair and "±".join(map(str, pair)) for pair in ours[title].values()] == [
            text and "±".join(str(float(part)) for part in text.split("±")) for text in theirs
        ]
    assert list(COLUMNS) == table["columns"]


def test_the_package_does_without_rdkit_and_ogb():
    script = """
import sys
import torch, torch_geometric, numpy, networkx
for name in [name for name in sys.modules if name.split(".")[0] in {"scipy", "pandas", "sklearn"}]:
    del sys.modules[name]
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"rdkit", "ogb", "scipy", "sklearn", "pandas"}:
            raise ImportError(f"not there: {name}")
sys.meta_path.insert(0, Hidden())
import pna.realworld.command, pna.experiments.command
print("imported")
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.strip() == "imported", run.stderr


@pytest.mark.parametrize("edges", [[], ["--edges"]])
def test_the_benchmark_compares_both(folder, monkeypatch, capsys, edges):
    options = ["--data", "zinc", "--profile", "smoke", "--batches", "2", "--epochs", "1", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["realworld", *options, *edges])
    benchmark.main()
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    (row,) = facts["rows"]
    ours, plain = row["pna"], row["torch_geometric"]
    assert (ours["runs"], plain["runs"]) == (2, 1)
    assert ours["seconds_per_epoch_and_run"] == ours["seconds_per_epoch"] / 2 > 0
    assert row["ratio"] == plain["seconds_per_epoch_and_run"] / ours["seconds_per_epoch_and_run"]
    assert facts["machine"]["torch"]


def test_the_plain_network_has_our_size(toys):
    for name in benchmark.DATA:
        model = HYPERPARAMETERS[name, "pna", "no-edges"]
        plain = PlainNetwork(model, DATASETS[name], torch.tensor([1, 2, 3]))
        assert count_parameters(plain) == count_parameters(Network(model, DATASETS[name], toys.degrees))


def test_the_benchmark_measures_any_cells_and_reads_a_data_set_once(folder, monkeypatch, capsys):
    loaded, load = [], storage.load
    monkeypatch.setattr(storage, "load", lambda name, **options: loaded.append(name) or load(name, **options))
    cells = ["zinc/released/pna/edges", "molhiv/released/gin/edges", "zinc/released/gcn/no-edges"]
    words = ["realworld", "--cells", *cells, "--profile", "smoke", "--device", "cpu", "--compile-in", "2"]
    monkeypatch.setattr(sys, "argv", words)
    shares = []
    monkeypatch.setattr(benchmark.subprocess, "Popen", lambda words, **_: shares.append(words) or Ended())
    benchmark.main()
    out = capsys.readouterr().out
    facts = json.loads(out.splitlines()[-1])
    assert (facts["benchmark"], facts["left"]) == ("realworld_cells", [])
    assert [row["cell"] for row in facts["rows"]] == [cells[0], cells[2], cells[1]]
    assert loaded == ["zinc", "molhiv"]
    for row in facts["rows"]:
        assert row["seconds_per_epoch"] >= row["steps_per_epoch"] * row["step_seconds"] > 0
        assert row["seconds_per_epoch_and_run"] == row["seconds_per_epoch"] / 2
        assert {*row["set_up"]} == {"read", "move", "first_step"}
        assert f"{row['cell']}  " in out
    assert [words[words.index("--cells") + 1 :] for words in shares] == [[cells[0], cells[2]], [cells[1]]]


class Ended:
    """A process that has nothing to do."""

    def wait(self):
        return 0


def test_the_benchmark_begins_no_cell_that_would_end_too_late(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["realworld", "--cells", "zinc", "--profile", "smoke", "--seconds", "0.0001"])
    benchmark.main()
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(facts["rows"]) + len(facts["left"]) == 18
    assert facts["left"]
    with pytest.raises(ValueError, match="cells must be of figure 6"):
        benchmark.cells_named(["multitask/released/pna/16"])


def test_all_cells_of_the_data_sets_that_are_not_run():
    cells = benchmark.cells_named(["molhiv", "cifar10", "mnist"])
    assert len(cells) == 40
    assert [*dict.fromkeys(cell.training for cell in cells)] == ["molhiv", "cifar10", "mnist"]


def test_an_epoch_is_reckoned_from_its_last_batches(folder, monkeypatch):
    run = Figure6Run(Cell.parse("zinc/released/gcn/no-edges"), PROFILES["smoke"].changed(epochs=4))
    run.model = replace(run.model, batch=2)  # ten batches
    steps, step = [], run.trainer.step
    monkeypatch.setattr(run.trainer, "step", lambda *of: steps.append(1) or step(*of))
    monkeypatch.setattr(benchmark, "CHUNK", 2)
    row = benchmark.time_cell(run, {}, batches=5)
    assert (row["steps_per_epoch"], row["timed_steps"], len(steps)) == (10, 5, 2 + 6)
    assert row["seconds_per_epoch"] >= 10 * row["step_seconds"] > 0

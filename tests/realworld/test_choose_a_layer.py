"""The notebook choose_a_layer in its full form, which the suite executes on a stand-in and in small."""

import json

import pytest

from tests.realworld.conftest import ROOT


@pytest.mark.usefixtures("folder")
def test_it_reads_zinc_and_compares_six_layers_over_seeds(capsys):
    pytest.importorskip("torch_geometric")
    notebook = json.loads((ROOT / "notebooks" / "choose_a_layer.ipynb").read_text(encoding="utf-8"))
    parameters, data, *rest = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code")
    names = {}
    exec(parameters, names)
    names |= {"profile": "paper", "device": "cpu"}
    exec(data, names)
    assert (names["seeds"], names["epochs"]) == (4, 50)
    names |= {"seeds": 2, "epochs": 1}
    for code in rest:
        exec(code, names)
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title == "ZINC: 20 molecules, 1 epochs, 2 seeds, cpu"
    assert header.split() == ["layer", "test", "MAE", "s", "/", "epoch", "MiB", "parameters"]
    assert [row[:16].strip() for row in rows] == ["PNA", "PNA, simple", "EGConv", "GINE", "GCN", "degrees + MLP"]
    for row in rows:
        error, _, deviation, seconds, memory, _ = row[16:].split()
        assert float(error) > 0
        assert float(deviation) > 0
        assert float(seconds) >= 0
        assert memory == "–"

"""`python -m pna models`: the table of models and their parameters."""

import json

import pytest

from pna.networks import MODELS
from pna.networks.command import main


def test_a_table_with_a_line_for_each_model(capsys):
    assert main([]) == 0
    _, header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["model", "in", "the", "paper", "16", "20"]
    assert [line.split()[0] for line in lines] == list(MODELS)
    for line, model in zip(lines, MODELS.values(), strict=True):
        assert f" {model.title} " in line


@pytest.mark.parametrize(
    "line",
    ["pna PNA 8,350 12,726", "pna-no-scalers PNA (no scalers) 7,582 11,606", "mpnn-sum MPNN (sum) 7,294 11,186",
     "gat GAT 6,694 10,286", "mean-max-min mean, max & min 7,486 11,466", "moments-1 1 moment 7,486 11,466"],
)  # fmt: skip
def test_lines_of_the_table(line, capsys):
    main([])
    assert line in [" ".join(printed.split()) for printed in capsys.readouterr().out.splitlines()]


def test_columns_are_aligned(capsys):
    main([])
    _, *lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1


def test_json_is_one_object(capsys):
    assert main(["--json"]) == 0
    models = json.loads(capsys.readouterr().out)
    assert list(models) == list(MODELS)
    assert models["pna"] == {"title": "PNA", "16": 8350, "20": 12726}
    assert models["gin"] == {"title": "GIN", "16": 7272, "20": 11168}
    assert all(list(model) == ["title", "16", "20"] for model in models.values())


@pytest.mark.parametrize("arguments", [["--yaml"], ["pna"], ["--json=1"]])
def test_argparse_refuses(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: pna models" in capsys.readouterr().err


def test_help_exits_0(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "--json" in capsys.readouterr().out

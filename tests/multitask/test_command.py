"""`python -m pna multitask`: make, show, baseline."""

import json

import pytest

from pna.multitask import DESCRIBED, FAMILIES, RELEASED, TASKS, Split, splits
from pna.multitask.command import main
from pna.multitask.storage import cached

SMALL = (
    Split("train", "train", (8, 9), 60),
    Split("validation", "validation", (8,), 20),
    Split("test", "test", (8,), 30),
)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.setitem(splits.COLLECTIONS, "multitask", lambda spec: SMALL)
    monkeypatch.setenv("PNA_DATA", str(tmp_path))
    return tmp_path


def test_make_writes_a_set_with_a_bar(small, capsys):
    assert main(["make", "--spec", "released"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("multitask-released-1234.npz: 170 graphs in 3 splits\n")
    assert "170/170" in err
    assert (small / "multitask" / "multitask-released-1234.npz").exists()


def test_make_into_another_folder(small, capsys):
    assert main(["make", "--spec", "D1+D2", "--seed", "7", "--data", str(small / "other")]) == 0
    assert (small / "other" / "multitask" / "multitask-D1+D2-7.npz").exists()


def test_show_prints_a_card(capsys):
    assert main(["show", "--spec", "described"]) == 0
    card = capsys.readouterr().out
    assert "spec described, seed 1234" in card
    assert f"means over nodes: δ = {cached('multitask', DESCRIBED).degrees.delta:.4f}, mean degree" in card
    for word in (*(family.name for family in FAMILIES), *(task.name for task in TASKS), "labelled connected", "8-9"):
        assert word in card


def test_show_gives_the_delta_that_released_networks_have(capsys):
    """D11."""
    assert main(["show", "--spec", "released"]) == 0
    delta = cached("multitask", RELEASED).batched_degrees.delta
    assert f"means over batches (D11): δ = {delta:.4f}, mean degree" in capsys.readouterr().out


def test_show_draws_the_gallery(small, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    assert main(["show", "--gallery", str(small / "figures" / "families.png")]) == 0
    assert (small / "figures" / "families.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (small / "figures").iterdir()] == ["families.png"]


def test_baseline_as_a_table(capsys):
    assert main(["baseline", "--spec", "released"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "test sizes 8-8" in lines[0]
    assert lines[1] == "labels in units of the released training set's maxima"
    assert [line.rsplit(maxsplit=1)[0] for line in lines[3:]] == [*(task.title for task in TASKS), "Average"]


def test_baseline_as_json(capsys):
    assert main(["baseline", "--spec", "released", "--json"]) == 0
    out, _ = capsys.readouterr()
    row = json.loads(out)
    expected = ["sssp", "eccentricity", "laplacian", "connected", "diameter", "spectral_radius", "average"]
    assert list(row) == expected
    assert all(value < 0 for value in row.values())


def test_baseline_in_other_sizes_and_units(capsys):
    rows = []
    for extra in (["--sizes", "8"], ["--sizes", "10-11"], ["--sizes", "10-11", "--units", "own"]):
        assert main(["baseline", "--spec", "released", "--json", *extra]) == 0
        rows.append(json.loads(capsys.readouterr().out))
    assert len({row["laplacian"] for row in rows}) == 3
    assert rows[1]["connected"] == pytest.approx(rows[2]["connected"])  # its maximum is 1 in both units


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "--spec", "D9"], "spec must be described, released"),
        (["make", "--seed", "-1"], "seed must be from 0"),
        (["make", "--out", "x.npz"], "--out goes with real or hubs"),
        (["make", "--packages", "x"], "--packages goes with real or hubs"),
        (["make", "real", "--seed", "7"], "--seed does not go with real, which is made from packages alone"),
        (["make", "hubs", "--spec", "released"], "--spec does not go with hubs"),
        (["baseline", "--sizes", "big"], "--sizes must be a number of nodes or a range"),
        (["baseline", "--sizes", "24-15"], "--sizes must be a number of nodes or a range"),
        (["baseline", "--sizes", "15-"], "--sizes must be a number of nodes or a range"),
        (["baseline", "--sizes", "1-3"], "N must be at least 2"),
        (["baseline", "--sizes", "1000000"], "N must be less than 65536"),
    ],
)
def test_bad_arguments_are_said_and_exit_2(arguments, message, capsys):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["make", "show", "baseline"])
def test_a_folder_that_cannot_be_written_to_is_said_before_the_work(command, tmp_path, monkeypatch, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder must be")
    monkeypatch.setattr("pna.multitask.storage.make", lambda *_, **__: pytest.fail("the data set was made"))
    assert main([command, "--data", str(blocked / "data")]) == 2
    assert f"could not be written: {blocked} is no folder that can be written to" in capsys.readouterr().err


def test_a_damaged_file_is_said(small, capsys):
    main(["make"])
    (small / "multitask" / "multitask-described-1234.npz").write_bytes(b"PK")
    assert main(["show"]) == 2
    assert "multitask-described-1234.npz is no data set of this package, or it is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["fly"], ["make", "--collection", "all"], ["make", "--seed", "x"]])
def test_argparse_refuses(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2

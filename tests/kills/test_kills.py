"""A slice of the kills, and that they notice what they look for."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kills import rounds
from tests.kills.forked import forks


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    rounds.warm_up(tmp_path_factory.mktemp("warm"))
    return {kind.name: kind for kind in rounds.kinds()}


@forks
@pytest.mark.parametrize(("name", "kills"), [("training", 3), ("sweep", 2), ("data", 3)])
def test_nothing_is_lost_different_or_left_over(kinds, tmp_path, name, kills):
    expected, seconds = rounds.undisturbed(kinds[name], tmp_path / "undisturbed")
    for sooner in range(20):  # on a busy machine a call may end before it is killed: then sooner
        folder = tmp_path / f"killed-{sooner}"
        found = rounds.killed(kinds[name], folder, random.Random(0), kills, expected, seconds / 2**sooner)
        assert (found["lost"], found["different"], found["left over"]) == (0, 0, 0)
        if found["kills"]:
            break
    assert 0 < found["kills"] <= kills


@forks
def test_what_is_lost_different_or_left_over_is_noticed(kinds, tmp_path):
    expected, seconds = rounds.undisturbed(kinds["data"], tmp_path / "undisturbed")
    (path,) = expected
    for words, other in (
        ("lost", expected | {"data/another": b""}),
        ("different", {path: b""}),
        ("left over", {}),
    ):
        found = rounds.killed(kinds["data"], tmp_path / words, random.Random(0), 0, other, seconds)
        assert [word for word, count in found.items() if count] == [words]


@pytest.mark.gpu
def test_on_a_machine_with_a_gpu_what_forks_trainings_runs_in_a_process_that_does_not_see_it():
    root = Path(__file__).parents[2]
    files = ["tests/kills", "tests/experiments/test_side_by_side.py", "tests/experiments/test_mps.py"]
    words = [sys.executable, "-m", "pytest", *files, "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(root)}
    done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

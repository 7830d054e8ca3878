"""Every command and every example of the README runs: on a CPU, without a network, in the order of the text.

A few commands take minutes or need a network, and are replaced:
- ./run_all.sh is called with --help, which it reads after the other options; these are also parsed by workflow/run.py.
  tests/workflow runs them to their end.
- The download of ZINC yields a few molecules in place of torch_geometric's data set.
- `pytest verification` must be one of the suite's own test paths, and is not run twice.
- `python -m verification prove` prints its help; verification/test_prove.py runs it.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest
import torch
import torch_geometric.datasets

from pna.__main__ import main
from verification.__main__ import main as verification

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands(block):
    """The commands of a block, without their comments."""
    lines = (line.split(" #")[0].strip() for line in block.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder like a reader's: a copy of the results, a graph, a module of aggregators."""
    shutil.copytree(ROOT / "results", tmp_path / "results")
    for name in ("results", "figures", "data", "build"):
        monkeypatch.setenv(f"PNA_{name.upper()}", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    nx.write_edgelist(nx.path_graph(20), "graph.edgelist")
    Path("mymodule.py").write_text("def mine():\n    return [sum, max, min, lambda x: sum(v**2 for v in x)]\n")
    monkeypatch.setattr(torch_geometric.datasets, "ZINC", lambda *a, **k: molecules())


def molecules():
    """Three molecules in the format of torch_geometric's ZINC."""
    edge_index = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 0, 3, 2]])
    parts = {"x": torch.zeros(4, 1, dtype=torch.long), "edge_attr": torch.ones(5, dtype=torch.long)}
    return [SimpleNamespace(edge_index=edge_index, y=torch.tensor([y]), **parts) for y in (0.5, 1.5, -0.5)]


def workflow_options():
    sys.path.insert(0, str(ROOT / "workflow"))  # for the modules beside it
    spec = importlib.util.spec_from_file_location("workflow_run", ROOT / "workflow" / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module._parser()


def execute(command):
    """Run a command; python -m pna and python -m verification in this process, which has imported torch already."""
    words = shlex.split(command)
    if words[:3] == ["python", "-m", "pna"]:
        return main(words[3:])
    if words[:4] == ["python", "-m", "verification", "prove"]:
        words.append("--help")
    if words[:3] == ["python", "-m", "verification"]:
        try:
            return verification(words[3:])
        except SystemExit as stop:  # so ends --help
            return stop.code
    if words[0] == "./run_all.sh":
        if words[1:] not in (["test"], ["docs"]):  # which run_all.sh runs itself
            workflow_options().parse_args(words[1:])
        words.append("--help")
    elif words[0] == "pytest":
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
        return 0 if {*words[1:]} <= {*settings["ini_options"]["testpaths"]} else 1
    else:
        raise AssertionError(f"say here how {command!r} is to be run in a test")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.returncode


@pytest.mark.parametrize("block", blocks("bash"), ids=lambda block: commands(block)[0])
def test_every_command_of_a_block_succeeds(place, block):
    assert {command: code for command in commands(block) if (code := execute(command)) != 0} == {}


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: f"{len(block)} characters")
def test_every_example_runs(block):
    exec(compile(block, "README.md", "exec"), {"__name__": "example"})


def test_there_are_commands_of_every_kind():
    found = [command for block in blocks("bash") for command in commands(block)]
    for beginning in ("./run_all.sh", "python -m pna", "pytest verification", "python -m verification"):
        assert any(command.startswith(beginning) for command in found)
    assert blocks("python")


@pytest.mark.parametrize("command", re.findall(r"`(python -m pna [a-z0-9]+)[^`]*`", README))
def test_every_command_named_in_the_text_is_one(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*shlex.split(command)[3:], "--help"])
    assert stop.value.code == 0
    assert "usage:" in capsys.readouterr().out

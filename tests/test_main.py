"""`python -m pna`: the table of subcommands."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import pna
from pna.__main__ import COMMANDS, main


def test_unknown_command_is_said_and_exits_2(capsys):
    assert main(["fly"]) == 2
    err = capsys.readouterr().err
    assert "unknown command 'fly'" in err
    assert all(command.name in err for command in COMMANDS)


def test_no_command_exits_2(capsys):
    assert main([]) == 2
    assert "usage: python -m pna COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_exits_0(flag, capsys):
    assert main([flag]) == 0
    assert "multitask" in capsys.readouterr().out


def test_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pna {pna.__version__}\n"


def test_names_differ_and_modules_exist():
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    assert all(find_spec(command.module) for command in COMMANDS)


def test_as_a_module():
    root = Path(sys.modules["pna"].__file__).parents[1]
    done = subprocess.run([sys.executable, "-m", "pna", "fly"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2
    assert "unknown command 'fly'" in done.stderr

"""`python -m pna`: the table of subcommands."""

import errno
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

import pna
from pna import command_line
from pna.__main__ import COMMANDS, main
from pna.command_line import run_command


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
    out = capsys.readouterr().out
    assert "multitask" in out
    assert "python -m pna COMMAND --help" in out
    assert "python -m pna --version" in out


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


# ---- outputs that take nothing ----

PRINTING = ["--help", "models", "train --list", "results --profile smoke"]
SCRIPT = """
import json, os, sys
import pna.experiments.command, pna.networks.command
from pna.__main__ import main
from pna.command_line import quietly
assert "torch_geometric" not in sys.modules, "its import takes seconds, and only a PNA layer needs it"
import pna.conv  # once, and not in each of the processes below

def run(words, output):
    if (pid := os.fork()) == 0:
        sys.stderr = open("stderr", "w")
        if output == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif output == "closed":
            os.close(1)
            sys.stdout = None
        else:
            ready, end = os.pipe()
            os.dup2(end, 1)
            os.close(ready)
        try:
            code = quietly(lambda: main(words.split()))
            sys.stdout.flush()
        except BaseException as error:
            print("TRACEBACK", type(error), file=sys.stderr)
            code = 99
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [words, output, code, open("stderr").read()]

print(json.dumps([run(words, output) for words in json.loads(sys.argv[1]) for output in ("full", "pipe", "closed")]))
"""


def test_an_output_that_is_full_or_closed_ends_every_command_quietly(tmp_path):
    root = Path(sys.modules["pna"].__file__).parents[1]
    words = [sys.executable, "-c", SCRIPT, json.dumps(PRINTING)]
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    full = "pna: the output cannot be written: No space left on device\n"
    expected = {"full": (1, full), "pipe": (141, ""), "closed": (0, "")}
    for command, output, code, said in json.loads(done.stdout):
        assert (code, said) == expected[output], (command, output)


def test_errors_of_files_are_not_taken_for_errors_of_the_output(capsys):
    def fail():
        raise OSError(errno.ENOSPC, "No space left on device", "a.json")

    assert run_command("train", fail) == 1
    assert capsys.readouterr().err == "pna train: [Errno 28] No space left on device: 'a.json'\n"


def test_ctrl_c_is_130_without_a_traceback(capsys):
    def fail():
        raise KeyboardInterrupt

    assert run_command("claims", fail) == 130
    assert capsys.readouterr().err == "pna claims: stopped\n"


def importing(monkeypatch, error):
    def fail(module):
        raise error

    monkeypatch.setattr("pna.__main__.import_module", fail)


def test_a_package_that_is_not_installed_is_told_with_the_way_to_get_it(monkeypatch, capsys):
    importing(monkeypatch, ModuleNotFoundError("No module named 'matplotlib.axes'", name="matplotlib.axes"))
    assert main(["claims"]) == 2
    assert capsys.readouterr().err == "pna claims: matplotlib is not installed: pip install matplotlib\n"
    importing(monkeypatch, ModuleNotFoundError("No module named 'fcntl'", name="fcntl"))  # as on Windows
    assert main(["claims"]) == 2
    assert capsys.readouterr().err == "pna claims: No module named 'fcntl'\n"


def test_ctrl_c_while_a_command_is_still_imported(monkeypatch, capsys):
    importing(monkeypatch, KeyboardInterrupt())
    assert main(["train", "--list"]) == 130
    assert capsys.readouterr().err == "pna train: stopped\n"


def test_too_little_memory_is_told(capsys):
    def fail():
        raise MemoryError("Unable to allocate 3 TiB")

    assert run_command("show", fail) == 1
    assert capsys.readouterr().err == "pna show: Unable to allocate 3 TiB\n"


@pytest.mark.parametrize("variable", ["PNA_DATA", "PNA_RESULTS"])
def test_a_home_that_is_not_there_is_told(monkeypatch, capsys, variable):
    monkeypatch.setenv(variable, "~nosuchuser/pna")
    assert main(["results", "--profile", "smoke"]) == 2
    message = f"{variable} must name a folder, got '~nosuchuser/pna': no home folder is known for '~nosuchuser' here"
    assert message in capsys.readouterr().err


def test_an_interrupt_that_comes_twice_within_a_second_is_one(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(command_line, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with command_line.Interrupts() as interrupts:
        assert not interrupts()
        for now in (100.0, 100.9):
            clock[0] = now
            signal.raise_signal(signal.SIGINT)
        assert interrupts()
        clock[0] = 101.1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

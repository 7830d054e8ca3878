"""./run_all.sh where there is nothing to do, where it is stopped, and what it leaves in a fresh clone."""

import os
import pty
import re
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from pna.figures.catalogue import NOTEBOOKS
from tests.workflow.conftest import ROOT

sys.path.insert(0, str(ROOT / "workflow"))

import stamp
import start


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A small repository, and the folder that a run wrote to."""
    monkeypatch.setattr(stamp, "ROOT", tmp_path / "repository")
    monkeypatch.setenv("PNA_BUILD", str(tmp_path / "build"))
    for name in ("repository/pna/code.py", "repository/pna/__pycache__/code.pyc", "results/a.json", "build/lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path


def remember(folders, *words, said="done"):
    stamp.remember(list(words), [folders / "results"], said, stamp.environment())


def touch(path):
    os.utime(path, (time.time() + 5,) * 2)


def test_nothing_is_to_be_done_until_something_changes(folders):
    assert stamp.up_to_date([]) is None
    remember(folders)
    assert stamp.up_to_date([]) == stamp.up_to_date(["--dry-run"]) == "done"
    assert stamp.up_to_date(["--profile", "smoke"]) is None
    for change in (
        lambda: touch(folders / "repository" / "pna" / "code.py"),
        lambda: (folders / "repository" / "pna" / "new.py").touch(),
        lambda: (folders / "results" / "a.json").write_text("22"),
        lambda: (folders / "results" / "a.json").unlink(),
    ):
        remember(folders)
        assert stamp.up_to_date([]) == "done"
        change()
        assert stamp.up_to_date([]) is None
    remember(folders)
    touch(folders / "repository" / "pna" / "__pycache__" / "code.pyc")
    touch(folders / "build" / "lock")
    assert stamp.up_to_date([]) == "done"


def test_neither_a_failure_nor_a_damaged_stamp_counts(folders, monkeypatch):
    remember(folders)
    remember(folders, said=None)
    assert stamp.up_to_date([]) is None
    remember(folders)
    next((folders / "build").glob("done-*.json")).write_text("{")
    assert stamp.up_to_date([]) is None
    remember(folders)
    monkeypatch.setenv("PNA_RESULTS", "elsewhere")
    assert stamp.up_to_date([]) is None
    remember(folders, "--", "--forceall")
    assert not list((folders / "build").glob("done-*forceall*"))


def test_it_ends_before_it_imports_anything(folders, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "run", SimpleNamespace(main=lambda arguments: 7))
    assert start.main(["--only", "figure2"]) == 7
    assert capsys.readouterr().out == "Looking for what is to be done: a few seconds.\n"
    remember(folders, "--only", "figure2")
    assert start.main(["--only", "figure2", "--dry-run"]) == 0
    assert capsys.readouterr().out == "Nothing has changed since the last run: nothing to do.\ndone\n"
    remember(folders, "--", "-n")
    assert start.main(["--", "-n"]) == 7


@pytest.mark.parametrize(("words", "seconds"), [(b"Looking for", 0.3), (b"profile ", 0.0)])
def test_ctrl_c_while_it_starts_is_a_sentence(words, seconds, tmp_path):
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"PNA_BUILD": str(tmp_path), "PYTHONPATH": str(ROOT)}
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "workflow/start.py", "--only", "figure2", "--dry-run"])
    said = b""
    while words not in said:
        said += os.read(terminal, 1024)
    time.sleep(seconds)
    os.write(terminal, b"\x03")
    try:
        while data := os.read(terminal, 1024):
            said += data
    except OSError:  # the terminal's other end is closed
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert b"Traceback" not in said
    assert (code, b"Stopped." in said) in ((130, True), (0, False))  # the latter on a machine that was faster


def test_ctrl_c_within_an_import_that_catches_it_is_a_sentence(tmp_path):
    """Libraries do: the exception is lost, and another one is raised where nobody expects it."""
    lines = ["import os, signal", "try:", "    os.kill(os.getpid(), signal.SIGINT)", "    [0 for _ in range(10)]"]
    (tmp_path / "run.py").write_text("\n".join([*lines, "except BaseException:", "    pass", "raise ValueError"]))
    environment = os.environ | {
        "PNA_BUILD": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "workflow"), str(ROOT)]),
    }
    words = [sys.executable, "-P", "-m", "start", "--dry-run"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "\nStopped. The same command goes on where this one was.\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_fresh_clone_is_as_clean_after_a_run_as_before(tmp_path):
    """With two figures, of which each is a notebook, pictures and a page; a whole run is too long for a test."""
    for package in ("papermill", "snakemake"):
        pytest.importorskip(package)
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(clone)], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PNA_")}
    environment |= {"PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PNA_DATA"] = str(tmp_path / "data")  # where no other process writes
    words = [sys.executable, "workflow/start.py", "--only", "figure2,figure3", "--from-results", "--cores", "2"]
    done = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done: notebook figure3" in done.stderr
    again = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True)
    assert again.stdout.startswith("Nothing has changed since the last run: nothing to do.\n"), again.stdout
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert changed.stdout == ""


def test_the_help_names_every_figure_and_notebook():
    text = subprocess.run([ROOT / "run_all.sh", "--help"], capture_output=True, text=True, check=True).stdout
    named = {"figure1 to figure6", *(name for name in NOTEBOOKS if not re.fullmatch(r"figure\d", name))}
    assert all(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for name in named)

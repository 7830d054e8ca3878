import fcntl
import io
import os
import shutil
import signal
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path

import pytest

from pna.experiments import EXPERIMENTS, SPECS, Cell

ROOT = Path(__file__).parents[2]


def copy(function):
    """The id of a copy of this process, with all that is imported, that ends with what the function gives."""
    if (pid := os.fork()) != 0:
        return pid
    code = 99
    try:
        code = function()
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Workflow:
    """run.py with its own folders, and with cells that are recorded already."""

    def __init__(self, folder):
        for module in ("pna.figures.catalogue", "snakemake.cli"):  # once, here, and not in every copy of this process
            import_module(module)
        self.folder = folder
        self.environment = os.environ | {
            "PNA_RESULTS": str(folder / "results"),
            "PNA_FIGURES": str(folder / "figures"),
            "PNA_BUILD": str(folder / "build"),
            "PNA_DATA": str(folder / "data"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *words, **options):
        command = [sys.executable, str(ROOT / "workflow" / "run.py"), *words]
        return subprocess.Popen(command, cwd=ROOT, env=self.environment, text=True, start_new_session=True, **options)

    def run(self, *words):
        """Its exit code and what it said, in a copy of this process, since torch takes seconds to import."""
        said = self.folder / "said"
        return ended(copy(lambda: self._run(said, list(words)))), said.read_text()

    def _run(self, said, words):
        with said.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(n, "w"), write_through=True) for n in (1, 2))
        self._enter()
        import run

        return run.main(words)

    def train(self, *words):
        """The exit code of `python workflow/cell.py …`, in a copy of this process too."""

        def job():
            self._enter()
            import cell

            return cell.main(*words)

        return ended(copy(job))

    def _enter(self):
        """Makes a copy of this process one that was started in the repository."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT / "workflow"))

    def kill(self, process):
        """All of it at once, as when a machine goes down."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for lock in Path(self.environment["PNA_BUILD"]).glob("*/lock"):
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the last of its processes has ended, too

    def result(self, cell, profile):
        return Path(self.environment["PNA_RESULTS"]) / profile.name / cell.place


@pytest.fixture
def workflow(tmp_path):
    pytest.importorskip("snakemake")
    return Workflow(tmp_path)


@pytest.fixture(scope="session")
def two_missing(tmp_path_factory):
    """Toy smoke results for figure graph-types, but for two cells, which train without importing PyTorch Geometric."""
    from tests.figures.conftest import write_result

    folder = tmp_path_factory.mktemp("recorded")
    missing = [Cell.parse(f"multitask/described/{model}/16") for model in ("gcn", "gin")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNA_RESULTS", str(folder / "results"))
        for cell in (cell for spec in SPECS for cell in EXPERIMENTS["graph-types"].cells(spec) if cell not in missing):
            write_result(cell, "smoke")
    return folder / "results", missing


@pytest.fixture
def prepared(workflow, two_missing):
    recorded, cells = two_missing
    shutil.copytree(recorded, workflow.folder / "results")
    return workflow, cells

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pna.experiments import EXPERIMENTS, SPECS

ROOT = Path(__file__).parents[2]


class Workflow:
    """run.py with its own folders, and with cells that are recorded already."""

    def __init__(self, folder):
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
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate(timeout=900)
        return process.returncode, output

    def kill(self, process):
        """All of it at once, as when a machine goes down."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def result(self, cell, profile):
        return Path(self.environment["PNA_RESULTS"]) / profile.name / cell.place


@pytest.fixture
def workflow(tmp_path):
    return Workflow(tmp_path)


@pytest.fixture(scope="session")
def two_missing(tmp_path_factory):
    """Results of the smoke profile for the moments figure, toy ones, with two of its twelve cells missing."""
    from tests.report.conftest import write_result

    folder = tmp_path_factory.mktemp("recorded")
    cells = [cell for spec in SPECS for cell in EXPERIMENTS["moments"].cells(spec)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNA_RESULTS", str(folder / "results"))
        for cell in cells[2:]:
            write_result(cell, "smoke")
    return folder / "results", cells[:2]


@pytest.fixture
def prepared(workflow, two_missing):
    recorded, cells = two_missing
    shutil.copytree(recorded, workflow.folder / "results")
    return workflow, cells

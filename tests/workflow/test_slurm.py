"""The workflow on Slurm: with an sbatch that only writes down how it is called, and with a real Slurm.

The real one is Debian's slurm-wlm on this machine, controller and node on loopback, whose two GPUs are other devices.
"""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pna.experiments import PROFILES
from tests.processes import end
from tests.workflow.conftest import ROOT

CONFIG_FILE = Path("/etc/slurm/slurm.conf")
GPUS_FILE = CONFIG_FILE.with_name("gres.conf")
NO_ACCOUNTS = ("--slurm-status-command", "squeue", "--slurm-no-account")
OURS = "# written by tests/workflow/test_slurm.py"  # left behind by a test that was killed
CONFIG = (
    f"{OURS}\n"
    + """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
)


@pytest.fixture
def slurm(tmp_path):
    """Controller and node daemon, stopped at the end. Jobs read their configuration from its usual place only."""
    for name in ("slurmctld", "slurmd", "sbatch", "squeue"):
        if shutil.which(name) is None:
            pytest.skip("needs Slurm: on Debian, apt-get install slurm-wlm")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    if CONFIG_FILE.exists() and not CONFIG_FILE.read_text().startswith(OURS):
        pytest.skip(f"a Slurm is configured on this machine already: {CONFIG_FILE}")
    folder = tmp_path / "slurm"
    (folder / "spool").mkdir(parents=True)
    (folder / "state").mkdir()
    host = socket.gethostname().split(".")[0]
    memory = int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
    CONFIG_FILE.parent.mkdir(exist_ok=True)
    CONFIG_FILE.write_text(CONFIG.format(folder=folder, host=host, cpus=os.cpu_count(), memory=memory))
    GPUS_FILE.write_text("AutoDetect=off\nName=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
    daemons = [
        subprocess.Popen([name, "-D", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, *words in (("slurmctld", "-c"), ("slurmd", "-N", host))
    ]
    try:
        _wait_for_node(folder)
        yield
    finally:
        CONFIG_FILE.unlink()
        GPUS_FILE.unlink()
        end(*daemons)


def _wait_for_node(folder):
    for _ in range(60):
        states = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True).stdout.split()
        if "idle" in states:
            return
        time.sleep(1)
    logs = "\n".join(path.read_text()[-1000:] for path in folder.glob("*.log"))
    pytest.skip(f"Slurm did not start within a minute: {logs}")


@pytest.mark.usefixtures("slurm")
def test_two_trainings_share_a_job_and_one_without_a_gpu_says_so(prepared, monkeypatch):
    """Trained on the CPU to the end; then on GPUs, which the jobs are given, and which this machine does not have."""
    workflow, cells = prepared
    workflow.environment["CUDA_VISIBLE_DEVICES"] = ""
    hurry(monkeypatch)
    words = ("--profile", "smoke", "--only", "graph-types", "--slurm", "--slice-minutes", "5", "--cores", "2")
    code, output = workflow.run(*words, "--", *NO_ACCOUNTS, "--retries", "0")
    assert code == 1, output
    (job,) = jobs()
    assert re.search(r"TresPerJob=gres[:/]gpu:1 ", job)
    assert "TimeLimit=00:10:00" in job
    assert "Requeue=1" in job
    (log,) = (workflow.folder / "build" / "smoke" / "logs" / "train").glob("*cells from*/**/*.log")
    assert "'cuda' cannot be used here" in log.read_text()

    code, output = workflow.run(*words, "--cpu", "--", *NO_ACCOUNTS)
    assert code == 0, output
    assert "done: notebook graph-types" in output
    for cell in cells:
        assert workflow.result(cell, PROFILES["smoke"]).exists()
    job = jobs()[-1]
    assert "gpu" not in job
    assert "NumCPUs=2" in job


def hurry(monkeypatch):
    """Makes Snakemake ask for jobs every second, not after 5 s, 15 s, 25 s, …; and a failure draws no figure."""
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    monkeypatch.setattr(RemoteExecutor, "sleep", lambda _: asyncio.sleep(1))
    sys.path.insert(0, str(ROOT / "workflow"))
    import run

    train = run._snakemake
    monkeypatch.setattr(run, "_snakemake", lambda *words, partial: 0 if partial else train(*words, partial=partial))


def jobs():
    """What Slurm says of every job, one text each."""
    shown = subprocess.run(["scontrol", "show", "jobs", "--oneliner"], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


# ---- without a Slurm ----

STUB = """#!/bin/sh
printf '%s\\n' "$@" > "{folder}/call-$$"
exit 1
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Commands of Slurm that fail, the submission after it wrote down its words; these, a set for each job."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    for name in ("sbatch", "sinfo", "squeue", "sacct", "sacctmgr", "scontrol", "scancel"):
        path = folder / name
        path.write_text(STUB.format(folder=folder) if name == "sbatch" else "#!/bin/sh\nexit 0\n")
        path.chmod(0o755)
    hurry(monkeypatch)
    return lambda: [set(path.read_text().splitlines()) for path in sorted(folder.glob("call-*"))]


@pytest.mark.parametrize(
    ("words", "asked", "not_asked"),
    [
        ([], {"--gpus=1", "--cpus-per-task=2", "12000"}, "--gres"),
        (
            ["--gres", "gpu:h100:1", "--cells-per-job", "1"],
            {"--gres=gpu:h100:1", "--cpus-per-task=1", "8000"},
            "--gpus",
        ),
        (["--cpu"], {"--ntasks=1", "--cpus-per-task=2"}, "gpu"),
    ],
    ids=["default", "gres", "cpu"],
)
def test_a_login_node_without_a_gpu_asks_for_one(prepared, stub, words, asked, not_asked):
    workflow, cells = prepared
    folder = workflow.folder / "stubs"
    workflow.environment |= {"CUDA_VISIBLE_DEVICES": "", "PATH": f"{folder}:{workflow.environment['PATH']}"}
    options = ("--profile", "smoke", "--only", "graph-types", "--slurm", *words)
    code, output = workflow.run(*options, "--dry-run")
    assert code == 0, output
    devices = {"--gpus": "gpu:h100:1, 1 core, 8 GB", "--gres": "1 GPU, 2 cores, 12 GB", "gpu": "no GPU, 2 cores, 12 GB"}
    assert f"({devices[not_asked]}, 245 minutes)" in output
    divided = json.loads((workflow.folder / "build" / "smoke" / "jobs.json").read_text())
    assert sorted(cell for job in divided for cell in job) == sorted(map(str, cells))
    code, output = workflow.run(*options, "--", *NO_ACCOUNTS, "--retries", "0")
    assert code == 1, output
    calls = stub()
    assert len(calls) == (2 if "--cells-per-job" in words else 1)
    for call in calls:
        assert asked | {"--requeue", "245"} <= call
        assert not [word for word in call - asked if word.startswith(("--gpus", "--gres"))]

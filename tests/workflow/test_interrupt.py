"""Ctrl-C: what run_all.sh started is interrupted once, not twice, whoever got the signal."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.workflow.conftest import ROOT

COUNTS = """
import signal, sys, time
found = []
signal.signal(signal.SIGINT, lambda *_: found.append(1))
print("ready", flush=True)
while not found:
    time.sleep(0.01)
time.sleep(1)
print("interrupts:", len(found), flush=True)
"""
WAITS = f"""
import signal, subprocess, sys
sys.path.insert(0, {str(ROOT / "workflow")!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
import run
run.PATIENCE = {{patience}}
process = subprocess.Popen([sys.executable, "-c", {COUNTS!r}], stdout=subprocess.PIPE, text=True)
wait = process.wait
def ready_and_wait(timeout):
    process.wait = wait
    print(process.stdout.readline(), end="", flush=True)  # "ready": what started it waits for it, too
    return wait(timeout)
process.wait = ready_and_wait
code = run._wait(process)
print(process.stdout.read(), end="")
print("code:", code, flush=True)
"""


def command(patience):
    return [sys.executable, "-c", WAITS.format(patience=patience)]


@pytest.mark.parametrize("alone", [False, True])
def test_at_a_terminal(alone):
    """By Ctrl-C, which goes to both, or by a signal to the one that waits, which then is sent on after its patience."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, command(0.2 if alone else 60))
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 1024)
    if alone:
        os.kill(child, signal.SIGINT)
    else:
        os.write(terminal, b"\x03")
    while b"code: 130" not in said:
        said += os.read(terminal, 1024)
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"interrupts: 1\r\n" in said


def test_without_a_terminal_it_is_sent_on_at_once():
    process = subprocess.Popen(command(60), cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == "interrupts: 1\ncode: 130\n"

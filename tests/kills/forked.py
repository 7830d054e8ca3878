"""Calls in forked processes: no import is paid for them, and what is patched here is patched there."""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
import torch
from tqdm import tqdm

forks = pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="autograd's threads for a GPU do not survive a fork: tests/kills runs this in a process that sees none",
)


class Forked:
    """A call that returns an exit code, in a process of its own, with the face of subprocess.Popen."""

    def __init__(self, call):
        ready, end = os.pipe()
        self.returncode = None
        self.pid = os.fork()
        if self.pid == 0:
            _run(call, end)
        os.close(end)
        self.stdout = os.fdopen(ready, "rb", buffering=0)

    def poll(self):
        return self._status(os.WNOHANG)

    def wait(self, timeout=None):
        end = time.monotonic() + (3600 if timeout is None else timeout)
        while self.poll() is None:
            if time.monotonic() > end:
                raise TimeoutExpired("a forked call", timeout)
            time.sleep(0.005)
        return self.returncode

    def _status(self, options):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def read(self):
        """All it prints, to its end."""
        text = b"".join(iter(lambda: self.stdout.read(2**16), b"")).decode()
        self.stdout.close()
        self.wait()
        return text

    def children(self):
        """The processes that it started and that are alive."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except OSError:
            return []


def _run(call, output):
    """In the new process, as if it had been started from a shell: own session, own signals, own output."""
    code = 99
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (1, 2):
            os.dup2(output, number)
        os.close(output)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        tqdm.set_lock(threading.RLock())  # its own is shared by all forks: one that is killed may hold it for ever
        code = call()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

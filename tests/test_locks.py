"""A lock says who holds it, and ends with its process."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from pna.locks import locked, new_beside, remove_left_over


@contextmanager
def holder(path):
    """A process that holds the lock of a file until it is killed."""
    ready, started = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            with locked(path, "here"):
                os.write(started, b".")
                signal.pause()
        finally:
            os._exit(1)
    os.close(started)
    assert os.read(ready, 1)
    os.close(ready)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_it_is_gone_with_the_block(tmp_path):
    for _ in range(2):
        with locked(tmp_path / "new" / "a", "making it"):
            assert os.listdir(tmp_path / "new") == [".a.lock"]
        assert os.listdir(tmp_path / "new") == []


def test_another_process_is_named_and_its_lock_left_alone(tmp_path):
    with holder(tmp_path / "a") as pid:
        with (
            pytest.raises(BlockingIOError, match=rf"^process {pid} is making it at this moment$"),
            locked(tmp_path / "a", "making it"),
        ):
            pytest.fail("two have it")
        remove_left_over(tmp_path / "a")
        assert os.listdir(tmp_path) == [".a.lock"]
        with locked(tmp_path / "b", "making it"):  # another file's
            pass


def test_a_killed_one_is_in_nobodys_way(tmp_path):
    with holder(tmp_path / "a"):
        pass
    assert os.listdir(tmp_path) == [".a.lock"]
    with locked(tmp_path / "a", "making it"):
        pass
    assert os.listdir(tmp_path) == []


def test_waiting_ends_when_the_other_does(tmp_path):
    waited = []
    with holder(tmp_path / "a") as pid:
        with locked(tmp_path / "a", "making it", lambda: waited.append(1) or os.kill(pid, signal.SIGKILL)):
            assert waited
        assert os.listdir(tmp_path) == []


def test_waiting_can_be_given_up(tmp_path):
    def tired():
        raise TimeoutError

    with holder(tmp_path / "a"), pytest.raises(TimeoutError), locked(tmp_path / "a", "making it", tired):
        pytest.fail("two have it")


def test_one_at_a_time_of_many(tmp_path):
    """Each of eight processes reads a number and writes the next, many times."""
    (tmp_path / "n").write_text("0")
    children = []
    for _ in range(8):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                for _ in range(10):
                    with locked(tmp_path / "a", "counting", lambda: None):
                        (tmp_path / "n").write_text(str(int((tmp_path / "n").read_text()) + 1))
                    remove_left_over(tmp_path / "a")
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 8
    assert (tmp_path / "n").read_text() == "80"
    assert os.listdir(tmp_path) == ["n"]


UNGUARDED = """
import multiprocessing, sys
from pathlib import Path
from pna.locks import locked
with locked(Path(sys.argv[1]), "making it", waiting=lambda: None):
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
print("the end", process.exitcode)
"""


def test_a_process_does_not_wait_for_the_one_that_started_it(tmp_path):
    """A script whose work is not under `if __name__ == '__main__'` is read again by each process that it starts."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    command = [sys.executable, str(script), str(tmp_path / "a")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout.split("\n")[-2] == "the end 1"
    assert "making it: its new processes read your script again" in done.stderr


@pytest.fixture
def just_before_a_lock(monkeypatch):
    """Let something happen once, between the opening of a file and its lock."""

    def arrange(happens):
        flock, left = fcntl.flock, [happens]

        def after_all(file, how):
            while left:
                left.pop()()
            flock(file, how)

        monkeypatch.setattr(fcntl, "flock", after_all)

    return arrange


def test_a_new_file_that_is_taken_for_left_over_is_made_again(tmp_path, just_before_a_lock):
    removed = []

    def take():
        removed.extend(tmp_path.iterdir())
        removed[0].unlink()

    just_before_a_lock(take)
    handle, path = new_beside(tmp_path / "x.json")
    os.close(handle)
    assert len(removed) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_what_has_taken_the_place_of_something_left_over_stays(tmp_path, just_before_a_lock):
    left = tmp_path / ".x.json.lock"
    left.touch()

    def replace():
        left.unlink()
        left.write_text("another's")

    just_before_a_lock(replace)
    remove_left_over(tmp_path / "x.json")
    assert left.read_text() == "another's"


# ---- a file system without locks ----


@pytest.fixture
def without_locks(monkeypatch):
    """An flock that answers as on a file system without locks."""

    def arrange(number):
        def flock(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)

    return arrange


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_where_there_are_no_locks_the_work_is_done_with_a_warning(tmp_path, without_locks, number):
    without_locks(number)
    with pytest.warns(UserWarning, match=r"has no locks: two processes may do the same work"):  # noqa: SIM117
        with locked(tmp_path / "a", "making it"):
            assert os.listdir(tmp_path) == [".a.lock"]
    assert os.listdir(tmp_path) == []
    handle, path = new_beside(tmp_path / "a")
    os.close(handle)
    remove_left_over(tmp_path / "a")  # whether another process writes it, nobody knows
    assert path.exists()


def test_an_error_of_the_lock_is_raised_and_no_file_left_open(tmp_path, without_locks):
    without_locks(errno.EIO)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="Input/output error"), locked(tmp_path / "a", "making it"):
        pytest.fail("it is not locked")
    assert len(os.listdir("/dev/fd")) == before

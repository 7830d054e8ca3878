"""Processes that a test has started."""

import subprocess


def end(*processes):
    """Asks them to end, and ends those that do not within a minute."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

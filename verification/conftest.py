"""Leave the tests of verification/ out where python-flint is not installed."""

import importlib.util

# Almost all of it computes with python-flint's exact numbers and balls; a machine for GPU work alone may lack them.
collect_ignore_glob = [] if importlib.util.find_spec("flint") else ["test_*.py"]


def pytest_report_header():
    """A line in the header of pytest if the tests of verification/ are left out."""
    return ["verification/ is left out: python-flint is not installed"] if collect_ignore_glob else []

import importlib.util

# Almost all of it computes with python-flint's exact numbers and balls; a machine for GPU work alone may lack them.
collect_ignore_glob = [] if importlib.util.find_spec("flint") else ["test_*.py"]


def pytest_report_header():
    return ["verification/ is left out: python-flint is not installed"] if collect_ignore_glob else []

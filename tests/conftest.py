import gc
import importlib.util
import os
import signal
import sys

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the suite runs one process per core


def only_hands_out_tests():
    """Whether this process is called with -n, and leaves the tests to its workers: they need torch, it does not."""
    after = sys.argv[sys.argv.index("-n") + 1 :] if "-n" in sys.argv else []
    return "PYTEST_XDIST_WORKER" not in os.environ and after[:1] not in ([], ["0"])


def prepare():
    """Imports what the tests run on, which takes seconds, and sets it up."""
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; Triton reads it when it is imported first

    import hypothesis

    if not torch.cuda.is_available() and importlib.util.find_spec("triton"):
        from tests import interpreter

        interpreter.quicken()
    hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
    hypothesis.settings.load_profile("fixed")


if not only_hands_out_tests():
    prepare()

# A machine for GPU work alone may lack these packages: there the files are left out, and the header says so.
NEEDS = {
    "figures/test_collisions.py": "jupyter_client",
    "figures/test_notebooks.py": "jupytext",
    "test_hosted.py": "flint",
    "test_package.py": "hatchling",
    "test_readme.py": "flint",
    "workflow/test_metadata.py": "rocrate",
    "workflow/test_page.py": "mistune",
    "workflow/test_progress.py": "snakemake_interface_logger_plugins",
    "workflow/test_run.py": "snakemake",
    "workflow/test_site.py": "mkdocs",
}
collect_ignore = [file for file, package in NEEDS.items() if importlib.util.find_spec(package) is None]


@pytest.fixture(autouse=True)
def _start_afresh():
    import torch

    torch.manual_seed(0)
    if "torch._dynamo" in sys.modules:  # a function that was compiled often, by any tests, is refused with fullgraph
        torch.compiler.reset()


@pytest.fixture
def device():
    """Where the kernels run: on a GPU where there is one, else in Triton's interpreter."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def pytest_configure(config):
    if only_hands_out_tests() and not config.getoption("numprocesses", None):  # --pdb overrides -n
        prepare()
    gc.disable()  # until all tests are collected: what is imported stays
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    return [f"tests/{file} is left out: {NEEDS[file]} is not installed" for file in collect_ignore]


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


LONGEST = ("tests/workflow/", "verification/test_prove.py")  # come first: at the end they would leave a core idle


def pytest_collection_modifyitems(items):
    import torch

    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if not torch.cuda.is_available():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))

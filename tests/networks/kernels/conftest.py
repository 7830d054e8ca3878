"""The network's kernels run on a GPU where there is one; else in Triton's interpreter and the emulation of CUDA."""

import shutil

import pytest
import torch

from pna.kernels import selection
from pna.networks.kernels import head, packing, recurrence, set2set
from tests.networks.kernels import emulation

H200 = (232_448, 233_472)  # bytes of shared memory of a block and of a multiprocessor


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA kernels, wherever the tensors are."""
    if torch.cuda.is_available():
        return
    if shutil.which("g++") is None:
        pytest.skip("the emulation of CUDA needs a C++ compiler")
    for module in (recurrence, set2set, head):
        monkeypatch.setattr(module, "available", lambda x: True)
        monkeypatch.setattr(module, "shared_memory", lambda device: H200)
    for module in (recurrence, set2set):
        monkeypatch.setattr(module, "compiled", emulation.compiled)
    monkeypatch.setattr(packing, "BLOCK", 1024)  # the interpreter is quicker with few programs
    monkeypatch.setattr(packing, "PARTS", 8)


@pytest.fixture
def kernels(cuda, monkeypatch):
    """All the network's kernels, wherever the tensors are, unless the plain-torch twins are asked for."""
    if not torch.cuda.is_available():
        monkeypatch.setattr(selection, "usable", lambda t: not selection.is_plain())

"""Where CUDA kernels can be compiled; everywhere else the networks use their plain-torch twins."""

from types import SimpleNamespace

import pytest
import torch

from pna.networks.kernels import head, nvrtc, recurrence, set2set

GPU = SimpleNamespace(is_cuda=True, device=torch.device("cuda", 0))


@pytest.fixture
def hopper(monkeypatch):
    """A machine with an H200, as far as `available` asks."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "_compile_kernel", lambda *_, **__: None, raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


def test_an_nvidia_gpu_with_tensor_cores_and_a_compiler_will_do(hopper):
    assert nvrtc.available(GPU)


def test_nothing_is_compiled_without_pytorchs_compiler(hopper, monkeypatch):
    monkeypatch.delattr(torch.cuda, "_compile_kernel")
    assert not nvrtc.available(GPU)


def test_nothing_is_compiled_for_another_maker_an_older_gpu_or_a_cpu(hopper, monkeypatch):
    assert not nvrtc.available(torch.ones(1))
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
        assert not nvrtc.available(GPU)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert not nvrtc.available(GPU)


@pytest.mark.parametrize("module", [recurrence, set2set, head])
def test_every_network_kernel_asks(module):
    assert module.available is nvrtc.available

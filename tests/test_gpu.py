"""What must also hold on a CUDA device: the CPU's numbers, the same bits again, recording, resuming, many processes."""

import os
import subprocess
import sys

import pytest
import torch

from pna import Neighbourhoods, PNAConv
from pna.aggregators import AGGREGATORS
from pna.dispatch import aggregate
from pna.experiments import Cell, MultiTaskRun, Profile
from pna.training.store import load

pytestmark = pytest.mark.gpu

NAMES = [*AGGREGATORS, "moment3", "moment4", "moment5"]


def graph(N=500, E=4000):
    target = torch.randint(0, N - 20, (E,))  # the last twenty nodes stay empty
    target[: E // 4] = 3  # and one is a hub
    return torch.stack([torch.randint(0, N, (E,)), target]), N


def gradients(device, edge_index, tensors, g):
    neighbourhoods = Neighbourhoods.of(edge_index.to(device), len(tensors[0]))
    tensors = [t.to(device).requires_grad_() for t in tensors]
    out = aggregate(neighbourhoods, NAMES, *tensors)
    return [t.cpu() for t in (out, *torch.autograd.grad(out, tensors, g.to(device)))]


@pytest.mark.parametrize("channels", [(1,), (7,), (3, 16)])
def test_aggregation_equals_the_cpus_and_itself(channels):
    edge_index, N = graph()
    tensors = [torch.randn(n, *channels, dtype=torch.double) for n in (N, edge_index.shape[1], N)]
    g = torch.randn(N, *channels[:-1], len(NAMES), channels[-1], dtype=torch.double)
    on_cpu, once, again = (gradients(device, edge_index, tensors, g) for device in ("cpu", "cuda", "cuda"))
    for a, b, c in zip(on_cpu, once, again, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)
        assert torch.equal(b, c)


def layer():
    deg = torch.tensor([1, 5, 8, 4, 2])
    return PNAConv(16, 16, ["mean", "std", "max", "min"], ["identity", "amplification", "attenuation"], deg, towers=4)


@pytest.mark.parametrize("compiled", [False, True])
def test_layer_equals_the_cpus(compiled):
    edge_index, N = graph()
    conv, x = layer(), torch.randn(N, 16)
    expected = conv(x, edge_index)
    conv = torch.compile(conv.cuda(), fullgraph=True) if compiled else conv.cuda()
    torch.testing.assert_close(conv(x.cuda(), edge_index.cuda()).cpu(), expected, rtol=1e-4, atol=1e-5)


def test_layer_is_recorded_and_replayed():
    edge_index, N = graph()
    conv, x = layer().cuda(), torch.randn(N, 16, device="cuda")
    neighbourhoods = Neighbourhoods.of(edge_index.cuda(), N)
    expected = conv(x, neighbourhoods)
    recording = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(recording):
        out = conv(x, neighbourhoods)
    x.mul_(2)
    recording.replay()
    torch.testing.assert_close(out, conv(x, neighbourhoods))
    assert not torch.allclose(out, expected)


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_kernels_launch_where_the_tensors_are(edge_dim):
    """The current device may be another, in the forward and the backward pass."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    edge_index, N = graph()
    conv = PNAConv(16, 16, ["mean", "std", "max", "moment3"], ["identity"], edge_dim=edge_dim)
    x, edge = torch.randn(N, 16), () if edge_dim is None else (torch.randn(edge_index.shape[1], edge_dim),)
    results = []
    for device in ("cpu", "cuda:1"):
        conv, there = conv.to(device), x.detach().to(device).requires_grad_()
        with torch.cuda.device(0):
            out = conv(there, edge_index.to(device), *(e.to(device) for e in edge))
            results.append((out.detach().cpu(), torch.autograd.grad(out.square().sum(), there)[0].cpu()))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)


def test_tensors_on_two_devices_are_named():
    edge_index, N = graph()
    with pytest.raises(ValueError, match="x and the layer's weights must be on one device, got cpu and cuda"):
        layer().cuda()(torch.randn(N, 16), edge_index)
    with pytest.raises(ValueError, match="edge_index and x must be on one device, got cpu and cuda"):
        layer().cuda()(torch.randn(N, 16, device="cuda"), edge_index)


@pytest.mark.parametrize("model", ["pna", "gat", "gin"])
def test_training_follows_the_cpus_and_resumes_to_the_bit(model, monkeypatch, tmp_path):
    cell = Cell.parse(f"multitask/released/{model}/8")
    profile = Profile("tiny", seeds=3, epochs=6, size_step=5, divisor=64)
    runs = {}
    for name, device, stops in (("cpu", "cpu", 0), ("whole", "cuda", 0), ("parts", "cuda", 3)):
        monkeypatch.setenv("PNA_DATA", str(tmp_path / name))
        for _ in range(stops):  # a deadline in the past: one epoch each
            assert not MultiTaskRun(cell, profile, device, torch.float64).train(deadline=0.0)
        runs[name] = MultiTaskRun(cell, profile, device, torch.float64)
        assert runs[name].train()
    for name, t in runs["whole"].replicas.tensors().items():
        assert torch.equal(t, runs["parts"].replicas.tensors()[name]), name
    curves = {name: torch.stack(run.curves) for name, run in runs.items()}
    assert torch.equal(curves["whole"], curves["parts"])
    torch.testing.assert_close(curves["whole"][..., 0], curves["cpu"][..., 0], rtol=1e-5, atol=1e-8)


def test_a_cell_has_the_same_bits_alone_and_side_by_side(tmp_path):
    """Each in its own process, under MPS where it is available."""
    cells = ["multitask/described/pna/16", "multitask/described/gcn/16", "multitask/released/gat/16"]

    def replicas(folder, *words):
        environment = os.environ | {"PNA_RESULTS": str(tmp_path / folder), "PNA_DATA": str(tmp_path / f"{folder}-data")}
        words = [sys.executable, "-m", "pna", "train", *words, "--profile", "smoke", "--device", "cuda"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (result,) = (tmp_path / folder).rglob("described/pna-16.json")
        return load(result).replicas

    assert replicas("together", *cells, "--side-by-side", "3") == replicas("alone", cells[0])

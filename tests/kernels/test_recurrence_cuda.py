"""The CUDA kernels, emulated on the CPU, against Triton's."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import Linear, ModuleDict

from pna import Neighbourhoods, PNAConv
from pna.kernels import recurrence, recurrence_cuda

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="they run on the GPU, in test_recurrence.py"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler"),
]

HIDDEN, TOWERS, LAYERS = 16, 4, 2
THREE = ["identity", "amplification", "attenuation"]


class Emulated:
    """Launched like the kernel it emulates, for CPU tensors."""

    def __init__(self, kernel, folder):
        self.kernel, self.folder = kernel, folder

    def __getitem__(self, grid):
        def launch(*arguments, **constants):
            run = library(self.folder, self.kernel.defines(constants), self.kernel.name)
            shared = self.kernel.shared_memory(constants)
            run(*grid, 32 * self.kernel.warps, shared, *(pointer(a) for a in arguments))

        return launch


def pointer(a):
    return ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_int(a)


@cache
def library(folder, defines, name):
    """The kernel compiled for the CPU: run(programs, replicas, threads, bytes of shared memory, arguments…)."""
    source = folder / f"{name}_{abs(hash(defines))}.cpp"
    kernels = Path(recurrence_cuda.__file__).parent
    signature = (kernels / "recurrence.cu").read_text().split(f") {name}(")[1].split(") {")[0]
    names = ", ".join(part.replace("*", " ").split()[-1] for part in signature.split(","))
    source.write_text(
        f'#include "emulated.h"\n#include "recurrence.cu"\n'
        f'extern "C" void run(int programs, int replicas, int threads, int shared, {signature}) {{\n'
        f"  launch([=] {{ {name}({names}); }}, programs, replicas, threads, shared);\n}}\n"
    )
    includes = [f"-I{Path(__file__).parent}", f"-I{kernels}"]
    built = source.with_suffix(".so")
    options = ["-std=c++20", "-O1", "-w", "-fPIC", "-shared", *includes, *defines]
    subprocess.run(["g++", *options, str(source), "-o", str(built)], check=True)
    return ctypes.CDLL(str(built)).run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("emulated")


@pytest.fixture
def emulated(monkeypatch, folder):
    """Two blocks for each replica, so that sums over blocks are seen."""
    kernels = {name: Emulated(getattr(recurrence_cuda, name), folder) for name in recurrence_cuda.ORDER}

    def use():
        monkeypatch.setattr(recurrence, "_kernels", lambda x, H: SimpleNamespace(**kernels))
        monkeypatch.setattr(recurrence, "_programs", lambda R, V: 2)

    return use


def random_graph(N, E):
    """Undirected, with edges that appear twice; the last node has no neighbour."""
    ends = torch.randint(0, N - 1, (2, E))
    return Neighbourhoods.of(torch.cat([ends, ends.flip(0)], dim=1), N)


class Network(torch.nn.Module):
    def __init__(self, aggregators, scalers, towers, swapped):
        super().__init__()
        deg = torch.tensor([1, 4, 6, 5])
        options = {"deg": deg, "towers": towers, "swap_extremes": swapped}
        self.first = PNAConv(2, HIDDEN, aggregators, scalers, **options)
        self.shared = PNAConv(HIDDEN, HIDDEN, aggregators, scalers, divide_input=towers > 1, **options)
        self.gates = ModuleDict({"input": Linear(HIDDEN, 3 * HIDDEN), "state": Linear(HIDDEN, 3 * HIDDEN)})

    def forward(self, x, graph):
        ends = graph.ptr.int(), graph.source.int()
        return recurrence.recurrence(x, ends, self.first, self.shared, self.gates, LAYERS)


def results(networks, x, graph, g):
    """The states and the gradients of all parameters, for two replicas."""
    parameters, buffers = stack_module_state(networks)
    out = vmap(lambda *weights: functional_call(networks[0], weights, (x, graph)))(parameters, buffers)
    return [out.detach(), *torch.autograd.grad(out, list(parameters.values()), g)]


@pytest.mark.parametrize(
    ("aggregators", "scalers", "towers", "swapped"),
    [
        ("mean std max min", THREE, TOWERS, True),
        ("max mean min sum std", THREE, TOWERS, False),
        ("sum max", ["identity"], 1, True),
    ],
)
def test_same_as_triton(aggregators, scalers, towers, swapped, emulated):
    torch.manual_seed(0)
    N = 83  # more than a tile of nodes, and not a multiple of it
    graph = random_graph(N, 160)
    networks = [Network(aggregators.split(), scalers, towers, swapped) for _ in range(2)]
    x = torch.zeros(N, HIDDEN)
    x[:, :2] = torch.randn(N, 2).round()  # so that extremes are tied
    g = torch.randn(2, N, HIDDEN)
    expected = results(networks, x, graph, g)
    emulated()
    for mine, theirs in zip(results(networks, x, graph, g), expected, strict=True):
        assert (mine - theirs).norm() <= 2e-6 * theirs.norm()

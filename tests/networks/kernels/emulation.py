"""CUDA kernels on the CPU: compiled by g++, a block's threads as fibers that take turns (emulated.h)."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from pna.networks.kernels import nvrtc

HERE, KERNELS = Path(__file__).parent, Path(nvrtc.__file__).parent
COMPILER = (
    *("g++", "-std=c++17", "-w", "-shared", "-fPIC", f"-I{HERE}", f"-I{KERNELS}"),
    *("-O0", "-fno-exceptions", "-fno-asynchronous-unwind-tables"),  # a kernel takes longer to compile than to run
    *("-nostdinc++", "-nodefaultlibs"),  # and nothing of C++'s library is read
    "-U_FORTIFY_SOURCE",  # which forbids jumps from one stack to another
)
MOST_STATIC = 48 * 1024  # bytes of shared memory that a block may have without asking


def compiled(sources, name, options, shared, device):
    """What pna.networks.kernels.nvrtc.compiled is, for CPU tensors."""
    run = _library(sources, name, options)

    def launch(grid, block, arguments):
        run(grid[0], grid[1], block[0], shared or MOST_STATIC, *(_pointer(a) for a in arguments))

    return launch


def _pointer(a):
    return ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else ctypes.c_int(a)


@cache
def _library(sources, name, options):
    """run(programs, replicas, threads, bytes of shared memory, arguments…)."""
    signature = (KERNELS / sources[-1]).read_text().split(f") {name}(")[1].split(") {")[0]
    names = ", ".join(part.replace("*", " ").split()[-1] for part in signature.split(","))
    included = "".join(f'#include "{file}"\n' for file in ("emulated.h", nvrtc.HEADER, *sources))
    text = (
        f'{included}extern "C" void run(int programs, int replicas, int threads, int shared, {signature}) {{\n'
        f"  launch([=] {{ {name}({names}); }}, programs, replicas, threads, shared);\n}}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        source.write_text(text)
        subprocess.run([*COMPILER, *options, source, "-lm", "-lc", "-o", built], check=True)
        return ctypes.CDLL(str(built)).run

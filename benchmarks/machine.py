"""What a benchmark's JSON line says of the machine and of the versions that it ran on."""

import platform
from importlib.metadata import version
from pathlib import Path

import torch

__all__ = ["describe"]


def describe() -> dict[str, str | int]:
    """Device, threads and versions."""
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")},
    }


def _processor() -> str:
    """The processor's own name where the system tells it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else f"{platform.system()} {platform.machine()}"

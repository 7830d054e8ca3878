"""Fused GPU kernels in Triton; each has a plain-torch twin, its oracle, that serves wherever there is no GPU."""

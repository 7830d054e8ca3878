"""The operator's GPU kernels, in Triton; each has a plain-torch twin, its oracle, which is used without a GPU."""

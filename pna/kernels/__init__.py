"""The operator's GPU kernels, in Triton; each has a plain-torch twin, its oracle, that serves without a GPU."""

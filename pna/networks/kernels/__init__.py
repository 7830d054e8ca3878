"""The multi-task network's GPU kernels, in Triton and CUDA; their plain-torch twins and oracles are in pna/networks."""

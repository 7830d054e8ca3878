"""Figure 6's GPU kernels, in Triton; their plain-torch twins and oracles are in pna/realworld."""

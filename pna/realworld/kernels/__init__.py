"""GPU kernels of figure 6's networks, one file for each operation; every one has a plain-torch twin."""

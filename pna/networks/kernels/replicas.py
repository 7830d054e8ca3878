"""Moved to pna.kernels.replicas."""

from pna.kernels.replicas import graph_of_replicas, replicated, rows_of_replicas

__all__ = ["graph_of_replicas", "replicated", "rows_of_replicas"]

"""Training of many seeds at once: trainer, cells with checkpoints, and the store of results."""

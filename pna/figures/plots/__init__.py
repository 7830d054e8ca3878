"""The drawing code of each figure: from runs to a matplotlib Figure and the numbers in it."""

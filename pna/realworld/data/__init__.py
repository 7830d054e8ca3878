"""The data sets of figure 6: read from local files or public downloads, and kept as one prepared file each."""

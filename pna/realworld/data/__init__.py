"""The data sets of figure 6: local files or public downloads, made once into one file each, and back."""

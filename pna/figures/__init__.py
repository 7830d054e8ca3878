"""The paper's figures and tables, drawn from recorded runs beside the published numbers.

draw("figure4", profile="recorded", spec="both")     # PDF, PNG, SVG and a sidecar JSON in figures/
compare("figure4", ["pna", "gat"], task="diameter")  # some models, one task, one test set: a figure, no file
compare_realworld("ZINC, edge features")             # published and ours on one column of figure 6
"""

from pna.figures.catalogue import FIGURES, draw
from pna.figures.compare import compare, compare_realworld

__all__ = ["FIGURES", "compare", "compare_realworld", "draw"]

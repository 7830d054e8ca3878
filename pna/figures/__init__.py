"""The paper's figures, tables and claims beside the published ones: figures, verdicts, one page.

draw("figure4", profile="recorded", spec="both")     # PDF, PNG and a sidecar JSON in figures/
compare("figure4", ["pna", "gat"], task="diameter")  # some models, one task, one test set: a figure, no file
compare_realworld("ZINC, edge features")             # published and ours on one column of figure 6
python -m pna claims                                 # every claim of the paper with its test and its verdict
python -m pna report                                 # figures/report.html
"""

from pna.figures.catalogue import FIGURES, draw
from pna.figures.compare import compare, compare_realworld

__all__ = ["FIGURES", "compare", "compare_realworld", "draw"]

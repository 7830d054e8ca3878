"""The paper's figures, tables and claims beside the published ones: figures, verdicts, one page.

draw("figure4", profile="recorded", spec="both")     # PDF, PNG and a sidecar JSON in figures/
python -m pna claims                                 # every claim of the paper with its test and its verdict
python -m pna report                                 # figures/report.html
"""

from pna.report.draw import FIGURES, draw

__all__ = ["FIGURES", "draw"]

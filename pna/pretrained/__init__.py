"""Trained networks by name, and what they say of a graph.

network = pna.load("multitask/released/pna/16")       # the best seed on validation, from the package
print(network.predict(networkx.petersen_graph()))     # the six properties, beside the truth
"""

from pna.pretrained.loading import load, names
from pna.pretrained.multitask import MultiTaskNetwork
from pna.pretrained.prediction import Prediction
from pna.pretrained.realworld import RealWorldNetwork

__all__ = ["MultiTaskNetwork", "Prediction", "RealWorldNetwork", "load", "names"]

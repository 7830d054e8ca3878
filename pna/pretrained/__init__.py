"""Trained networks by name, and their predictions for one graph.

network = pna.load("multitask/released/pna/16")       # the seed with the lowest validation error
print(network.predict(networkx.petersen_graph()))     # six properties of the graph, predicted and true
"""

from pna.pretrained.loading import load, names
from pna.pretrained.multitask import MultiTaskNetwork
from pna.pretrained.prediction import Prediction
from pna.pretrained.realworld import RealWorldNetwork

__all__ = ["MultiTaskNetwork", "Prediction", "RealWorldNetwork", "load", "names"]

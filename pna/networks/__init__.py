"""The networks of the multi-task experiments: PNA and its baselines in the recurrent and the standard architecture."""

from pna.networks.batch import GraphBatch
from pna.networks.models import MODELS, build, count_parameters
from pna.networks.specification import DESCRIBED, RELEASED, NetworkSpec

__all__ = ["DESCRIBED", "MODELS", "RELEASED", "GraphBatch", "NetworkSpec", "build", "count_parameters"]

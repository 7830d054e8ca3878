"""The multi-task graph benchmark (section 4): random graphs, six labels, data sets; as described and as released.

data = cached("multitask", RELEASED)         # or make(spec, splits, seed) for other sizes, counts and families
loader = DataLoader(data["train"], batch_size=128, shuffle=True)    # PyTorch Geometric
for batch in data["train"].batches(512): ...                        # CSR form, one size per batch
data.degrees.delta, data.maxima, data.baseline(data["test"])
"""

from pna.multitask.dataset import RELEASED_MAXIMA, SEED, MultiTask, make, make_graph, make_split
from pna.multitask.families import FAMILIES, Family
from pna.multitask.graphset import Batch, GraphSet
from pna.multitask.labels import TASKS, Task
from pna.multitask.specification import DESCRIBED, RELEASED, Spec
from pna.multitask.splits import COLLECTIONS, Split, extrapolation, families, multitask
from pna.multitask.storage import cached, load, save

__all__ = [
    "COLLECTIONS",
    "DESCRIBED",
    "FAMILIES",
    "RELEASED",
    "RELEASED_MAXIMA",
    "SEED",
    "TASKS",
    "Batch",
    "Family",
    "GraphSet",
    "MultiTask",
    "Spec",
    "Split",
    "Task",
    "cached",
    "extrapolation",
    "families",
    "load",
    "make",
    "make_graph",
    "make_split",
    "multitask",
    "save",
]

"""The four data sets of figure 6 as one frozen table: what a graph's nodes, edges and label are."""

from dataclasses import dataclass

from pna.arguments import choice

__all__ = ["DATASETS", "OFFICIAL", "RECOMPUTED", "SPLITS", "WEIGHTS", "Dataset", "dataset", "training_set"]

SPLITS = ("train", "validation", "test")

# The weights that a replica can be tested with, in words.
WEIGHTS = {"last": "after the last epoch", "best": "with the weights that have the best validation score"}

# Words for a training set that holds the published molecules or images: the graphs themselves, or graphs made from the
# same images by the same recipe.
OFFICIAL = "official"
RECOMPUTED = "recomputed from the raw images"

# The sizes of ogb's nine categorical features of an atom and three of a bond (ogb.utils.features).
OGB_ATOM = (119, 5, 12, 12, 10, 6, 6, 2, 2)
OGB_BOND = (5, 6, 2)


@dataclass(frozen=True)
class Dataset:
    """One data set. Its features are categories, named by the number of values of each, or else plain numbers."""

    name: str
    title: str
    folder: str  # holds the local files
    files: tuple[str, ...]  # the local files, by split where there is one for each
    sizes: tuple[int, int, int]  # graphs in train, validation, test
    task: str  # regression, classes or binary
    metric: str
    outputs: int
    node_categories: tuple[int, ...] = ()
    edge_categories: tuple[int, ...] = ()
    node_numbers: int = 0
    edge_numbers: int = 0
    side: int = 0  # the image's, in pixels
    min_nodes: int = 1  # the released code trains and tests without smaller graphs
    reported: str = "last"  # which of WEIGHTS the released protocol tests
    published: str = ""  # numbers of graphs, nodes and edges, for the card

    @property
    def superpixels(self) -> bool:
        """Whether the graphs come from images, so that their edges follow from the positions of the nodes."""
        return self.side > 0


def _superpixels(name: str, title: str, side: int, train: int, colours: int, published: str) -> Dataset:
    """Describe a data set of superpixels: images of `side` pixels, of ten classes."""
    return Dataset(
        name,
        title,
        folder="superpixels",
        files=tuple(f"{name}_{split}.npz" for split in ("train", "val", "test")),
        sizes=(train, 5_000, 10_000),
        task="classes",
        metric="accuracy",
        outputs=10,
        node_numbers=colours + 2,
        edge_numbers=1,
        side=side,
        published=published,
    )


DATASETS: dict[str, Dataset] = {
    "zinc": Dataset(
        "zinc",
        "ZINC",
        folder="zinc",
        files=("train.csv.gz", "val.csv.gz", "test.csv.gz"),
        sizes=(10_000, 1_000, 1_000),
        task="regression",
        metric="MAE",
        outputs=1,
        node_categories=(28,),
        edge_categories=(4,),
        published="12,000 graphs, 23.155 nodes (9 to 37) on average",
    ),
    "molhiv": Dataset(
        "molhiv",
        "MolHIV",
        folder="molhiv",
        files=("mol.csv.gz", "split_train.csv.gz", "split_valid.csv.gz", "split_test.csv.gz"),
        sizes=(32_901, 4_113, 4_113),
        task="binary",
        metric="ROC-AUC",
        outputs=1,
        node_categories=OGB_ATOM,
        edge_categories=OGB_BOND,
        min_nodes=6,
        reported="best",
        published="41,127 graphs, 25.5 nodes, 27.5 bonds (55 directed edges) on average",
    ),
    "cifar10": _superpixels(
        "cifar10", "CIFAR10", 32, 45_000, 3, "60,000 graphs, 117.63 nodes (85 to 150), 941.07 directed edges on average"
    ),
    "mnist": _superpixels(
        "mnist", "MNIST", 28, 55_000, 1, "70,000 graphs, 70.57 nodes (40 to 75), 564.53 directed edges on average"
    ),
}


def dataset(name: str) -> Dataset:
    """The data set with this name."""
    return DATASETS[choice("data set", name, tuple(DATASETS))]


def training_set(name: str, facts: dict) -> str:
    """Words for the training set of a prepared data set or of a recorded result, from its facts.

    Superpixels from local files are recomputed, and some recorded results call them official.
    """
    recomputed = DATASETS[name].superpixels and facts.get("origin") == "local" and facts["train"] == OFFICIAL
    return RECOMPUTED if recomputed else facts["train"]

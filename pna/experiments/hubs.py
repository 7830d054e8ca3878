"""Train PNA with four kinds of scalers, and test each at degrees far beyond those of training (section 2.2).

    python -m pna hubs [NAME ...] [--device cuda]

Four networks differ in their scalers alone: none, linear, logarithmic (the paper's), and logarithmic with exponents α
that are learned. They are trained on the node tasks of the multi-task benchmark, on real subgraphs of 15 to 24 nodes,
and tested on the neighbourhoods of hubs with degrees of 25 to 2,000 (pna/multitask/hubs.py). A test set is a bin of
degrees; it holds the nodes of these degrees. The tests and the number of seeds are those of results/plan.json.
"""

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from pna.command_line import device, positive, run_command
from pna.files import check_writable, hash_of, read_json, write_json
from pna.locks import locked
from pna.multitask.dataset import SEED, MultiTask
from pna.multitask.graphset import Batch, GraphSet
from pna.multitask.hubs import BINS, bin_of, graph_set
from pna.multitask.labels import NODE_TASKS
from pna.multitask.specification import DESCRIBED
from pna.multitask.storage import cached
from pna.places import data_folder, results_folder
from pna.text import table
from pna.training.store import ReplicaResult, Result, finite, load, provenance, save, thinned

__all__ = ["CAP", "SCALERS", "SETTINGS", "Settings", "baseline_of", "main", "path_of", "result_of", "scores", "train"]

PAPER = ("identity", "amplification", "attenuation")  # equation 7
SCALERS: dict[str, tuple[tuple[str, ...], bool]] = {  # the scalers, and whether their exponents are learned
    "none": (("identity",), False),
    "linear": (("identity", "linear", "inverse_linear"), False),
    "logarithmic": (PAPER, False),
    "learned": (PAPER, True),
}
CAP = 10.0  # times the baseline's error: larger errors count as this, since some networks explode


@dataclass(frozen=True)
class Settings:
    """The sizes of network and training, the same for all scalers."""

    hidden: int = 32
    layers: int = 4
    epochs: int = 60
    graphs_per_batch: int = 128
    learning_rate: float = 1e-3
    seeds: int = 10
    first_seed: int = 100


SETTINGS = Settings()


def main(arguments: Sequence[str]) -> int:
    """Run `pna hubs`: train the networks that are not recorded, and print the errors of all that are."""
    parser = argparse.ArgumentParser(prog="pna hubs", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to train: {', '.join(SCALERS)} (default: all)")
    parser.add_argument(
        "--epochs", type=positive, default=SETTINGS.epochs, help="number of epochs (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=positive, default=SETTINGS.seeds, help="number of seeds (default: %(default)s)")
    parser.add_argument(
        "--device", type=device, default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in SCALERS]:
        parser.error(f"NAME must be one of {', '.join(SCALERS)}; got {unknown[0]!r}")
    settings = replace(SETTINGS, epochs=options.epochs, seeds=options.seeds)
    return run_command("hubs", lambda: _run(options.names or list(SCALERS), settings, options.device))


def _run(names: Sequence[str], settings: Settings, where: str) -> None:
    """Train what is missing, then print one row for each network."""
    for name in names:
        if not path_of(name, settings).exists():
            train(name, settings, where)
    header = ("scalers", "validation", *(f"{low}-{high}" for low, high in BINS), "mean")
    print(f"log10 MSE of the node tasks by degree, errors above {CAP:g} times the baseline's counted as that")
    print(table(header, [_row(name, settings) for name in SCALERS if path_of(name, settings).exists()]))


def _row(name: str, settings: Settings) -> tuple[str, ...]:
    """One network's mean over its seeds: validation loss, score of each bin, and their mean."""
    result = result_of(name, settings)
    by_bin = scores(result).mean(axis=0)
    validation = np.mean([math.nan if one.validation is None else one.validation for one in result.replicas])
    return name, f"{validation:.5f}", *(f"{value:.2f}" for value in by_bin), f"{by_bin.mean():.2f}"


# ---- results ----


def configuration(name: str, settings: Settings) -> dict:
    """Everything that decides a result, as JSON."""
    return {"experiment": "hubs", "scalers": name, "data": "real-subgraphs", "data_seed": SEED, **asdict(settings)}


def path_of(name: str, settings: Settings = SETTINGS) -> Path:
    """Path of a result; a training of other sizes than the planned ones has its own folder."""
    folder = "planned" if settings == SETTINGS else f"hubs-{settings.epochs}-epochs-{settings.seeds}-seeds"
    return results_folder() / folder / "hubs" / f"{name}.json"


def result_of(name: str, settings: Settings = SETTINGS) -> Result:
    """Read the recorded result of one network."""
    return load(path_of(name, settings))


def scores(result: Result, task: int | None = None) -> NDArray[np.float64]:
    """log10 MSE of each seed and bin, mean over the node tasks or of one, [seeds, bins]; capped as CAP says."""
    baseline = np.array(result.facts["baseline"])  # [bins, tasks]
    errors = [[replica.test[_name(k)] for k in range(len(BINS))] for replica in result.replicas]
    errors = np.array(errors, dtype=float)  # [seeds, bins, tasks]; None becomes NaN: the network has exploded
    logarithms = np.log10(np.fmin(np.nan_to_num(errors, nan=np.inf), CAP * baseline))
    return logarithms.mean(axis=2) if task is None else logarithms[:, :, task]


def _name(place: int) -> str:
    """Name of the test set of one bin."""
    return "hubs/{}-{}".format(*BINS[place])


# ---- training ----


def train(name: str, settings: Settings = SETTINGS, where: str = "cpu") -> Result:
    """Train all seeds of one network and record them; seeds that are finished are kept if it is interrupted."""
    path = path_of(name, settings)
    partial = data_folder() / "runs" / path.parent.parent.name / f"hubs-{name}.json"
    facts = configuration(name, settings)
    with locked(partial, f"training hubs/{name}"):
        check_writable(path)
        data = cached("real-subgraphs", DESCRIBED, SEED)
        hubs = replace(graph_set(SEED), maxima=data.maxima)
        stored = read_json(partial) if partial.exists() else {}
        tested = hash_of({**facts, "bins": BINS})  # seeds that were tested on other bins cannot be recorded with these
        if stored.get("hash") != tested:
            stored = {"hash": tested, "replicas": [], "exponents": [], "seconds": 0.0}
        rows, exponents = stored["replicas"], stored["exponents"]
        for seed in range(settings.first_seed + len(rows), settings.first_seed + settings.seeds):
            start = time.monotonic()
            replica, network = _train_seed(name, settings, data, hubs, seed, where)
            stored["seconds"] += time.monotonic() - start
            rows.append(asdict(replica))
            exponents.append(_exponents(network))
            write_json(partial, stored)
        result = Result(
            cell=f"hubs/{name}",
            hash=hash_of(facts),
            configuration=facts,
            facts={
                "baseline": baseline_of(data, hubs).tolist(),
                "nodes": _counts(hubs).tolist(),
                "exponents": exponents,  # learned ones, by seed, layer and scaler
            },
            seconds=round(stored["seconds"], 1),
            **provenance(where != "cpu"),
            replicas=tuple(ReplicaResult(**row) for row in rows),
        )
        save(path, result)
        partial.unlink(missing_ok=True)
    return result


def baseline_of(data: MultiTask, hubs: GraphSet) -> NDArray[np.float64]:
    """Mean squared error of predicting the training mean, by bin and node task, [bins, tasks]."""
    labels = hubs.node_labels / data.maxima[: len(NODE_TASKS)]
    squares = (labels - data.mean[: len(NODE_TASKS)]) ** 2
    places = bin_of(hubs.degree)
    return np.stack([squares[places == k].mean(axis=0) for k in range(len(BINS))])


def _counts(hubs: GraphSet) -> NDArray[np.int64]:
    """Number of nodes in each bin, [bins]."""
    places = bin_of(hubs.degree)
    return np.bincount(places[places >= 0], minlength=len(BINS))


def network_of(name: str, settings: Settings, data: MultiTask) -> nn.Module:
    """Create the network with these scalers: a PNA with batch normalisation and residual connections."""
    from pna.model import PNA  # its import takes seconds

    scalers, learned = SCALERS[name]
    return PNA(
        2,
        settings.hidden,
        settings.layers,
        len(NODE_TASKS),
        deg=data.degrees,
        scalers=scalers,
        norm="batch_norm",
        residual=True,
        train_alpha=learned,
    )


def _exponents(network: nn.Module) -> list[list[float]]:
    """The learned exponents α of each layer's scalers; an empty list if they are fixed."""
    alphas = [parameter for key, parameter in network.named_parameters() if key.endswith(".alpha")]
    return [[round(value, 4) for value in alpha.tolist()] for alpha in alphas]


def _train_seed(
    name: str, settings: Settings, data: MultiTask, hubs: GraphSet, seed: int, where: str
) -> tuple[ReplicaResult, nn.Module]:
    """Train one seed, and test the weights of the epoch with the lowest validation loss; the network has them."""
    from tqdm import tqdm

    torch.manual_seed(seed)
    network = network_of(name, settings, data).to(where)
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    validation = [batch.to(where) for batch in data["validation"].batches(1024, mixed=True)]
    draw = np.random.default_rng(seed)
    best, weights, best_epoch, curve = math.inf, network.state_dict(), 0, []
    for epoch in tqdm(range(1, settings.epochs + 1), desc=f"{name}, seed {seed}", unit="epoch", leave=False):
        loss = _epoch(network, optimiser, data["train"], settings.graphs_per_batch, draw, where)
        held_out = _loss(network, validation)
        curve.append([loss, held_out])
        if held_out < best:
            best, best_epoch = held_out, epoch
            weights = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    network.load_state_dict(weights)
    replica = ReplicaResult(
        seed=seed,
        task=None,
        epochs=settings.epochs,
        best_epoch=best_epoch,
        ended_by="epochs",
        validation=finite(best),
        test=_tested(network, hubs, where),
        curve=thinned(torch.tensor(curve), settings.seeds),
    )
    return replica, network


def _edges(batch: Batch) -> Tensor:
    """The edges of a batch as an edge_index, [2, E]."""
    target = torch.arange(len(batch.x), device=batch.ptr.device).repeat_interleave(batch.ptr.diff())
    return torch.stack([batch.source, target])


def _epoch(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    graphs: GraphSet,
    graphs_per_batch: int,
    draw: np.random.Generator,
    where: str,
) -> float:
    """Train for one epoch over the graphs in random order; returns the mean loss of its batches."""
    network.train()
    order, total = draw.permutation(len(graphs)), 0.0
    parts = np.array_split(order, math.ceil(len(order) / graphs_per_batch))
    for part in parts:
        batch = graphs.batch(part).to(where)
        loss = mse_loss(network(batch.x, _edges(batch)), batch.y_node)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item()
    return total / len(parts)


@torch.no_grad()
def _loss(network: nn.Module, batches: Sequence[Batch]) -> float:
    """Mean squared error over the nodes and tasks of some batches."""
    network.eval()
    squares = [(network(batch.x, _edges(batch)) - batch.y_node).square() for batch in batches]
    return torch.cat(squares).mean().item()


@torch.no_grad()
def _tested(network: nn.Module, hubs: GraphSet, where: str) -> dict[str, list[float | None]]:
    """Mean squared errors of the node tasks in each bin of degrees; None where the network has exploded."""
    network.eval()
    squares = []
    for k in range(len(hubs)):
        batch = hubs.batch(np.array([k])).to(where)
        squares.append((network(batch.x, _edges(batch)) - batch.y_node).double().square().cpu())
    errors, places = torch.cat(squares), torch.from_numpy(bin_of(hubs.degree))
    return {_name(k): [finite(e) for e in errors[places == k].mean(dim=0).tolist()] for k in range(len(BINS))}

"""From a cell's name to its trained network.

Weights are safetensors files, each with a checksum of its tensors and the hash of the configuration that they were
trained with; loading checks both, and executes nothing.
"""

from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor, nn

from pna.degrees import DegreeStatistics
from pna.errors import MissingData
from pna.experiments import (
    EVERY_SPEC,
    Cell,
    Figure6Run,
    MultiTaskRun,
    Profile,
    all_cells,
    budgets,
    planned_cells,
    profile_named,
    run_of,
)
from pna.files import read_tensors
from pna.networks import build
from pna.networks.depths import depth_named
from pna.places import weights_folders
from pna.pretrained.multitask import MultiTaskNetwork, SingleTaskEnsemble
from pna.pretrained.realworld import RealWorldNetwork
from pna.realworld.networks import Network
from pna.training.replicas import Lifted

__all__ = ["load", "load_file", "names"]

Weights = tuple[dict[str, Tensor], dict]  # tensors with a row for each network, and the facts stored with them

_PLACEHOLDER = DegreeStatistics(1.0, 1.0)  # δ is among the buffers that the weights fill

_ELSEWHERE = (
    "the package has the small multi-task networks; those of figure 6, of single tasks and with tuned hyper-parameters "
    "come with a clone of the repository, or with weights.zip of a release: set PNA_RESULTS to the results/ folder of "
    "either. Or "
)


def load(name: str, seed: int | None = None, depth: str | int | None = None) -> MultiTaskNetwork | RealWorldNetwork:
    """Load the trained network of a cell, in evaluation mode on the CPU.

    Parameters
    ----------
    name
        The cell, as multitask/released/pna/16. Weights under $PNA_RESULTS come before those of the repository and of
        the package; among several budgets there, the fullest is loaded.
    seed
        Which of the trained networks. By default the one with the lowest validation error; the others are read from
        the weights of all seeds that a training leaves under $PNA_DATA.
    depth
        The number of layers of a recurrent network, or the rule for it (pna/networks/depths.py). "N/2" is the paper's.
        The default, "cap", is the rule of the training, but never deeper than in training: on larger graphs this is
        more accurate, as the report's figure "depth" shows.
    """
    cell = _cell(name)
    profile, path = _shipped(cell)[0]
    run = run_of(cell, profile)
    _check_depth(run, depth)
    weights = _read(path, run)
    if seed is not None and set(weights[1]["seeds"]) != {seed}:
        path, weights = run.weights, _weights_of_seed(run, seed, weights[1]["seeds"])
    return _network(run, path, weights, depth)


def load_file(
    name: str, budget: str, path: Path, depth: str | int | None = None
) -> MultiTaskNetwork | RealWorldNetwork:
    """Load the trained network of a cell at a budget from a file of weights, such as one from a model hub."""
    cell = Cell.parse(name)
    run = run_of(cell, profile_named(budget, cell))
    _check_depth(run, depth)
    return _network(run, path, _read(path, run), depth)


MultiTaskNetwork.load_file = RealWorldNetwork.load_file = staticmethod(load_file)  # for from_pretrained


def _check_depth(run: MultiTaskRun | Figure6Run, depth: str | int | None) -> None:
    """Raise if a depth is chosen for a network that has a fixed one."""
    if depth is not None and (isinstance(run, Figure6Run) or run.training.architecture == "standard"):
        raise ValueError(
            f"depth is for the recurrent networks of the multi-task benchmark, and {run.cell} has none to choose"
        )


def _network(
    run: MultiTaskRun | Figure6Run, path: Path, weights: Weights, depth: str | int | None
) -> MultiTaskNetwork | RealWorldNetwork:
    """Build the network of a run, with its weights, which were read from `path`."""
    try:
        weights = _by_task(run, weights)
        with torch.random.fork_rng(devices=[]):  # building a network draws random weights, which are then overwritten
            network = _real_world(run, weights) if isinstance(run, Figure6Run) else _multitask(run, weights, depth)
        network.facts = {name: weights[1][name] for name in ("hash", "cell", "rows", "seeds")}
        network.validations = weights[0]["validation"]
    except (KeyError, IndexError, TypeError, RuntimeError) as error:
        raise ValueError(f"{path} does not hold the weights of {run.cell} ({error})") from error
    return network


def _by_task(run: MultiTaskRun | Figure6Run, weights: Weights) -> Weights:
    """The weights with their rows in the order of the tasks, where each has a network of its own."""
    tensors, facts = weights
    if isinstance(run, Figure6Run) or not run.training.single_task:
        return weights
    order = sorted(range(len(facts["rows"])), key=lambda row: run.replica_tasks[facts["rows"][row]])
    ordered = {name: [facts[name][row] for row in order] for name in ("rows", "seeds")}
    return {name: t[order] for name, t in tensors.items()}, facts | ordered


def names() -> list[str]:
    """List the cells whose trained networks are here."""
    paths = (path for folder in weights_folders() for path in folder.glob("*/*/*/*.safetensors"))
    return sorted({str(cell) for cell in map(Cell.at, paths) if cell})


# ---- files ----


def _cell(name: str) -> Cell:
    """Parse a name into the cell that is trained for it; raise if there are no weights of that cell."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a cell's, as 'multitask/released/pna/16', got {name!r}")
    try:
        cell = Cell.parse(name).trained
    except ValueError as error:
        raise ValueError(f"{error}{_near(name)}") from error
    if not run_of(cell, profile_named("paper", cell)).ships:
        raise MissingData(f"no weights of {cell.training} networks are kept{_near(name)}")
    if not _shipped(cell):
        elsewhere = _ELSEWHERE if cell in {*all_cells(EVERY_SPEC), *planned_cells()} else ""
        raise MissingData(
            f"no weights of {cell} are here: {elsewhere}python -m pna train {cell} makes them{_near(name)}"
        )
    return cell


def _near(name: str) -> str:
    """End of an error message that suggests the names that may have been meant."""
    here = names()
    near = get_close_matches(name, here, n=4, cutoff=0.5)
    if near:
        return f"; trained networks with a name near it: {', '.join(near)}"
    return f"; python -m pna predict --list names the {len(here)} trained networks that are here"


def _shipped(cell: Cell) -> list[tuple[Profile, Path]]:
    """The files with the best seed's weights, folder by folder, in each the fullest budget first."""
    places = (
        (profile, (folder / profile.name / cell.place).with_suffix(".safetensors"))
        for folder in weights_folders()
        for profile in budgets(folder, cell)
    )
    return [place for place in places if place[1].exists()]


def _read(path: Path, run: MultiTaskRun | Figure6Run) -> Weights:
    """Read weights; raise if they belong to another configuration."""
    tensors, facts = read_tensors(path)
    if facts.get("hash") != run.hash:
        raise ValueError(f"{path} holds the weights of another configuration ({facts.get('cell')})")
    rows = [facts.get(name) for name in ("rows", "seeds")]
    if not all(isinstance(numbers, list) and numbers and all(type(n) is int for n in numbers) for numbers in rows):
        raise ValueError(f"{path} does not say of which seeds its weights are")
    if not all(bool(tensors[name].isfinite().all()) for name in ("theta", "state") if name in tensors):
        raise ValueError(f"{path} holds weights that are not finite")
    return tensors, facts


def _weights_of_seed(run: MultiTaskRun | Figure6Run, seed: int, shipped: list[int]) -> Weights:
    """The rows of one seed, from the file with the weights of all seeds."""
    if seed not in run.seeds:
        raise ValueError(f"seed must be one of {', '.join(map(str, run.seeds))} of {run.cell}, got {seed!r}")
    if not run.weights.exists():
        best = f"only those with the lowest validation error (seed {shipped[0]}) come with the package"
        raise MissingData(
            f"the weights of seed {seed} of {run.cell} are not here; {best}. Those of all seeds are looked for in "
            f"{run.weights}: set PNA_DATA to the folder of the training, or train the cell again"
        )
    tensors, facts = _read(run.weights, run)
    rows = [row for row, other in enumerate(facts["seeds"]) if other == seed]  # consecutive
    of_seed = {name: facts[name][rows[0] : rows[-1] + 1] for name in ("rows", "seeds")}
    return {name: t[rows] for name, t in tensors.items()}, facts | of_seed


# ---- networks ----


def _multitask(run: MultiTaskRun, weights: Weights, depth: str | int | None) -> MultiTaskNetwork:
    """Build a network of the multi-task benchmark, or one for each task, and fill in its weights."""
    rule = None if run.training.architecture == "standard" else "cap" if depth is None else str(depth)

    def fresh() -> nn.Module:
        """Build the cell's network, with random weights and the rule of depth that was asked for."""
        cell, architecture = run.cell, run.training.architecture
        network = build(cell.model, cell.hidden, cell.network_spec, _PLACEHOLDER, architecture)
        if rule is not None:
            network.depth = run.depth("cap") if rule == "cap" else depth_named(rule)
        return network

    networks = [_filled(fresh(), weights, row) for row in range(len(weights[1]["rows"]))]
    tasks = [run.replica_tasks[row] for row in weights[1]["rows"]]
    network = SingleTaskEnsemble(networks, tasks) if run.training.single_task else networks[0]
    return MultiTaskNetwork(network, run, weights[1]["seeds"], weights[0]["validation"], rule).eval()


def _real_world(run: Figure6Run, weights: Weights) -> RealWorldNetwork:
    """Build a network of figure 6 and fill in its weights."""
    network = _filled(Network(run.model, run.dataset, _PLACEHOLDER), weights, 0)
    return RealWorldNetwork(network, run, weights[1]["seeds"], weights[0]["validation"]).eval()


def _filled(network: nn.Module, weights: Weights, row: int) -> nn.Module:
    """The network, with one row of the weights loaded into it."""
    tensors = weights[0]
    network.load_state_dict(Lifted(network).weights(tensors["theta"][row], tensors["state"][row]))
    return network

"""Trainer and run of the multi-task benchmark's cells."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial

import torch
from torch import Tensor

from pna.degrees import DegreeStatistics
from pna.departures import departures_of
from pna.experiments.cells import TRAININGS, Cell, Profile
from pna.experiments.depth import RULES, at_depth, threshold
from pna.experiments.plan import planned_seeds
from pna.kernels.selection import kernels_for
from pna.multitask import TASKS, MultiTask, make
from pna.multitask.splits import COLLECTIONS, Split
from pna.multitask.storage import cached
from pna.networks import GraphBatch, build
from pna.networks.depths import Depth, capped, depth_named, varied
from pna.training.ranking import KEPT, ranking
from pna.training.recording import Recording
from pna.training.replicas import Replicas
from pna.training.run import Run
from pna.training.store import Result, finite, load, save
from pna.training.trainer import Settings, Trainer

__all__ = ["PROFILES", "MultiTaskRun", "MultiTaskTrainer", "five_best", "mean_log_errors", "table_of", "task_errors"]

GRAPHS_PER_BATCH = 512  # the paper has one batch per graph size, and none is larger
PARTS = 2  # parts of the replicas on a GPU: while one runs small kernels, another has the multiprocessors
WEIGHT_DECAY = 1e-6  # the released code's: the paper gives none

# The quick profile was tuned by hand, looking at test errors, so that PNA as described learns all six tasks in minutes.
# It shows that learning works; it is no basis for comparisons.
PROFILES: dict[str, Profile] = {
    "smoke": Profile("smoke", seeds=2, epochs=2, size_step=5, divisor=256),  # seconds
    "quick": Profile("quick", seeds=2, epochs=450, size_step=10, divisor=2, learning_rate=0.01),  # minutes on a CPU
    "paper": Profile("paper", seeds=10, epochs=10_000),  # section 4, "Model training"
    "planned": Profile("planned", epochs=10_000, planned=True),  # the paper's, with the seeds of results/plan.json
}


class MultiTaskTrainer(Trainer):
    """Trains all replicas on the same batches in the same order, one batch per graph size.

    A step is one batch on a CPU, and on a GPU a whole epoch, which is recorded once and replayed. With `varied`, the
    depth of each training graph is drawn again in every epoch.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        train: Sequence[GraphBatch],
        validation: Sequence[GraphBatch],
        settings: Settings,
        varied: bool = False,
    ) -> None:
        super().__init__(network, settings)
        self.train, self.validation, self.varied = train, validation, varied

    def stepper(self, replicas: Replicas) -> Callable[[], bool]:
        """Return a function that trains on one batch, or on a GPU for one epoch."""
        if not replicas.theta.is_cuda:
            return lambda: self._train_batch(replicas)
        if replicas.position.any():
            raise ValueError(
                "this training was stopped within an epoch on a CPU: go on there, to the epoch's end at least"
            )
        works = [partial(self._train_epoch, part) for part in replicas.parts(PARTS)]
        epoch = Recording(works, replicas.tensors().values())
        return lambda: epoch() or True

    def errors(self, theta: Tensor, state: Tensor, batch: GraphBatch, training: bool = False) -> Tensor:
        """The mean squared error of every replica and task on a batch, [R, 6]; training updates `state` in place."""
        return self.lifted.map(theta, state, lambda network: task_errors(network(batch), batch), training=training)

    def set_errors(self, theta: Tensor, state: Tensor, batches: Sequence[GraphBatch]) -> Tensor:
        """The mean squared error on a set, averaged over its batches as in the released code, [R, 6]."""
        return self.lifted.map(
            theta, state, lambda network: torch.stack([task_errors(network(batch), batch) for batch in batches]).mean(0)
        )

    def _train_epoch(self, r: Replicas) -> None:
        """Train for a whole epoch and validate."""
        for batch in self.train:
            self._step(r, batch)
        self._validate(r)

    def _train_batch(self, r: Replicas) -> bool:
        """Train on the next batch, and validate after the last; return whether it was the last."""
        self._step(r, self.train[int(r.position[0])])
        r.position.add_(1)
        whole = int(r.position[0]) == len(self.train)
        if whole:
            self._validate(r)
        return whole

    def _step(self, r: Replicas, batch: GraphBatch) -> None:
        """Take one step of Adam on a batch; add the losses [R] to r.partial."""
        drawn = varied(batch, r.epoch[0]) if self.varied else None  # all replicas are in the same epoch
        with at_depth(self.lifted.network, (lambda batch: drawn) if self.varied else None):
            losses = self.descend(r, lambda theta: self._losses(theta, r, batch))
        r.partial.add_(losses)

    def _losses(self, theta: Tensor, r: Replicas, batch: GraphBatch) -> Tensor:
        """Training loss of every replica on its tasks, [R], for the weights theta [R, P]."""

        def loss(network: Callable[..., tuple[Tensor, Tensor]], tasks: Tensor) -> Tensor:
            return task_loss(network(batch), batch, tasks)

        return self.lifted.map(theta, r.state, loss, r.tasks, training=True)

    @torch.no_grad()
    def _validate(self, r: Replicas) -> None:
        """End the epoch with the validation losses [R]."""
        loss = weighted(self.set_errors(r.theta, r.state, self.validation), r.tasks)
        self.end_epoch(r, len(self.train), loss, loss)


def task_errors(predictions: tuple[Tensor, Tensor], batch: GraphBatch) -> Tensor:
    """The mean squared error of each task, [6]: three node tasks, then three graph tasks."""
    if kernels := kernels_for("pna.networks.kernels.errors", *predictions):
        return kernels.errors(*predictions, batch.y_node, batch.y_graph)
    nodes, graphs = predictions
    return torch.cat([(nodes - batch.y_node).square().mean(0), (graphs - batch.y_graph).square().mean(0)])


def task_loss(predictions: tuple[Tensor, Tensor], batch: GraphBatch, tasks: Tensor) -> Tensor:
    """The loss of one replica on a batch; `tasks`, [6], are the weights of its tasks."""
    if kernels := kernels_for("pna.networks.kernels.errors", *predictions, tasks):
        return kernels.loss(*predictions, batch.y_node, batch.y_graph, tasks)
    return weighted(task_errors(predictions, batch), tasks)


def weighted(errors: Tensor, tasks: Tensor) -> Tensor:
    """The mean error over a replica's tasks, [..., 6] -> [...]; other tasks add nothing, even if they are infinite."""
    return torch.where(tasks > 0, tasks * errors, 0).sum(-1)


class MultiTaskRun(Run):
    """The run of one multi-task cell under one profile on one device."""

    columns = ("train", "validation")
    profiles = PROFILES
    trainer_type: type[MultiTaskTrainer] = MultiTaskTrainer

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.training = TRAININGS[cell.training]
        self.seeds = planned_seeds(cell) if profile.planned else list(range(profile.seeds))
        self.tasks = range(len(TASKS)) if self.training.single_task else [None]  # a replica per seed and task
        self.settings = Settings(
            profile.learning_rate,
            WEIGHT_DECAY,
            profile.epochs,
            profile.patience,
            infinite_validation="D13" in cell.departures,
        )
        self.learning_rates = [self.settings.learning_rate] * len(self.seeds)
        self.weight_decays = [self.settings.weight_decay] * len(self.seeds)

    @property
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON."""
        profile = ("name", "size_step", "divisor", "seeds", "epochs", "patience", "learning_rate")
        settings = ("learning_rate", "weight_decay", "epochs", "patience")
        return {
            "cell": str(self.cell),
            "departures": list(self.cell.departures),
            "profile": {name: getattr(self.profile, name) for name in profile},
            "settings": {name: getattr(self.settings, name) for name in settings},
            "seeds": self.seeds,
            "graphs_per_batch": GRAPHS_PER_BATCH,
            "dtype": str(self.dtype),
        } | ({"depth": self.training.depth, "varied": self.training.varied} if self._other_depth else {})

    @property
    def _other_depth(self) -> bool:
        """Whether the networks are trained with a depth other than the paper's."""
        return self.training.varied or self.training.depth != "N/2"

    # ---- data and networks ----

    def data(self, collection: str) -> MultiTask:
        """A collection of graphs, thinned to the profile."""
        if self.profile.size_step == self.profile.divisor == 1:
            return cached(collection, self.cell.data_spec)
        return make(self.cell.data_spec, self.splits_of(collection))

    def splits_of(self, collection: str) -> list[Split]:
        """The splits of a collection, thinned to the profile; the training set comes first."""
        step, divisor = self.profile.size_step, self.profile.divisor
        splits = COLLECTIONS[collection](self.cell.data_spec)
        return [split.thinned(step, divisor) for split in splits]

    @cached_property
    def training_data(self) -> MultiTask:
        """The collection of graphs that the cell is trained on."""
        return self.data(self.training.collection)

    def batches(self, data: MultiTask, split: str) -> list[GraphBatch]:
        """A split in batches for the networks, with labels in the units of the training set."""
        graphs = replace(data[split], maxima=self.training_data.maxima)
        return [GraphBatch.of(batch, self.device, self.dtype) for batch in graphs.batches(GRAPHS_PER_BATCH)]

    @property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5, over the training set (D11)."""
        data = self.training_data
        return data.batched_degrees if self.cell.network_spec.batched_delta else data.degrees

    def network(self, seed: int) -> torch.nn.Module:
        """The network of one seed, with its initial weights."""
        cell, how = self.cell, self.training
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build(cell.model, cell.hidden, cell.network_spec, self.degrees, how.architecture, how.depth)
        return network.to(self.dtype)

    def networks(self) -> list[torch.nn.Module]:
        """The networks of all seeds, with their initial weights."""
        return [self.network(seed) for seed in self.seeds]

    @cached_property
    def trainer(self) -> MultiTaskTrainer:
        """The trainer of all replicas."""
        train, validation = (self.batches(self.training_data, split) for split in ("train", "validation"))
        network = self.network(self.seeds[0]).to(self.device)
        return self.trainer_type(network, train, validation, self.settings, self.training.varied)

    def fresh(self) -> Replicas:
        """The replicas before the first epoch: for each seed one, or one per task in single-task training."""
        theta, state = self.trainer.lifted.stack(self.networks())
        masks = torch.stack([_mask(task) for task in self.replica_tasks])
        rows = [row for row in range(len(self.seeds)) for _ in self.tasks]  # the seed of each replica, [R]
        theta, state, masks = (t.to(self.device, self.dtype) for t in (theta[rows], state[rows], masks))
        columns = (self.seeds, self.learning_rates, self.weight_decays)
        seeds, rates, decays = ([column[row] for row in rows] for column in columns)
        return Replicas.fresh(seeds, theta, state, masks, rates, decays)

    @staticmethod
    def tasks_of(replicas: Replicas) -> list[int | None]:
        """The index of the task that each replica is trained on; None for all tasks."""
        return [int(row.argmax()) if row.max() == 1 else None for row in replicas.tasks]

    @property
    def replica_tasks(self) -> list[int | None]:
        """The index of each replica's task, in the order of `fresh`; None for all tasks."""
        return [task for _ in self.seeds for task in self.tasks]

    def task_of(self, row: int) -> str | None:
        """The name of a replica's task; None for all tasks."""
        task = self.replica_tasks[row]
        return None if task is None else TASKS[task].name

    # ---- tests ----

    @property
    def collections_needed(self) -> tuple[str, ...]:
        """The collections of graphs that the cell is trained and tested on."""
        tested = (collection.partition("@")[0] for collection in self.collections)
        return tuple(dict.fromkeys((self.training.collection, *tested)))

    @property
    def collections(self) -> tuple[str, ...]:
        """The collections that the cell is tested on, for every training that it stands for."""
        names = dict.fromkeys(test for name in self.cell.trainings for test in TRAININGS[name].tests)
        if self.profile.divisor > 1:  # real graphs are too few to be thinned
            names = dict.fromkeys(name for name in names if not name.startswith("real"))
        elif "extrapolation" in names:
            names |= dict.fromkeys(f"extrapolation@{rule}" for rule in (("N/2",) * self._other_depth + RULES))
        # without D3, multitask-15-24 has the test set of multitask
        return tuple(n for n in names if n != "multitask-15-24" or self.cell.data_spec.evaluation_sizes == "released")

    def test(self, collection: str) -> dict[str, Tensor]:
        """Test the best weights on a collection: mean squared errors [R, 6], by the name of the test split.

        collection@RULE tests the same graphs at another depth. A terminal shows a progress bar.
        """
        from tqdm import tqdm

        name, _, rule = collection.partition("@")
        depth = self.depth(rule) if rule else None
        data = self.data(name)
        tests = [split.name for split in data.splits if split.role == "test"]
        bar = tqdm(tests, desc=collection, unit="test set", leave=False, disable=None)  # None: not without a terminal
        return {f"{collection}/{split}": self.best_errors(data, split, depth) for split in bar}

    @torch.no_grad()
    def best_errors(self, data: MultiTask, split: str, depth: Depth | None = None) -> Tensor:
        """The mean squared errors of the best weights on a split, [R, 6]; `depth` overrides the networks' depth."""
        best = self.replicas.best_theta, self.replicas.best_state
        with at_depth(self.trainer.lifted.network, depth):
            return self.trainer.set_errors(*best, self.batches(data, split)).cpu()

    def errors_of(self, row: int, tests: dict[str, Tensor]) -> dict[str, list[float | None]]:
        """The errors of a replica by test set, to the seven digits that float32 has: they fill most of a result."""
        errors = super().errors_of(row, tests)
        return {name: [None if e is None else float(f"{e:.7g}") for e in row] for name, row in errors.items()}

    def depth(self, rule: str) -> Depth:
        """The depth rule of this name, with the cell's own threshold of convergence and its own cap."""
        if rule == "cap":
            return capped(depth_named(self.training.depth), self.training.deepest)
        return depth_named(f"convergence:{self.threshold}" if rule == "convergence" else rule)

    @cached_property
    def threshold(self) -> float:
        """The threshold of convergence with the lowest error on validation graphs, which have the training sizes."""
        data, validation = self.data("multitask"), self.replicas.best.cpu()

        def error(rule: str) -> Tensor:
            errors = self.best_errors(data, "validation", depth_named(rule))
            return torch.tensor(mean_log_errors(errors, validation, self.tasks_of(self.replicas))).mean()

        return threshold(error)

    def test_more(self) -> None:
        """Test the saved weights of a recorded cell on the collections it lacks, and add the errors to its result."""
        tests, result = {}, load(self.result)
        if list(map(finite, self.replicas.best_metric.tolist())) != [one.validation for one in result.replicas]:
            raise ValueError(
                f"{self.weights} is of another training than {self.result}: their validation errors differ; remove the "
                "weights, or name the folder of the result that they belong to with PNA_RESULTS"
            )
        for collection in self.untested():
            tests |= self.test(collection)
        replicas = (
            replace(replica, test=replica.test | self.errors_of(row, tests))
            for row, replica in enumerate(result.replicas)
        )
        save(self.result, replace(result, facts=self.facts(), replicas=tuple(replicas)))

    def facts(self) -> dict:
        """The tasks, their units, and the log10 MSE of predicting the training mean on each test split (D14)."""
        rows, batched = {}, "D14" in departures_of(self.cell.spec)
        for collection in self.collections:
            data = self.data(collection.partition("@")[0])
            for split in (split.name for split in data.splits if split.role == "test"):
                row = self.training_data.baseline(data[split], self.training_data.maxima, batched)
                rows[f"{collection}/{split}"] = {task: finite(round(value, 5)) for task, value in row.items()}
        return {
            "tasks": [task.name for task in TASKS],
            "maxima": self.training_data.maxima.tolist(),
            "baseline": rows,
        } | ({"convergence": self.threshold} if "extrapolation@convergence" in self.collections else {})


def _mask(task: int | None) -> Tensor:
    """The tasks that count in a replica's loss, [6]: ones for all tasks, or a single one."""
    if task is None:
        return torch.ones(len(TASKS))
    return torch.nn.functional.one_hot(torch.tensor(task), len(TASKS)).float()


# ---- the paper's choice of five among ten ----


def five_best(validation: Tensor, tasks: Sequence[int | None], task: int) -> Tensor:
    """Rows of the five replicas with the least validation error among those trained on a task."""
    rows = torch.tensor([replica_task is None or replica_task == task for replica_task in tasks]).nonzero().flatten()
    return rows[ranking(validation[rows].numpy())[:KEPT]]


def mean_log_errors(errors: Tensor, validation: Tensor, tasks: Sequence[int | None]) -> list[float]:
    """The mean log10 MSE of the five best replicas on each task, from errors [R, 6]: what figure 4b shows."""
    return [float(errors[five_best(validation, tasks, k), k].log10().mean()) for k in range(len(TASKS))]


def table_of(result: Result) -> dict[str, list[float]]:
    """The mean_log_errors of a result, by test set."""
    names = result.facts["tasks"]
    validation = _tensor([replica.validation for replica in result.replicas])
    tasks = [None if replica.task is None else names.index(replica.task) for replica in result.replicas]
    tests = {split: [replica.test[split] for replica in result.replicas] for split in result.replicas[0].test}
    errors = {split: torch.stack([_tensor(row) for row in rows]) for split, rows in tests.items()}  # [R, 6]
    return {split: mean_log_errors(rows, validation, tasks) for split, rows in errors.items()}


def _tensor(values: Sequence[float | None]) -> Tensor:
    """A tensor of numbers, where None stands for infinity."""
    return torch.tensor([torch.inf if value is None else value for value in values])

"""The base class of trained networks, which says where a network comes from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from pna.networks import count_parameters
from pna.pretrained.hub import Hub
from pna.training.run import Run

__all__ = ["Trained"]


class Trained(nn.Module, Hub):
    """A network with its trained weights; called on a batch, it returns the network's output.

    save_pretrained writes it to a folder with a model card, push_to_hub uploads that to a model hub, and
    from_pretrained loads it from either; all three need huggingface_hub.
    """

    facts: dict  # hash, cell, rows and seeds, as in the file of weights
    validations: Tensor  # the validation error of each row
    depth: str | None = None  # the rule for the number of layers; None for a fixed number

    def __init__(self, network: nn.Module, run: Run, seeds: Sequence[int], validation: Tensor) -> None:
        super().__init__()
        self.network = network
        self.run = run
        self.seeds = tuple(dict.fromkeys(seeds))  # one, or the best seeds of six single-task networks
        self.validation = float(validation.double().mean())  # error on the validation set

    @property
    def cell(self) -> str:
        """The name of the cell."""
        return str(self.run.cell)

    @property
    def budget(self) -> str:
        """The name of the profile that the network was trained under."""
        return self.run.profile.name

    def forward(self, *batch: object) -> Tensor | tuple[Tensor, Tensor]:
        """The network's output for a batch."""
        return self.network(*batch)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the network into evaluation mode, and back into its former mode."""
        training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(training)

    def __repr__(self) -> str:
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        parameters = f"{count_parameters(self.network):,} parameters"
        depth = "" if self.depth is None else f", depth {self.depth}"
        return f"<{self.cell}: {seeds}, budget {self.budget}{depth}, validation {self.validation:.3g}, {parameters}>"

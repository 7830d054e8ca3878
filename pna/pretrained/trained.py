"""What all trained networks have in common: where they come from."""

from collections.abc import Sequence

from torch import Tensor, nn

from pna.networks import count_parameters
from pna.training.run import Run

__all__ = ["Trained"]


class Trained(nn.Module):
    """A network with its trained weights; it is called as the network is, on the project's batches."""

    def __init__(self, network: nn.Module, run: Run, seeds: Sequence[int], validation: Tensor) -> None:
        super().__init__()
        self.network = network
        self.run = run
        self.seeds = tuple(dict.fromkeys(seeds))  # one or, where each task has a network of its own, the best of each
        self.validation = float(validation.double().mean())  # its best error on the validation set

    @property
    def cell(self) -> str:
        """The name that it was loaded by."""
        return str(self.run.cell)

    @property
    def budget(self) -> str:
        """The profile that it was trained under."""
        return self.run.profile.name

    def forward(self, *batch: object) -> Tensor | tuple[Tensor, Tensor]:
        """What the network says of a batch."""
        return self.network(*batch)

    def __repr__(self) -> str:
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        parameters = f"{count_parameters(self.network):,} parameters"
        return f"<{self.cell}: {seeds}, budget {self.budget}, validation {self.validation:.3g}, {parameters}>"

"""Trained networks on a model hub: a folder with weights, configuration and card, which huggingface_hub uploads.

network = pna.load("zinc/released/pna/edges")
network.save_pretrained("folder")              # or network.push_to_hub("you/pna-zinc")
RealWorldNetwork.from_pretrained("folder")     # or the name on the hub
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from pna.files import write_tensors, write_whole
from pna.training.replicas import Lifted

try:
    from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
except ModuleNotFoundError:  # the hub is optional

    def _missing(*_: object, **__: object) -> None:
        """Raise an ImportError that says how to install huggingface_hub, in place of any of its methods."""
        install = 'pip install "pna[hub]", in a clone ".[hub]"'
        raise ImportError(f"a model hub needs huggingface_hub, which is not installed: {install}")

    class PyTorchModelHubMixin:
        """The mixin of huggingface_hub where that is not installed: every method says so."""

        save_pretrained = push_to_hub = _missing
        from_pretrained = classmethod(_missing)


__all__ = ["Hub"]

WEIGHTS, CONFIGURATION, CARD = "weights.safetensors", "config.json", "README.md"
PAPER = "https://arxiv.org/abs/2004.05718"


class Hub(PyTorchModelHubMixin):
    """Saves a trained network as the folder of a model hub, and loads it from there."""

    load_file: Callable[[str, str, Path, str | int | None], nn.Module]  # of pna.pretrained.loading, which sets it

    def _save_pretrained(self, save_directory: Path) -> None:
        """Write weights, configuration and card into a folder."""
        networks = list(getattr(self.network, "networks", [self.network]))  # one, or six of single tasks
        theta, state = Lifted(networks[0]).stack(networks)
        tensors = {"theta": theta, "state": state, "validation": self.validations}
        write_tensors(save_directory / WEIGHTS, tensors, self.facts)
        configuration = {"cell": self.cell, "budget": self.budget, "seeds": list(self.seeds), "depth": self.depth}
        files = {CONFIGURATION: json.dumps(configuration, indent=1), CARD: _card(self)}
        for name, text in files.items():
            write_whole(save_directory / name, lambda file, text=text: file.write(text.encode()))

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> nn.Module:
        """Read a network from a folder or, by its name, from the hub; a `depth`, as in `pna.load`, replaces its own."""
        folder = Path(model_id)
        known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
        wanted = {name: options[name] for name in known if name in options}
        paths = [
            folder / name if folder.is_dir() else Path(hf_hub_download(model_id, name, **wanted))
            for name in (CONFIGURATION, WEIGHTS)
        ]
        try:
            configuration = json.loads(paths[0].read_text(encoding="utf-8"))
            cell, budget, depth = configuration["cell"], configuration["budget"], configuration.get("depth")
            network = cls.load_file(cell, budget, paths[1], depth)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{paths[0]} and {WEIGHTS} do not hold a trained network: {error!r}") from error
        if not isinstance(network, cls):
            kind = type(network).__name__
            raise ValueError(
                f"{model_id} holds {network.cell}: load it with {kind}.from_pretrained, not {cls.__name__}"
            )
        return cls.load_file(cell, budget, paths[1], options["depth"]) if "depth" in options else network


def _card(network: nn.Module) -> str:
    """The model card: metadata that hubs index, then how to use the network."""
    data, metric = network.run.cell.training, "validation error"
    metadata = {
        "library_name": "pna",
        "license": "mit",
        "tags": ["graph-ml", "principal-neighbourhood-aggregation", "pytorch"],
        "model-index": [
            {
                "name": network.cell,
                "results": [
                    {
                        "task": {"type": "graph-ml"},
                        "dataset": {"name": data, "type": data},
                        "metrics": [{"name": metric, "type": "loss", "value": round(network.validation, 6)}],
                    }
                ],
            }
        ],
    }
    use = f'{type(network).__name__}.from_pretrained("FOLDER OR NAME")'
    return "\n".join(
        [
            "---",
            json.dumps(metadata, indent=1),  # JSON is YAML
            "---",
            f"# {network.cell}",
            "",
            f"A network of [Principal Neighbourhood Aggregation for Graph Nets]({PAPER}), trained at the budget",
            f"`{network.budget}`. Seeds: {', '.join(map(str, network.seeds))}. {metric.capitalize()}: "
            f"{network.validation:.4g}.",
            "",
            "```python",
            f"from pna.pretrained import {type(network).__name__}",
            "",
            f"network = {use}",
            "```",
            "",
        ]
    )

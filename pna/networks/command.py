"""`python -m pna models`: every model of the paper, with its number of parameters."""

import argparse
import json
from collections.abc import Sequence

from pna.networks.models import MODELS, build, count_parameters

__all__ = ["main"]

HIDDEN = (16, 20)  # the sizes of the paper's appendix "Parameters comparison"


def main(arguments: Sequence[str]) -> int:
    """Print the table of models, or one JSON object."""
    parser = argparse.ArgumentParser(
        prog="pna models", description="The models of the paper, and their parameters in the recurrent architecture."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    counts = {name: {str(hidden): count_parameters(build(name, hidden)) for hidden in HIDDEN} for name in MODELS}
    if options.json:
        print(json.dumps({name: {"title": MODELS[name].title, **counts[name]} for name in MODELS}))
    else:
        print(_table(counts))
    return 0


def _table(counts: dict[str, dict[str, int]]) -> str:
    """Table of all models, with their numbers of parameters by the number of hidden features."""
    key, title = max(map(len, MODELS)), max(len(model.title) for model in MODELS.values())
    lines = [
        "parameters in the recurrent architecture, by the number of hidden features",
        f"{'model':<{key}}  {'in the paper':<{title}}  " + "  ".join(f"{hidden:>6}" for hidden in HIDDEN),
    ]
    for name, model in MODELS.items():
        numbers = "  ".join(f"{count:>6,}" for count in counts[name].values())
        lines.append(f"{name:<{key}}  {model.title:<{title}}  {numbers}")
    return "\n".join(lines)

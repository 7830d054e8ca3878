"""One PNA layer on a GPU: called, compiled, and compiled with mode="reduce-overhead", beside PyTorch Geometric's.

    python -m benchmarks.compile_gpu [--repeats 100] [--keep]

A batch of 128 molecules like ZINC's, 75 features, 5 towers, forward and backward, from an unsorted edge_index. Ours is
also recorded by hand as one CUDA graph, the bound for reduce-overhead. The rows "linear" are the floor: a single
torch.nn.Linear from 75 to 75 features on the same nodes, without edges, which shows what calling compiled code costs
by itself. Our layer is compiled with fullgraph=True, so a graph break is an error; warnings while compiling are
counted. Times are medians of whole calls in milliseconds, the host's work included. Prints a table, then for each wish
whether it is met, beside the floor, and last one JSON line.
"""

import argparse
import json
import warnings

import torch
from torch import Tensor, nn

from benchmarks.layer_gpu import DEVICE, Comparison, milliseconds, recorded, step_of
from benchmarks.machine import describe, keep

MODES = {"compiled": {}, "reduce-overhead": {"mode": "reduce-overhead"}}
BOUND = 1.3  # reduce-overhead against the graph that is recorded by hand


class Linear(nn.Linear):
    """A linear map with a layer's signature: x [N, in] -> [N, out], whatever the edges."""

    def forward(self, x: Tensor, _: Tensor) -> Tensor:
        """Apply the map."""
        return super().forward(x)


def measure(comparison: Comparison, repeats: int) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Milliseconds of every way to call both layers, and the warnings of those that were compiled."""
    times, messages = {}, {}  # rows are printed as they come: compiling takes long
    if DEVICE == "cuda":  # first: compiled layers leave autograd nodes behind that belong to another stream
        step = recorded(step_of(comparison.ours, comparison.x, comparison.edge_index))
        times["pna, recorded by hand"] = milliseconds(step, repeats)
    linear = Linear(comparison.x.shape[1], comparison.x.shape[1]).to(DEVICE)
    for name, layer in (("pna", comparison.ours), ("torch_geometric", comparison.theirs), ("linear", linear)):
        print(f"{name}: called, {', '.join(MODES)}")
        times[f"{name}, called"] = _milliseconds(layer, comparison, repeats)
        for mode, options in MODES.items():
            torch.compiler.reset()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                full = name != "torch_geometric"  # theirs breaks its graph
                times[f"{name}, {mode}"] = _milliseconds(
                    torch.compile(layer, fullgraph=full, **options), comparison, repeats
                )
            shown = [w for w in caught if not issubclass(w.category, DeprecationWarning)]  # as Python shows by default
            messages[f"{name}, {mode}"] = sorted({str(warning.message).splitlines()[0] for warning in shown})
    return times, messages


def _milliseconds(layer: nn.Module, comparison: Comparison, repeats: int) -> float:
    """Time a forward and backward pass of a layer, in milliseconds: the median of `repeats`."""
    step = step_of(layer, comparison.x, comparison.edge_index)

    def marked() -> None:
        torch.compiler.cudagraph_mark_step_begin()  # the outputs of the step before may be overwritten
        step()

    result = milliseconds(marked, repeats)
    print(f"{result:>10.3f} ms", flush=True)
    return result


def wishes(times: dict[str, float], messages: dict[str, list[str]]) -> dict[str, bool]:
    """Whether compiling helps, or at least does no harm."""
    ours = [warning for name, lines in messages.items() if name.startswith("pna") for warning in lines]
    met = {
        "compiled is not slower than called": times["pna, compiled"] <= times["pna, called"],
        "no warning": not ours,
        **{
            f"{way}: not slower than torch_geometric": times[f"pna, {way}"] <= times[f"torch_geometric, {way}"]
            for way in ("called", *MODES)
        },
    }
    if "pna, recorded by hand" in times:
        bound = BOUND * times["pna, recorded by hand"]
        met[f"reduce-overhead is within {BOUND} times of recorded"] = times["pna, reduce-overhead"] <= bound
    return met


def floor(times: dict[str, float]) -> str:
    """What compiling costs a linear map, in words: no layer can be expected to stay below."""
    called, compiled, reduced = (times[f"linear, {way}"] for way in ("called", *MODES))
    return (
        f"floor: compiling adds {compiled - called:.3f} ms to a linear map alone, which takes {reduced:.3f} ms with "
        "reduce-overhead"
    )


def main() -> None:
    """Measure, and print the table, what is met and the floor."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=128)
    parser.add_argument("--features", type=int, default=75)
    parser.add_argument("--towers", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--keep", action="store_true", help="put the line into results.jsonl")
    args = vars(parser.parse_args())
    record = args.pop("keep")
    comparison = Comparison("ZINC", **args)
    times, messages = measure(comparison, args["repeats"])
    for name, value in times.items():
        print(f"{name:<36}{value:>10.3f} ms")
    for name, lines in messages.items():
        for line in lines:
            print(f"{name} warns: {line}")
    met = wishes(times, messages)
    for wish, is_met in met.items():
        print(f"{'yes' if is_met else 'NO':<5}{wish}")
    print(floor(times))
    facts = {"nodes": comparison.nodes, "edges": comparison.edge_index.shape[1], "ms": times, "warnings": messages}
    line = {"benchmark": "compile_gpu", **args, **facts, "met": met, "machine": describe()}
    print(json.dumps(line))
    if record:
        keep([line])


if __name__ == "__main__":
    main()

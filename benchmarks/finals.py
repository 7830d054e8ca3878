"""Whether trainings by the kernels end where those by plain torch do: the test errors of two folders of results.

    PNA_RESULTS=FOLDER python -m pna train multitask/released/pna/16 --epochs 300
    python -m benchmarks.finals PLAIN KERNELS

For every cell that both folders hold, and every task: the mean over seeds of the log10 MSE on the test set by either
path, and their difference in its standard errors (Welch's t). Of such numbers about one in twenty lies beyond 2 by
chance. Prints a table and a JSON line.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from pna.training.store import load

SPLIT = "multitask/test"


def errors(path: Path) -> dict[str, list[float]]:
    """log10 MSE of each task, one number for each seed that ended with one."""
    result = load(path)
    columns = zip(*(replica.test[SPLIT] for replica in result.replicas), strict=True)
    return {
        task: [math.log10(e) for e in column if e is not None]
        for task, column in zip(result.facts["tasks"], columns, strict=True)
    }


def apart(a: list[float], b: list[float]) -> float:
    """The difference of two means in standard errors."""
    error = math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    return (statistics.mean(b) - statistics.mean(a)) / error


def main() -> None:
    """Compare all cells that both folders hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plain", type=Path)
    parser.add_argument("kernels", type=Path)
    args = parser.parse_args()
    rows = {}
    for path in sorted(args.plain.rglob("*.json")):
        other = args.kernels / path.relative_to(args.plain)
        if not other.exists():
            continue
        ours, theirs = errors(path), errors(other)
        name = str(path.relative_to(args.plain).with_suffix(""))
        rows[name] = {
            task: (statistics.mean(a), statistics.mean(b := theirs[task]), apart(a, b)) for task, a in ours.items()
        }
        print(name)
        for task, (a, b, t) in rows[name].items():
            print(f"    {task:<24}{a:>9.3f}{b:>9.3f}{t:>8.1f}")
    numbers = [t for row in rows.values() for _, _, t in row.values()]
    beyond = sum(abs(t) > 2 for t in numbers)
    print(f"{beyond} of {len(numbers)} differ by more than two standard errors")
    print(json.dumps({"benchmark": "finals", "rows": rows, "beyond_two": beyond, "of": len(numbers)}))


if __name__ == "__main__":
    main()

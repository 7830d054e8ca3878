import argparse
import random
import time
from collections import Counter

import torch

from tests.fuzz.calls import KINDS, REFUSED, RIGHT


def run(calls: int, seed: int, first: int = 0) -> tuple[Counter, list[str]]:
    """Verdicts of so many calls, and a line for each that is wrong; a call depends on the seed and its number alone."""
    verdicts, found = Counter(), []
    for k in range(first, first + calls):
        rng = random.Random(f"{seed} {k}")
        torch.manual_seed(rng.randrange(2**31))
        kind = rng.choices([*KINDS], KINDS.values())[0]
        try:
            verdict = kind(rng)
        except Exception as error:
            verdict = f"WRONG: {type(error).__name__}: {error}"
        verdicts[kind.__name__, verdict.split(":")[0]] += 1
        if verdict not in (RIGHT, REFUSED):
            found.append(f"call {k} ({kind.__name__}): {verdict}")
    return verdicts, found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random calls of the operator.")
    parser.add_argument("--calls", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="number of the first call, to repeat one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    verdicts, found = run(arguments.calls, arguments.seed, arguments.first)
    print("\n".join(found))
    for (kind, verdict), count in sorted(verdicts.items()):
        print(f"{kind:16}{verdict:10}{count:8,}")
    totals = Counter(dict.fromkeys(("WRONG", "OBSCURE", "ACCEPTED"), 0))
    for (_, verdict), count in verdicts.items():
        totals[verdict] += count
    print(", ".join(f"{count:,} {word}" for word, count in totals.items()), f"in {time.monotonic() - start:.0f} s")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kills.rounds import killed, kinds, undisturbed, warm_up

AT_MOST = 16  # kills of one call


def run(kills: int, seed: int, folder: Path, only: str | None = None) -> dict[str, Counter]:
    """Kills calls of every kind until there were so many kills; what was found, by kind."""
    rng, found, rounds = random.Random(seed), {}, 0
    warm_up(folder / "warm")
    table = [kind for kind in kinds() if only in (None, kind.name)]
    expected = [undisturbed(kind, folder / f"undisturbed-{k}") for k, kind in enumerate(table)]
    while (done := sum(counts["kills"] for counts in found.values())) < kills:
        k = rng.randrange(len(table))
        some = min(rng.randint(1, AT_MOST), kills - done)
        counts = killed(table[k], folder / f"round-{rounds}", rng, some, *expected[k])
        found.setdefault(table[k].name, Counter()).update(counts)
        rounds += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description="kill -9 at random moments.")
    parser.add_argument("--kills", type=int, default=1_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--only", choices=("training", "sweep", "data"))
    options = parser.parse_args()
    start = time.monotonic()
    memory = Path("/dev/shm")  # where a checkpoint after every step costs nothing
    with tempfile.TemporaryDirectory(dir=memory if memory.exists() else None) as folder:
        found = run(options.kills, options.seed, Path(folder), options.only)
    for name, counts in found.items():
        print(f"{name:10}" + ", ".join(f"{count:,} {word}" for word, count in counts.items()))
    total = sum(found.values(), Counter({"lost": 0, "different": 0, "left over": 0}))
    words = ", ".join(f"{total[word]:,} {word}" for word in ("kills", "lost", "different", "left over"))
    print(f"{words} in {time.monotonic() - start:.0f} s")
    raise SystemExit(1 if total["lost"] + total["different"] + total["left over"] else 0)


if __name__ == "__main__":
    main()

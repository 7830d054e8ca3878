"""A cache of findings, valid as long as nothing has changed that a verdict could depend on.

Verdicts are kept in build/. A fresh clone has those of figures/claims.json: `python -m pna report` writes the key that
they are valid for to claims.sha256 beside it.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pna.files import parse_json, read_json, read_whole, write_json
from pna.places import repository, results_folder
from pna.verdicts.claims import Claim, Finding

__all__ = ["KEY", "key_of", "recall"]

FOLDERS = ("pna", "report", "verification", "benchmarks")
READ = (".py", ".json", ".jsonl", ".cu", ".cuh", ".v", ".ml")
KEY = "claims.sha256"  # its name beside claims.json


def recall(profile: str, judge: Callable[[str], list[Finding]]) -> tuple[list[Finding], list[dict]]:
    """The findings for a profile, without their rows, and the facts of each; judged only if something has changed."""
    key, build = key_of(profile), Path(os.environ.get("PNA_BUILD") or repository() / "build")
    place = build / f"claims-{profile}.json"
    for read in (lambda: read_json(place), _shipped):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # no cache, or a damaged one
            stored = read()
            if stored["key"] == key:
                return [_finding(facts) for facts in stored["facts"]], stored["facts"]
    findings = judge(profile)
    facts = [finding.facts for finding in findings]
    with contextlib.suppress(OSError):  # a clone that cannot be written to
        write_json(place, {"key": key, "facts": facts})
    return findings, facts


def _shipped() -> dict:
    """The facts that come with the repository, and their key."""
    figures = repository() / "figures"
    facts = parse_json(read_whole(figures / "claims.json"))
    return {"key": (figures / KEY).read_text(encoding="utf-8").strip(), "facts": facts}


def _finding(facts: dict) -> Finding:
    """The finding, without its rows, that facts describe."""
    claim = Claim(facts["id"], facts["claim"], facts["where"], facts["figure"], statistic=facts["statistic"])
    words = {name: facts[name] for name in ("kind", "verdict", "outcome", "evidence", "spec", "budget")}
    return Finding(claim, cells=tuple(facts["cells"]), **words)


def key_of(profile: str) -> str:
    """SHA-256 over the code, results, proofs and measured speeds: the same on every machine.

    Data sets are left out. Random graphs follow from the code, and no verdict reads molecules or images.
    """
    digest = hashlib.sha256(profile.encode())
    for folder, path in _files():
        digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files() -> Iterator[tuple[Path, Path]]:
    """Yield every file that a verdict may depend on, after its folder: code, proofs, measured speeds and results.

    Tests are left out: they change no verdict.
    """
    places = [*(repository() / folder for folder in FOLDERS), results_folder()]
    suffixes = [READ] * len(FOLDERS) + [(".json",)]
    for place, wanted in zip(places, suffixes, strict=True):
        files = (path for path in sorted(place.rglob("*")) if path.suffix in wanted)
        yield from ((place.parent, path) for path in files if not path.name.startswith("test_"))

"""A cache of findings, valid as long as nothing has changed that a verdict could depend on."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pna.files import read_json, write_json
from pna.places import data_folder, repository, results_folder
from pna.verdicts.claims import Claim, Finding

__all__ = ["recall"]

FOLDERS = ("pna", "report", "verification", "benchmarks")
READ = (".py", ".json", ".jsonl", ".cu", ".cuh", ".v", ".ml")


def recall(profile: str, judge: Callable[[str], list[Finding]]) -> tuple[list[Finding], list[dict]]:
    """The findings for a profile, without their rows, and the facts of each; judged only if something has changed."""
    key, build = _key(profile), Path(os.environ.get("PNA_BUILD") or repository() / "build")
    place = build / f"claims-{profile}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # no cache, or a damaged one
        stored = read_json(place)
        if stored["key"] == key:
            return [_finding(row) for row in stored["findings"]], [row["facts"] for row in stored["findings"]]
    findings = judge(profile)
    rows = [{"figure": finding.claim.figure, "facts": finding.facts} for finding in findings]
    with contextlib.suppress(OSError):  # a clone that cannot be written to
        write_json(place, {"key": key, "findings": rows})
    return findings, [row["facts"] for row in rows]


def _finding(row: dict) -> Finding:
    """The finding, without its rows, that a cached row describes."""
    facts = row["facts"]
    claim = Claim(facts["id"], facts["claim"], facts["where"], row["figure"])
    words = {name: facts[name] for name in ("kind", "verdict", "outcome", "evidence", "spec", "budget")}
    return Finding(claim, cells=tuple(facts["cells"]), **words)


def _key(profile: str) -> str:
    """SHA-256 over the code, results, proofs and measured speeds, and over paths and times of the data sets."""
    digest = hashlib.sha256(profile.encode())
    for path in _files():
        digest.update(f"{path}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for path in sorted(data_folder().glob("*/*.npz")):
        digest.update(f"{path} {path.stat().st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    """Yield every file that a verdict may depend on: code, proofs, measured speeds and recorded results."""
    for folder in FOLDERS:
        yield from sorted(path for path in (repository() / folder).rglob("*") if path.suffix in READ)
    yield from sorted(results_folder().rglob("*.json"))

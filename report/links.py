"""Addresses of the repository's files, from the folder that the page stands in."""

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pna.places import repository, results_folder
from report.claims import Claim, Finding

__all__ = ["Links"]


@dataclass(frozen=True)
class Links:
    """Links from a page in `folder`, as pairs of an address and its words."""

    folder: Path

    def to(self, path: Path) -> str:
        """The address of a file, relative to the page's folder."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def test(self, claim: Claim) -> tuple[str, str, str] | None:
        """The kind of evidence that decides a claim, with the address and name of its test; None if it has none."""
        if claim.source:
            return "test", *self._source(claim.source)
        checks = "verification/checks.py"
        return ("checks", self.to(repository() / checks), checks) if claim.checked else None

    def cells(self, findings: Sequence[Finding]) -> dict[str, str]:
        """The names of the results that the findings on a claim were made from, by their addresses."""
        paths = [results_folder() / file for finding in findings for file in finding.cells]
        return {self.to(path): "/".join((*path.parts[-3:-1], path.stem)) for path in paths}

    def _source(self, function: object) -> tuple[str, str]:
        """The address and the name of the line at which a function begins."""
        path, line = Path(inspect.getsourcefile(function)), inspect.getsourcelines(function)[1]
        return f"{self.to(path)}#L{line}", f"{path.relative_to(repository()).as_posix()}, line {line}"

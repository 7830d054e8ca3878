"""`crate.py [ROOT]`: describes the repository as an RO-Crate, in ROOT/ro-crate-metadata.json.

Every recorded result, figure, notebook, source file, test and document is an entity with its size and SHA-256. The
workflow is the crate's main entity, so that the crate is also a Workflow RO-Crate.
"""

import hashlib
import json
import mimetypes
import sys
from pathlib import Path

import yaml
from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from pna.files import write_whole

ROOT = Path(__file__).parents[1]
PARTS: dict[str, str] = {  # the folders that are described, and what is in them
    "results": "Recorded trainings: a JSON file with configuration, provenance and every seed's errors, and weights",
    "figures": "What the notebooks draw, with the numbers of each picture, and the report",
    "notebooks": "One notebook for each figure or table of the paper, and those that teach",
    "pna": "The library: the operator, the networks, the benchmarks, the trainings, the statistics",
    "report": "The paper's claims, their tests, and the page that shows them",
    "verification": "Formal proofs, certificates and exact checks of the paper's theorems",
    "workflow": "The workflow from the data to the report",
    "benchmarks": "Speed against other implementations, with the measurements",
    "tests": "The tests, which mirror the tree",
    "docs": "The documentation, with the summary and the model cards",
}
SUPERSEDED = "results/archive"  # nothing reads it
BYPRODUCTS = {"__pycache__", ".ipynb_checkpoints", "node_modules"}
TYPES = {  # those that Python's mimetypes does not know
    ".cff": "application/yaml",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".npz": "application/zip",
    ".safetensors": "application/octet-stream",
    ".toml": "application/toml",
    ".yml": "application/yaml",
}
SINGLE = (  # files outside these folders that belong to the crate
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
    *("CITATION.cff", "codemeta.json", "codecheck.yml", "croissant.json"),
    *("pyproject.toml", "requirements.lock", "environment.yml", "run_all.sh", "mkdocs.yml"),
    *("Dockerfile", "apptainer.def", ".ci/run"),
)
WORKFLOW_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
NEWER_TERMS = {"sha256": "http://schema.org/sha256"}  # those that RO-Crate 1.1 does not define


def main(root: str = str(ROOT)) -> int:
    """Write the metadata file, whole or not at all."""
    text = json.dumps(describe(Path(root)).metadata.generate(), indent=1, sort_keys=True, ensure_ascii=False)
    write_whole(Path(root) / "ro-crate-metadata.json", lambda file: file.write(f"{text}\n".encode()))
    return 0


def describe(root: Path) -> ROCrate:
    """The crate of a repository: its files as they are now."""
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms.update(NEWER_TERMS)
    crate.metadata["conformsTo"] = [{"@id": crate.metadata.profile}, {"@id": WORKFLOW_CRATE}]
    crate.name, crate.description = citation["title"], citation["abstract"]
    crate.datePublished = str(citation["date-released"])
    crate.license = crate.add(_entity(crate, f"https://spdx.org/licenses/{citation['license']}", "CreativeWork", "MIT"))
    crate.creator = crate.add(_entity(crate, "#contributors", "Organization", citation["authors"][0]["name"]))
    crate.root_dataset["author"] = crate.publisher = crate.creator
    paper = citation["preferred-citation"]
    crate.root_dataset["version"] = citation["version"]
    crate.root_dataset["keywords"] = ", ".join(citation["keywords"])
    crate.root_dataset["citation"] = crate.add(_entity(crate, paper["url"], "ScholarlyArticle", paper["title"]))
    snakefile = "workflow/Snakefile"
    facts = _facts(root / snakefile) | {"name": "The whole paper as one workflow", "conformsTo": {"@id": BIOSCHEMAS}}
    crate.add_workflow(root / snakefile, snakefile, properties=facts, main=True, lang="snakemake")
    for folder, meaning in PARTS.items():
        _add_folder(crate, root, folder, meaning)
    for name in filter(lambda name: (root / name).exists(), SINGLE):
        _add_file(crate, root, name)
    crate.dereference("README.md")["about"] = crate.root_dataset
    return crate


def _entity(crate: ROCrate, address: str, kind: str, name: str) -> ContextEntity:
    """An entity that is no file of the crate, such as the licence or the paper."""
    return ContextEntity(crate, address, properties={"@type": kind, "name": name})


def _add_folder(crate: ROCrate, root: Path, folder: str, meaning: str) -> None:
    """Add a folder as a data set whose parts are its files."""
    names = sorted(path.relative_to(root).as_posix() for path in (root / folder).rglob("*") if _belongs(path, root))
    parts = [_add_file(crate, root, name) for name in names]
    properties = {"name": folder, "description": f"{meaning}.", "hasPart": [{"@id": part} for part in parts]}
    crate.add_directory(root / folder, f"{folder}/", properties=properties)


def _belongs(path: Path, root: Path) -> bool:
    """Whether a path is a file that the crate describes: neither hidden, nor a by-product, nor superseded."""
    hidden = any(part in BYPRODUCTS or part.startswith(".") for part in path.relative_to(root).parts)
    return path.is_file() and not hidden and not path.relative_to(root).as_posix().startswith(f"{SUPERSEDED}/")


def _add_file(crate: ROCrate, root: Path, name: str) -> str:
    """Add a file to the crate unless it is there already; return its name."""
    if crate.dereference(name) is None:
        crate.add_file(root / name, name, properties=_facts(root / name))
    return name


def _facts(path: Path) -> dict[str, str]:
    """The name, media type, size in bytes and SHA-256 of a file."""
    content = path.read_bytes()
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
    facts = {"encodingFormat": kind, "contentSize": str(len(content)), "sha256": hashlib.sha256(content).hexdigest()}
    return {"name": path.name} | facts


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

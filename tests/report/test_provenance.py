"""Every recorded result names a commit and the hash of its code: the hash must be that commit's."""

import ast
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from pna.experiments import TRAININGS, Cell
from report.sections import UNCOMMITTED

ROOT = Path(__file__).parents[2]
# The results whose code was in no commit when they were trained; the plan trains them again.
NOT_COMMITTED = {
    *(
        f"paper/multitask/described/{m}-16"
        for m in ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
    ),
    *(f"paper/multitask/released/{m}-16" for m in ("pna-no-scalers", "mpnn-max", "mpnn-sum")),
    "paper/multitask/released-D11/pna-16",
}


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def recorded():
    """The results of both full budgets, such as "planned/multitask/described/pna-16", by (commit, code hash)."""
    cells = {}
    for path in sorted(p for budget in ("paper", "planned") for p in (ROOT / "results" / budget).glob("*/*/*.json")):
        facts = json.loads(path.read_text())
        cell = "/".join((*path.parts[-4:-1], path.stem))
        cells.setdefault((facts["commit"], facts["code"]), set()).add(cell)
    return cells


def hash_at(commit, folder):
    """The hash of the sources at a commit, by the function that this commit's store had for it."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "pna"))) as archive:
        archive.extractall(folder, filter="data")
    package = folder / "pna"
    tree = ast.parse((package / "training" / "store.py").read_text())
    wanted = {"_FOLDERS", "_LEFT_OUT", "code_files", "code_hash", "_code_hash"}
    nodes = [node for node in tree.body if wanted & {getattr(node, "name", ""), *names_of(node)}]
    scope = {"hashlib": hashlib, "Path": Path, "pna": SimpleNamespace(__file__=str(package / "__init__.py"))}
    exec(compile(ast.Module(nodes, []), "store.py", "exec"), scope)
    return scope["code_hash"](package) if "code_hash" in scope else scope["_code_hash"]()


def names_of(node):
    return [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]


def test_the_code_of_every_result_is_its_commits(tmp_path):
    try:
        known = set(git("rev-list", "--all").decode().split())
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git history here")
    cells = recorded()
    if any(commit not in known for commit, _ in cells):
        pytest.skip("the git history here is not the whole one")
    hashes = {commit: hash_at(commit, tmp_path / commit) for commit in {commit for commit, _ in cells}}
    other = {cell: code for (commit, code), group in cells.items() if hashes[commit] != code for cell in group}
    assert other.keys() <= NOT_COMMITTED, sorted(other.keys() - NOT_COMMITTED)
    assert set(other.values()) <= {UNCOMMITTED}


def test_every_multi_task_cell_has_the_plans_seeds_from_one_commit():
    plan = json.loads((ROOT / "results" / "plan.json").read_text(encoding="utf-8"))
    first = plan["about"]["first_seed"]
    rows = {row["cell"]: row["seeds"] for row in plan["cells"] if row["cell"].split("/")[0] in TRAININGS}
    results = {cell: json.loads((ROOT / "results" / "planned" / Cell.parse(cell).place).read_text()) for cell in rows}
    for cell, facts in results.items():
        assert facts["configuration"]["seeds"] == list(range(first, first + rows[cell])), cell
    ((commit, clean, device, _),) = {
        (facts["commit"], facts["clean"], facts["device"], tuple(facts["versions"].items()))
        for facts in results.values()
    }
    assert (commit[:7], clean, device) == ("f977bb8", True, "NVIDIA H200")

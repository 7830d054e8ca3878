"""Where a result says that it comes from: the commit, whether the tree was clean, and the code that trained it."""

import ast
import json
import re
import shutil
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

import pna
from pna.files import hash_of, read_json
from pna.training.store import FORMAT, Result, code_files, code_hash, load, provenance, save

PACKAGE = Path(pna.__file__).parent
RESULTS = PACKAGE.parent / "results"

# Every file that `code` covers, by folder: a change of one of them may change what a training computes. A file that is
# new is covered unless pna/training/store.py leaves it out; either way it is written down here.
COVERED = {
    "": """
        aggregators.py arguments.py combined.py compiled.py conv.py degrees.py departures.py derivatives.py direct.py
        dispatch.py errors.py files.py fused.py gather.py layer.py locks.py model.py neighbourhoods.py onnx.py places.py
        products.py pyg.py scalers.py segments.py together.py towers.py workers.py""",
    "kernels": """
        __init__.py aggregation.py aggregation_backward.py coefficients.py compile_time.py csr.py functions.py
        gradients.py hubs.py launch.py layer.py layer_weights.py messages.py moments.py operators.py priority.py
        replicas.py selection.py tiles.py""",
    "networks": """
        __init__.py architectures.py batch.py convolutions.py depths.py dropout.py layers.py models.py norm.py
        specification.py""",
    "networks/kernels": """
        __init__.py batchnorm.py dense.py errors.py gates.py head.py linear.py nvrtc.py packing.py routes.py
        tensor_cores.cuh tiles.py""",
    "networks/kernels/recurrence": """
        __init__.py attention.cuh backward.cu forward.cu gather.cuh gin.cuh layer.cuh pna_backward.cuh sums.cuh
        weights.py""",
    "networks/kernels/set2set": """
        __init__.py backward.cu forward.cu readout.cuh""",
    "multitask": """
        __init__.py dataset.py distances.py families.py generate.py graphset.py hubs.py labels.py
        powerlaw.py random_numbers.py real.py sampling.py sources.py specification.py splits.py storage.py
        toggling.py""",
    "realworld": """
        __init__.py batches.py comparators.py diffpool.py hyperparameters.py layers.py metrics.py networks.py""",
    "realworld/data": """
        __init__.py datasets.py graphs.py introselect.py local.py molecules.py official.py parallel.py public.py
        storage.py superpixels.py""",
    "realworld/kernels": """
        __init__.py activation.py assignment.py attention.py batch.py edge.py gated.py gated_gradients.py graphs.py
        message.py monet.py neighbours.py norm.py norm_tile.py pool.py readout.py tower_weights.py towers.py
        weighted.py""",
    "training": """
        __init__.py adam.py adam_kernel.py ranking.py recording.py replicas.py run.py schedule.py store.py
        trainer.py""",
    "experiments": """
        cells.py depth.py dropout.py hubs.py multitask.py plan.py realworld.py tuning.py""",
}


# ---- the code that trained it ----


def needed_by_trainings():
    """What the two benchmarks import, at the top or within a function, or name as text, as kernels_for does."""
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    needed, waiting = set(), ["pna.experiments.multitask", "pna.experiments.realworld"]
    while waiting:
        name = waiting.pop()
        if name in modules and name not in needed and name != "pna":
            needed.add(name)
            waiting += names_in(ast.parse(modules[name].read_text(encoding="utf-8")))
    return {modules[name].relative_to(PACKAGE).as_posix() for name in needed}


def names_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_all_that_a_training_imports_is_covered():
    assert needed_by_trainings() <= set(code_files(PACKAGE))


def test_the_files_that_are_covered():
    listed = {(Path(folder) / name).as_posix() for folder, names in COVERED.items() for name in names.split()}
    assert set(code_files(PACKAGE)) == listed


def test_every_source_of_cuda_is_covered():
    sources = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.cu*")}
    assert sources
    assert sources <= set(code_files(PACKAGE))


@pytest.fixture
def copy(tmp_path):
    """A copy of the package and of report/ beside it."""
    for folder in ("pna", "report"):
        shutil.copytree(PACKAGE.parent / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def changed(path):
    """Adds a blank line to a file."""
    path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize(
    "name",
    [
        "kernels/aggregation.py",
        "networks/kernels/recurrence/forward.cu",
        "networks/kernels/tensor_cores.cuh",
        "aggregators.py",
        "multitask/labels.py",
        "realworld/data/molecules.py",
        "training/trainer.py",
        "experiments/cells.py",
    ],
)
def test_a_change_of_what_a_training_depends_on_changes_the_hash(name, copy):
    before = code_hash(copy / "pna")
    changed(copy / "pna" / name)
    assert code_hash(copy / "pna") != before


def test_another_name_changes_the_hash(copy):
    before = code_hash(copy / "pna")
    (copy / "pna" / "scalers.py").rename(copy / "pna" / "scaling.py")
    assert code_hash(copy / "pna") != before


def test_a_change_of_all_else_does_not(copy):
    before = code_hash(copy / "pna")
    assert before == code_hash(PACKAGE)
    covered = {copy / "pna" / name for name in code_files(copy / "pna")}
    others = [path for path in copy.rglob("*") if path.is_file() and path not in covered]
    folders = {path.relative_to(copy).parts[:2] for path in others}
    assert {("pna", "figures"), ("pna", "verdicts"), ("pna", "pretrained"), ("report", "claims.py")} <= folders
    for path in others:
        changed(path)
    assert code_hash(copy / "pna") == before


# ---- the commit ----


def origin():
    facts = provenance(on_gpu=False)
    return facts["commit"], facts["clean"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit, whose folder pna counts as the package, and results/ beside it."""

    def git(*words):
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.delenv("PNA_COMMIT", raising=False)
    monkeypatch.setattr(pna, "__file__", str(tmp_path / "pna" / "__init__.py"))
    (tmp_path / "pna").mkdir()
    (tmp_path / "pna" / "__init__.py").write_text("")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    return tmp_path, git("rev-parse", "HEAD")


def test_a_clean_tree(repository):
    folder, commit = repository
    assert origin() == (commit, True)
    (folder / "results").mkdir()
    (folder / "results" / "new.json").write_text("{}")  # what a training has just written
    assert origin() == (commit, True)


@pytest.mark.parametrize("name", ["__init__.py", "new.py"])
def test_a_changed_or_a_new_file_of_the_package(repository, name):
    folder, commit = repository
    (folder / "pna" / name).write_text("changed = True\n")
    assert origin() == (commit, False)


def test_without_a_repository_or_without_git_nothing_is_known(tmp_path, monkeypatch):
    monkeypatch.delenv("PNA_COMMIT", raising=False)
    monkeypatch.setattr(pna, "__file__", str(tmp_path / "pna" / "__init__.py"))
    (tmp_path / "pna").mkdir()
    assert origin() == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin() == (None, None)


@pytest.mark.parametrize(
    ("value", "commit", "clean"), [("6c4fd36", "6c4fd36", True), ("6c4fd36-dirty", "6c4fd36", False)]
)
def test_the_environment_may_say_it(repository, monkeypatch, value, commit, clean):
    monkeypatch.setenv("PNA_COMMIT", value)
    assert origin() == (commit, clean)


def test_results_that_lack_the_field_load():
    path = RESULTS / "paper" / "cifar10" / "released" / "pna-edges.json"
    assert load(path).clean is None
    assert '"clean"' not in path.read_text(encoding="utf-8")


# ---- the documentation ----


def test_the_documentation_names_every_field():
    text = (PACKAGE.parent / "docs" / "recording.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text, flags=re.MULTILINE)
    named = ["sha256", *(f.name for f in fields(Result)), "tests"]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(named)


# ---- results of strangers ----


def signed(path, **changes):
    """A recorded result of format 2 with other contents, all of whose checksums hold."""
    content = json.loads(next(iter((RESULTS / "quick").glob("multitask/*/*.json"))).read_text()) | changes
    replica = content["replicas"][0] if "replicas" not in changes else {}
    replica |= {name: changes[name] for name in changes.keys() & {"seed", "curve", "test", "validation"}}
    content = {name: value for name, value in content.items() if name not in ("sha256", "seed", "curve", "test")}
    content.pop("validation", None)
    content["hash"] = hash_of(content["configuration"]) if "hash" not in changes else content["hash"]
    path.write_text(json.dumps({"sha256": hash_of(content)} | content))
    return path


def test_what_is_signed_again_unchanged_is_read(tmp_path):
    assert load(signed(tmp_path / "a.json")).replicas


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replicas": {}}, "replicas"),
        ({"replicas": []}, "replicas must be a list of at least one"),
        ({"replicas": 3}, "not iterable"),
        ({"replicas": [3]}, "mapping"),
        ({"seconds": "long"}, "seconds must be a number"),
        ({"seconds": 10**400}, "seconds must be a number"),
        ({"cell": ["x"]}, "cell must be a text"),
        ({"configuration": [1], "hash": "0"}, "configuration must be an object"),
        ({"seed": "0"}, "seed must be an integer"),
        ({"validation": 10**400}, "validation must be a number or null"),
        ({"curve": [[1, 10**400]]}, "curve must be a list of rows of numbers"),
        ({"curve": 5}, "curve must be a list of rows of numbers"),
        ({"test": {"a": ["x"]}}, "test must be lists of numbers by name"),
        ({"test": [[1.0]]}, "test must be lists of numbers by name"),
    ],
)
def test_a_result_of_other_kinds_of_values_is_refused_in_a_line(tmp_path, changes, words):
    path = signed(tmp_path / "a.json", **changes)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} .*{words}"):
        load(path)


# ---- the formats ----

OLD = RESULTS / "quick" / "multitask" / "described" / "pna-16.json"


def test_a_result_is_the_same_in_both_formats(tmp_path):
    path = tmp_path / "a.json"
    save(path, load(OLD))
    assert load(path) == load(OLD)
    old, new = read_json(OLD), read_json(path)
    assert (old["format"], new["format"]) == (2, FORMAT)
    for k, replica in enumerate(old["replicas"]):
        assert {name: rows[k] for name, rows in new["tests"].items()} == replica.pop("test")
        assert new["replicas"][k] == replica
    assert path.stat().st_size < OLD.stat().st_size


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (None, "tests must be lists, with a row for each replica, by name"),
        ([[1.0]], "tests must be lists, with a row for each replica, by name"),
        ({"a": 3}, "tests must be lists, with a row for each replica, by name"),
        ({"a": [[1.0]]}, "tests must be lists, with a row for each replica, by name"),
        ({"a": [["x"], ["y"], ["z"]]}, "test must be lists of numbers by name"),
        ({"a": [1.0, 2.0, 3.0]}, "test must be lists of numbers by name"),
    ],
)
def test_test_errors_that_do_not_fit_the_replicas_are_refused(tmp_path, tests, words):
    path, result = tmp_path / "a.json", load(OLD)
    save(path, replace(result, replicas=(result.replicas * 3)[:3]))
    content = read_json(path) | {"tests": tests}
    del content["sha256"]
    path.write_text(json.dumps({"sha256": hash_of(content)} | content))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} does not hold what a result holds: {words}"):
        load(path)


def test_replicas_with_different_test_sets_are_not_written(tmp_path):
    first, *others = load(OLD).replicas
    less = replace(first, test=dict(list(first.test.items())[1:]))
    with pytest.raises(ValueError, match="the replicas of multitask/described/pna/16 were not tested on the same sets"):
        save(tmp_path / "a.json", replace(load(OLD), replicas=(less, first, *others)))
    assert not any(tmp_path.iterdir())

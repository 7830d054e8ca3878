"""What others cite and reuse: the summary, the citation files, the RO-Crate, the benchmark in Croissant's terms."""

import hashlib
import json
import re
import shutil
import tomllib
from datetime import date
from importlib import resources

import numpy as np
import pytest
import requests
import yaml

import pna
from pna.figures.catalogue import FIGURES, files_of
from pna.multitask import DESCRIBED, RELEASED, TASKS, make, multitask
from tests.workflow.conftest import ROOT
from workflow import crate, croissant, summary

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


# ---- citation files ----


def test_the_citation_has_version_date_licence_and_keywords():
    assert {"version", "date-released", "license", "keywords", "abstract"} <= CITATION.keys()
    released = date.fromisoformat(str(CITATION["date-released"]))
    assert f"## [{pna.__version__}] - {released}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "# doi:" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_codemeta_says_the_same():
    facts = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
    same = {"version": "version", "datePublished": "date-released", "keywords": "keywords"}
    assert {key: facts[key] for key in same} == {key: CITATION[other] for key, other in same.items()}
    assert facts["license"].endswith(f"/{CITATION['license']}")
    assert [one["name"] for one in facts["author"]] == [one["name"] for one in CITATION["authors"]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert facts["softwareRequirements"] == project["dependencies"]


def test_codecheck_lists_every_figure_and_what_is_written_beside_them():
    facts = yaml.safe_load((ROOT / "codecheck.yml").read_text(encoding="utf-8"))
    files = [entry["file"] for entry in facts["manifest"]]
    assert [name for name in files if not (ROOT / name).is_file()] == []
    pictures = [f"figures/{file}.png" for name in FIGURES for file in files_of(name)]
    written = [f"figures/{name}" for name in ("claims.json", "report.html", "summary.pdf")]
    assert files == [*pictures, *written, "ro-crate-metadata.json", "croissant.json"]
    assert all(entry["comment"] for entry in facts["manifest"])


# ---- the summary ----


def test_the_summary_has_the_headings_of_the_challenge_in_their_order():
    lines = (ROOT / "docs" / "summary.md").read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == [
        "Scope of reproducibility",
        "Methodology",
        "Results",
        "What was easy",
        "What was difficult",
        "Communication with the authors",
    ]


def test_the_summary_is_a_pdf_of_one_page():
    content, text = (ROOT / "figures" / "summary.pdf").read_bytes(), (ROOT / "docs" / "summary.md").read_text("utf-8")
    assert summary.pages(content) == 1
    assert content.endswith(summary.mark(text))  # else: python workflow/summary.py docs/summary.md figures/summary.pdf


@pytest.mark.skipif(not any(map(shutil.which, summary.BROWSERS)), reason="needs Chromium")
def test_printing_refuses_a_second_page_and_leaves_what_is_there(tmp_path, capsys):
    source, pdf = tmp_path / "summary.md", tmp_path / "summary.pdf"
    source.write_text("# Short\n\nOne line.\n", encoding="utf-8")
    assert summary.main(str(source), str(pdf)) == 0
    before = pdf.read_bytes()
    assert summary.pages(before) == 1
    assert summary.main(str(source), str(pdf)) == 0
    assert pdf.read_bytes() == before  # from the same text it is not printed again
    source.write_text("# Long\n\n" + "A line.\n\n" * 100, encoding="utf-8")
    assert summary.main(str(source), str(pdf)) == 1
    assert "must fit one page" in capsys.readouterr().err
    assert pdf.read_bytes() == before


def test_letters_are_as_large_as_fit_one_page(tmp_path, monkeypatch):
    source, pdf, tried = tmp_path / "summary.md", tmp_path / "summary.pdf", []

    def printed(browser, page):
        tried.append(float(re.search(r"font-size: ([\d.]+)pt", page)[1]))
        return b"/Type /Page\n" * (2 if tried[-1] > summary.SIZES[2] else 1)

    monkeypatch.setattr(summary, "_printed", printed)
    monkeypatch.setattr(summary, "BROWSERS", ("true",))
    source.write_text("# Any\n", encoding="utf-8")
    assert summary.main(str(source), str(pdf)) == 0
    assert tried == list(summary.SIZES[:3])
    assert summary.pages(pdf.read_bytes()) == 1


# ---- the RO-Crate ----


def entities(root):
    """The entities of a crate by id, as the rocrate package reads them back."""
    from rocrate.rocrate import ROCrate

    return {entity.id: entity for entity in ROCrate(root).get_entities()}


@pytest.fixture
def small(tmp_path):
    """A repository with one file in each folder that a crate describes."""
    for name in (*crate.SINGLE, "workflow/Snakefile", "results/archive/old.json", "pna/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes() if name == "CITATION.cff" else name.encode())
    for folder in crate.PARTS:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "file.json").write_text(f'"{folder}"')
    return tmp_path


def test_a_crate_has_every_file_with_its_hash_and_nothing_else(small):
    assert crate.main(str(small)) == 0
    described = {name: entity for name, entity in entities(small).items() if "sha256" in entity}
    expected = {*crate.SINGLE, "workflow/Snakefile", *(f"{folder}/file.json" for folder in crate.PARTS)}
    assert described.keys() == expected
    for name, entity in described.items():
        content = (small / name).read_bytes()
        assert entity["sha256"] == hashlib.sha256(content).hexdigest()
        assert entity["contentSize"] == str(len(content))
    crate.main(str(small))
    assert described.keys() == {name for name, entity in entities(small).items() if "sha256" in entity}


CONTEXT = "https://w3id.org/ro/crate/1.1/context"


def context():
    """The terms of RO-Crate 1.1, without a network: those of 1.3, which rocrate ships, where they differ as in 1.1."""
    shipped = resources.files("rocrate") / "data" / "ro-crate.jsonld"
    terms = json.loads(shipped.read_text(encoding="utf-8"))["@context"]
    old = {name: f"https://bioschemas.org/{name}" for name in ("ComputationalWorkflow", "FormalParameter")}
    old |= {name: f"https://bioschemas.org/ComputationalWorkflow#{name}" for name in ("input", "output")}
    return {"@context": {name: term for name, term in terms.items() if name not in crate.NEWER_TERMS} | old}


def check_crate(root):
    """What RO-Crate 1.1 and Workflow RO-Crate 1.0 require of the metadata file."""
    graph = json.loads((root / "ro-crate-metadata.json").read_text(encoding="utf-8"))
    assert graph["@context"] == [CONTEXT, crate.NEWER_TERMS]
    by_id = {entity["@id"]: entity for entity in graph["@graph"]}
    assert len(by_id) == len(graph["@graph"])
    assert all("@type" in entity for entity in by_id.values())
    terms = {term for entity in by_id.values() for term in entity if not term.startswith("@")}
    assert terms <= context()["@context"].keys() | crate.NEWER_TERMS.keys()
    descriptor, top = by_id["ro-crate-metadata.json"], by_id["./"]
    assert descriptor["about"] == {"@id": "./"}
    conforms = {one["@id"] for one in descriptor["conformsTo"]}
    assert conforms == {"https://w3id.org/ro/crate/1.1", crate.WORKFLOW_CRATE}
    assert top["@type"] == "Dataset"
    assert {"name", "description", "datePublished", "license", "mainEntity"} <= top.keys()
    main = by_id[top["mainEntity"]["@id"]]
    assert set(main["@type"]) == {"File", "SoftwareSourceCode", "ComputationalWorkflow"}
    assert by_id[main["programmingLanguage"]["@id"]]["@type"] == "ComputerLanguage"
    for entity in by_id.values():  # every reference leads to an entity, or outside
        for value in entity.values():
            for one in value if isinstance(value, list) else [value]:
                assert not isinstance(one, dict) or one["@id"] in by_id or "://" in one["@id"]
    data = {name for name, entity in by_id.items() if "File" in entity["@type"]}
    assert data <= {part["@id"] for part in top["hasPart"]}


def test_a_crate_is_valid(small):
    crate.main(str(small))
    check_crate(small)


@pytest.fixture
def validate(monkeypatch):
    """The official validator: what it finds wrong with a crate, by the profile of Workflow RO-Crates and its own."""
    from rocrate_validator import services
    from rocrate_validator.models import Severity
    from rocrate_validator.utils.http import HttpRequester

    def get(_, address, **options):
        assert address == CONTEXT
        response = requests.Response()
        response.status_code, response._content = 200, json.dumps(context()).encode()
        response.headers["Content-Type"] = "application/ld+json"
        return response

    def issues(root):
        facts = {"profile_identifier": "workflow-ro-crate-1.0", "requirement_severity": Severity.REQUIRED}
        result = services.validate(services.ValidationSettings(rocrate_uri=str(root), offline=True, **facts))
        return sorted({issue.check.identifier for issue in result.get_issues()})

    monkeypatch.setattr(HttpRequester, "get", get, raising=False)
    return issues


def test_the_official_validator_finds_nothing_wrong(small, validate):
    crate.main(str(small))
    assert validate(small) == []
    assert validate(ROOT) == []


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        (lambda graph, by_id: by_id["./"].pop("license"), "ro-crate-1.1_"),
        (lambda graph, by_id: by_id["./"].pop("mainEntity"), "workflow-ro-crate-1.0_"),
        (lambda graph, by_id: graph.update({"@context": CONTEXT}), "ro-crate-1.1_"),  # without it sha256 means nothing
    ],
)
def test_the_official_validator_sees_what_is_wrong(small, validate, damage, check):
    crate.main(str(small))
    path = small / "ro-crate-metadata.json"
    graph = json.loads(path.read_text(encoding="utf-8"))
    damage(graph, {entity["@id"]: entity for entity in graph["@graph"]})
    path.write_text(json.dumps(graph), encoding="utf-8")
    assert any(name.startswith(check) for name in validate(small))


def test_the_repositorys_crate_is_valid_and_every_file_is_as_it_says():
    """`python workflow/crate.py` renews it, which takes two seconds."""
    check_crate(ROOT)
    described, now = (_hashes(graph["@graph"]) for graph in (_metadata(ROOT), crate.describe(ROOT).metadata.generate()))
    assert crate.PARTS.keys() <= {name.split("/")[0] for name in described}
    assert sorted(described.keys() ^ now.keys()) == []
    assert [name for name in described if described[name] != now[name]] == []


def _metadata(root):
    return json.loads((root / "ro-crate-metadata.json").read_text(encoding="utf-8"))


def _hashes(graph):
    return {entity["@id"]: entity["sha256"] for entity in graph if "sha256" in entity}


# ---- Croissant ----


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A thinned benchmark, and what mlcroissant loads of its description."""
    import mlcroissant as mlc

    folder = tmp_path_factory.mktemp("croissant")
    splits = {spec: [split.thinned(5, 256) for split in multitask(spec)] for spec in (DESCRIBED, RELEASED)}
    sets = {str(spec): make(spec, splits[spec]) for spec in splits}
    croissant.write(sets, folder / "croissant.json", folder / "data")
    return sets, mlc.Dataset(jsonld=folder / "croissant.json"), folder


def test_mlcroissant_finds_nothing_wrong(loaded):
    _, dataset, _ = loaded
    issues = dataset.metadata.ctx.issues
    assert (issues.errors, issues.warnings) == (set(), set())


@pytest.mark.parametrize("spec", ["described", "released"])
def test_mlcroissant_loads_every_graph_with_its_labels(loaded, spec):
    sets, dataset, _ = loaded
    graphs = [graph for part in sets[spec].sets.values() for graph in part]
    records = list(dataset.records(spec))
    assert len(records) == len(graphs) > 0
    (units,) = (row for row in dataset.records("maxima") if row["maxima/specification"] in (spec, spec.encode()))
    for record, graph in zip(records, graphs, strict=True):
        values = {name.partition("/")[2]: value for name, value in record.items()}
        assert [values["edges_from"], values["edges_to"]] == graph.edge_index.tolist()
        assert values["x"] == pytest.approx(graph.x[:, 1].tolist(), rel=1e-6)
        assert graph.x[:, 0].argmax() == values["source"]
        assert values["family"].decode() == graph.family
        labels = [*graph.y_node.T.tolist(), *graph.y_graph[0].tolist()]
        for task, label in zip(TASKS, labels, strict=True):
            scaled = np.array(values[task.name]) / units[f"maxima/{task.name}"]
            np.testing.assert_allclose(scaled, label, rtol=1e-5)


def test_a_file_that_was_altered_is_refused(loaded, tmp_path):
    import mlcroissant as mlc

    _, _, folder = loaded
    shutil.copytree(folder, tmp_path / "copy")
    file = tmp_path / "copy" / "data" / "multitask-described.jsonl"
    file.write_text(file.read_text().replace('"nodes": 15', '"nodes": 16', 1))
    with pytest.raises(mlc.GenerationError):
        list(mlc.Dataset(jsonld=tmp_path / "copy" / "croissant.json").records("described"))


def test_the_repositorys_description_is_valid():
    import mlcroissant as mlc

    dataset = mlc.Dataset(jsonld=ROOT / "croissant.json")
    assert (dataset.metadata.ctx.issues.errors, dataset.metadata.ctx.issues.warnings) == (set(), set())
    assert [record_set.name for record_set in dataset.metadata.record_sets] == ["maxima", "described", "released"]
    assert dataset.metadata.version == pna.__version__

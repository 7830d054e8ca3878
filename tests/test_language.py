"""The texts stay readable: docstrings stand alone, names say what a thing is, the README's first screen is short."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "pna", "report", "verification", "workflow")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN, _, REST = README.partition("<!-- the end of the first screen -->")

# In place of a capital letter a docstring may start with a formula, or with a name that is written in small letters.
FORMULA = re.compile(
    r"[^\w\s]|\d|[αβγδεμσ]"  # a bracket, a number, a Greek letter
    r"|(?!a [a-z]{2})[a-z](_\w+|\d|ᵀ)?(?![\w'])"  # a symbol: x, d_i, q0, gᵀ
    r"|\w+(\(|\[\d|\s?[·^+*/=])"  # f(x), starts[0], weight · x
    r"|(log10|max|min|mean|std|softmax|softmin)\b"  # the paper's functions
    r"|\w+(\.\w+)+|(ogb|graph-tool|matplotlib|networkx|numpy|torch)\b"  # torch.nn.Linear, ogb's GCN
)
# Shapes and nothing else: [V, 3] -> [V], nodes [V, 3], edges [E] -> [V], training, x [R, V] -> [R].
SHAPES = re.compile(r"((\w+ )?\[|[a-z])[^.:]*->", flags=re.DOTALL)
FRAGMENTS = ("Of", "Likewise", "Ditto", "The same", "The other way round", "That", "So many")
AUTOGRAD = {"forward", "backward", "setup_context", "vmap"}  # methods of a Function, whose class says what it computes
PREPOSITIONS = ("As (?!many|much)", "By", "For", "From", "In", "On", "Than", "To", "Until", "With", "Without")
SHORTEST = 6  # words: a shorter sentence that begins with a preposition has no noun of its own
SHORT = 3  # lines of a nested function that needs none
UNCLEAR_MODULES = {"beside", "choice", "draw", "effects", "opening", "quoted", "utils", "helpers", "manager"}
UNCLEAR_NAMES = {
    *("told", "Told", "found", "given", "made", "own", "kept", "takes", "serves", "serving", "settle", "gated_settle"),
    *("beside", "EachItsTask", "Resident"),
}
# Folders in which no variable, argument, attribute, function or class has one of these words for a name.
PARTICIPLES = {"found", "given", "kept", "made", "own", "told"}
NAMED_BY_NOUNS = (
    *("benchmarks", "pna", "report", "verification", "workflow", "tests/experiments", "tests/kernels"),
    *("tests/multitask", "tests/networks", "tests/realworld", "tests/training"),
)
OWN_PART = ("pna/realworld/kernels/message.py", "own")  # an argument of kernels: the docstring says ε or r
ONE_MEANING = ("Run", "Layout")  # classes of which there must not be two


class Definition(NamedTuple):
    """A module, class or function with its place, length and docstring."""

    place: str  # path and line
    name: str
    kind: str  # module, class, function, nested (within a function), or autograd (a method of a Function)
    lines: int
    docstring: str | None


@cache
def definitions(path: Path) -> tuple[Definition, ...]:
    """Return a module and all of its classes, functions and methods, wherever they stand."""
    return tuple(_definitions(path))


def _definitions(path: Path) -> Iterator[Definition]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    yield Definition(f"{name}:1", path.stem, "module", len(text.splitlines()), ast.get_docstring(tree))
    for node, kind in _definitions_in(tree):
        lines = node.end_lineno - node.lineno + 1
        yield Definition(f"{name}:{node.lineno}", node.name, kind, lines, ast.get_docstring(node))


def _definitions_in(node: ast.AST, kind: str = "function") -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, str]]:
    """Yield every class and function below a node and what it is; `kind` is that of functions directly below it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child, "function" if kind == "autograd" and child.name not in AUTOGRAD else kind
            yield from _definitions_in(child, "nested")
        elif isinstance(child, ast.ClassDef):
            yield child, "class"
            of_torch = any(ast.unparse(base).endswith("Function") for base in child.bases)
            yield from _definitions_in(child, "autograd" if of_torch else "function")
        else:
            yield from _definitions_in(child, kind)


def complaint(docstring: str) -> str:
    """Say what is wrong with the first sentence of a docstring; "" if nothing is."""
    first = re.split(r"(?<=[.:;])\s", docstring.strip(), maxsplit=1)[0]
    if SHAPES.match(docstring.strip()):
        return "starts with shapes, and does not say what is computed"
    if not (first[:1].isupper() or FORMULA.match(first)):
        return "starts with neither a capital nor a formula"
    for words in FRAGMENTS:
        if re.match(rf"{words}\b", first):
            return f"starts with {words!r}: a phrase without its noun"
    if re.match(rf"({'|'.join(PREPOSITIONS)})\b", first) and len(first.split()) < SHORTEST:
        return "is a prepositional phrase without a noun"
    return ""


def needs_docstring(name: str, path: str, kind: str = "function", lines: int = 0) -> bool:
    """Whether a definition of this name, kind and length must have a docstring in the file at `path`."""
    if kind == "autograd" or re.fullmatch(r"__\w+__", name):
        return False
    if Path(path).name.startswith("test_") and name.startswith(("test_", "Test")):
        return False  # named by what it asserts
    return kind != "nested" or lines > SHORT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_things_have_a_docstring_and_every_docstring_stands_alone(path):
    wrong = []
    for place, name, kind, lines, docstring in definitions(path):
        if docstring is None:
            if needs_docstring(name, path.relative_to(ROOT).as_posix(), kind, lines):
                wrong.append(f"{place} {kind} {name} has no docstring")
        elif problem := complaint(docstring):
            wrong.append(f"{place} {name}: {docstring.splitlines()[0]!r} {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "path", "kind", "lines", "needed"),
    [
        ("draw", "report/page.py", "function", 2, True),
        ("_draw", "report/page.py", "function", 9, True),
        ("drawn", "verification/test_figures.py", "function", 2, True),
        ("test_draws", "verification/test_figures.py", "function", 9, False),
        ("TestDraw", "verification/test_figures.py", "class", 9, False),
        ("test_figures", "verification/test_figures.py", "module", 9, False),
        ("_draw", "pna/conv.py", "function", 2, True),
        ("_draw", "pna/experiments/mps.py", "function", 2, True),
        ("_Draw", "pna/realworld/kernels/pool.py", "class", 9, True),
        ("_", "pna/kernels/operators.py", "function", 3, True),
        ("__len__", "pna/training/run.py", "function", 9, False),
        ("forward", "pna/kernels/layer.py", "autograd", 9, False),
        ("forward", "pna/conv.py", "function", 2, True),
        ("write", "pna/files.py", "nested", 3, False),
        ("write", "pna/files.py", "nested", 4, True),
        ("write", "benchmarks/speed.py", "nested", 4, True),
    ],
)
def test_what_needs_a_docstring(name, path, kind, lines, needed):
    assert needs_docstring(name, path, kind, lines) == needed


def test_definitions_are_found_wherever_they_stand():
    text = """
class Sum(torch.autograd.Function):
    def forward(x): ...
    def spread(x): ...
class Layer(Module):
    def forward(x): ...
try:
    import a
except ImportError:
    def missing():
        def within(): ...
"""
    assert [(node.name, kind) for node, kind in _definitions_in(ast.parse(text))] == [
        ("Sum", "class"),
        ("forward", "autograd"),
        ("spread", "function"),
        ("Layer", "class"),
        ("forward", "function"),
        ("missing", "function"),
        ("within", "nested"),
    ]


def test_every_folder_has_files():
    assert all(any((ROOT / folder).rglob("*.py")) for folder in FOLDERS)


@pytest.mark.parametrize(
    ("docstring", "words"),
    [
        ("Sum of the messages of each node.", ""),
        ("log10 MSE of each task, [S, 6].", ""),
        ("δ of equation 5.", ""),
        ("d_i in the dtype of the messages.", ""),
        ("a b + c as precise as float32.", ""),
        ("1/√d of each node.", ""),
        ("nodes [V, 3], labels [V, 3] or None -> errors [3].", "does not say what is computed"),
        ("[V, in] -> [V, out].", "does not say what is computed"),
        ("W [R, T, F], shift [R, T, F] -> [R, T, D].", "does not say what is computed"),
        ("mean or sum, x [R, V, F], the graphs of all replicas -> [R, B, F].", "does not say what is computed"),
        ("Apply the layer to node features: [V, in] -> [V, out].", ""),
        ("x [V, F] as [V, T, F / T], without a copy.", ""),
        ("As many layers as nodes.", ""),
        ("a graph of n nodes", "neither a capital nor a formula"),
        ("`count` streams of high priority.", ""),
        ("With one graph in a batch, the loss is that of the graph.", ""),
        ("Of a graph.", "without its noun"),
        ("The same of torch.", "without its noun"),
        ("Likewise.", "without its noun"),
        ("the accumulator's dtype", "neither a capital nor a formula"),
        ("With its unit.", "without a noun"),
        ("As any cell; a result of other data is renamed.", "without a noun"),
    ],
)
def test_what_stands_alone(docstring, words):
    assert words in complaint(docstring)
    assert bool(words) == bool(complaint(docstring))


def test_names_say_what_a_thing_is():
    wrong = [
        f"{place} {kind} {name}"
        for path in FILES
        if path.relative_to(ROOT).as_posix() != "pna/kernels/choice.py"  # a former name, which warns
        for place, name, kind, *_ in definitions(path)
        if name.lstrip("_") in (UNCLEAR_MODULES if kind == "module" else UNCLEAR_NAMES) or name.startswith("share_")
    ]
    assert not wrong, "\n".join(wrong)


def bound_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and name of all variables, arguments, attributes, functions and classes that a source binds.

    Imported names are left out: others chose them.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name


@pytest.mark.parametrize("folder", NAMED_BY_NOUNS)
def test_variables_are_nouns(folder):
    paths = sorted((ROOT / folder).rglob("*.py"))
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in paths
        for line, name in bound_names(path.read_text(encoding="utf-8"))
        if name.lstrip("_") in PARTICIPLES and (path.relative_to(ROOT).as_posix(), name) != OWN_PART
    ]
    assert paths
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", [folder for folder in NAMED_BY_NOUNS if folder.startswith("tests")])
def test_docstrings_of_tests_stand_alone(folder):
    wrong = [
        f"{place} {name}: {docstring.splitlines()[0]!r} {complaint(docstring)}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for place, name, *_, docstring in definitions(path)
        if docstring and complaint(docstring)
    ]
    assert not wrong, "\n".join(wrong)


def test_which_names_a_source_binds():
    text = "from hypothesis import given\nfound = 1\nfor kept, a in b: told.c = g.h\ndef made(*own, d=(e := f)): ..."
    assert sorted(bound_names(text)) == [
        (2, "found"),
        (3, "a"),
        (3, "c"),
        (3, "kept"),
        (4, "d"),
        (4, "e"),
        (4, "made"),
        (4, "own"),
    ]


@pytest.mark.parametrize("name", ONE_MEANING)
def test_one_word_has_one_meaning(name):
    places = [
        place for path in FILES for place, other, kind, *_ in definitions(path) if (other, kind) == (name, "class")
    ]
    assert len(places) <= 1


# ---- the README ----


def words_of(markdown: str) -> list[str]:
    """Return the words that a reader sees, commands included; not pictures, addresses and comments."""
    text = re.sub(r"!\[.*?\]\(.*?\)|<!--.*?-->", "", markdown, flags=re.DOTALL)
    return re.findall(r"[\w'./-]*\w[\w'./-]*", re.sub(r"\]\(.*?\)", "]", text))


def test_the_first_screen_has_at_most_250_words_one_picture_and_five_answers():
    assert 100 < len(words_of(FIRST_SCREEN)) <= 250
    assert len(re.findall(r"!\[", FIRST_SCREEN)) == 1
    assert len(re.findall(r"^- \*\*", FIRST_SCREEN, flags=re.MULTILINE)) == 5
    assert len(re.findall(r"^\./run_all\.sh", FIRST_SCREEN, flags=re.MULTILINE)) == 2


def test_the_glossary_defines_the_seven_terms_right_after_the_first_screen():
    glossary = REST.strip().split("\n## ")[0]
    assert glossary.startswith("## Glossary")
    terms = re.findall(r"^\| \*\*(\w+)\*\*", glossary, flags=re.MULTILINE)
    assert set(terms) == {"cell", "specification", "described", "released", "departure", "replica", "budget"}


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{name}.md" for name in ("results", "speed", "commands", "depth"))]
)
def test_no_page_calls_two_numbers_equal_without_a_margin(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    vague = r"numbers fit|fits as well|none differs|are the same numbers|false as printed|trained anew; of"
    assert not re.findall(vague, text, flags=re.IGNORECASE)

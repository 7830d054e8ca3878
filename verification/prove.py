"""Compiles the formal proofs of `formal/` and says what each rests on: `python -m verification prove`.

A proof counts when its file holds no `Admitted`, `Axiom` or the like and no notation of its own, the tool accepts it,
and the tool itself says that it rests on nothing else: Coq's `Print Assumptions` must answer "Closed under the global
context", and HOL Light's theorems must be without hypotheses, with the logic's own three axioms and no others.

`formal/record.json` keeps what was proved: every statement and every definition as the tools print them, with the
hashes of the files and the versions of the tools. `prove` compares its own run with it, so that a definition emptied
behind a statement's back is noticed; a machine without the tools can say what was proved, and that these are the files.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from verification.files import write
from verification.theorems import COQ, FORMAL, HOL_LIGHT, THEOREMS, sources

__all__ = [
    "CLOSED",
    "RECORD",
    "TRANSCRIPT",
    "NotProvedError",
    "ToolMissingError",
    "compare",
    "forbidden",
    "prove_coq",
    "prove_hol_light",
    "read_transcript",
    "record",
    "recorded",
]

CLOSED = "Closed under the global context"
RECORD = FORMAL / "record.json"
TRANSCRIPT = FORMAL / "theorem_1.transcript.txt"

HOL_LIGHT_AXIOMS = (
    "|- ?f. ONE_ONE f /\\ ~ONTO f",  # infinity
    "|- !P x. P x ==> P ((@) P)",  # choice
    "|- !t. (\\x. t x) = t",  # extensionality
)
FORBIDDEN = {
    COQ: r"Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Abort|Unset\s+\w+\s+Checking|bypass_check"
    # these could hide a definition, or print a statement as another one
    r"|Module|Notation|Infix|Coercion|Load|Add\s+(?:Rec\s+)?(?:LoadPath|ML)|Declare\s+ML|Redirect|Set\s+Printing"
    r"|Global\s+Unset",
    HOL_LIGHT: r"new_axiom|mk_thm|CHEAT_TAC|Obj|external|install_printer|let\s+(?:rec\s+)?(?:axioms|hyp)"
    # these could write into the transcript, which is believed
    r"|print\w*|prerr\w*|output\w*|stdout|Format|Printf|Out_channel|Stdlib|Sys|Unix|use|report|remark|warn",
}
_QUOTED = {
    COQ: r'"(?:[^"]|"")*"',
    HOL_LIGHT: r'"(?:[^"\\]|\\.)*"|`[^`]*`|\'"\'|\{\w*\|',
}
"""What a comment's mark may stand in without beginning or ending a comment: strings, and HOL Light's terms."""
PACKAGES = {
    COQ: (
        "coq",
        "libcoq-mathcomp-algebra",
        "libcoq-mathcomp-algebra-tactics",
        "libcoq-mathcomp-real-closed",
        "libcoq-mathcomp-zify",
    ),
    HOL_LIGHT: ("hol-light", "ocaml"),
}
PROGRAM = {COQ: "coqc", HOL_LIGHT: "hol-light"}

Proofs = dict[str, dict]
"""What a tool says: "theorems", each with its statement and assumptions, and "definitions", each as printed."""


class NotProvedError(ValueError):
    """A proof that is not accepted, or that assumes something, with the reason."""


class ToolMissingError(OSError):
    """The tool is not installed."""


def prove_coq() -> Proofs:
    """Compile every Coq file; return what each theorem and each definition says, or raise NotProvedError."""
    _require_tool(COQ, "coq, libcoq-mathcomp-algebra-tactics, libcoq-mathcomp-real-closed, libcoq-mathcomp-zify")
    _check_sources(COQ)
    modules = [path.stem for path in sources(COQ)]
    with tempfile.TemporaryDirectory() as folder:
        for path in sources(COQ):
            shutil.copy(path, folder)
            _coqc(folder, path.name)
        contents = _ask(folder, {module: f"Print Module {module}" for module in modules})
        opaque = [f"{module}.{name}" for module in modules for name in _OPAQUE.findall(contents[module])]
        sorts = _ask(folder, {place: f"Check ltac:(let T := type of @{place} in {_SORT})" for place in opaque})
        definitions = [f"{module}.{name}" for module in modules for name in _defined(contents[module])]
        definitions += [place for place in opaque if not sorts[place].startswith("Prop")]
        _require_listed(definitions)
        names = {t.name: f"{Path(t.file).stem}.{t.name}" for t in THEOREMS if t.tool == COQ}
        questions = {f"{name}.statement": f"Check {place}" for name, place in names.items()}
        questions |= {f"{name}.assumptions": f"Print Assumptions {place}" for name, place in names.items()}
        answers = _ask(folder, questions | {place: f"Print {place}" for place in definitions})
    theorems = {}
    for name in names:
        statement, assumptions = re.sub(r"^\S+\s+: ", "", answers[f"{name}.statement"]), answers[f"{name}.assumptions"]
        if assumptions != CLOSED:
            raise NotProvedError(f"{name} rests on more than its file: {assumptions}")
        theorems[name] = {"statement": statement, "assumptions": assumptions}
    return {"theorems": theorems, "definitions": {place: answers[place] for place in definitions}}


def _defined(content: str) -> list[str]:
    """The definitions of a module, without the induction principles that Coq adds to a type."""
    names = _DEFINED.findall(content)
    return [name for name in names if not (name.endswith(_PRINCIPLES) and name.rpartition("_")[0] in names)]


def _require_listed(definitions: list[str]) -> None:
    """Raise NotProvedError if a definition of a source is not among those that Coq is asked to print."""
    for path in sources(COQ):
        names = _DEFINES.findall(_without_comments(COQ, path.read_text(encoding="utf-8")))
        missing = [name for name in names if f"{path.stem}.{name}" not in definitions]
        if missing:
            raise NotProvedError(f"{path.name}: Coq does not print the definitions {', '.join(missing)}")


def prove_hol_light() -> tuple[str, Proofs]:
    """Run HOL Light on load.ml and the proofs (half an hour); return the transcript, and what it says."""
    _require_tool(HOL_LIGHT, "hol-light, libnum-ocaml-dev")
    _check_sources(HOL_LIGHT)
    load, *proofs = (path.name for path in sources(HOL_LIGHT))
    uses = "".join(f'#use "{name}";;\n' for name in proofs)
    script = f'#use "{load}";;\nprint_string "{_MARK}\\n";;\n{uses}'
    done = subprocess.run(
        [PROGRAM[HOL_LIGHT]], input=script, capture_output=True, text=True, encoding="utf-8", cwd=FORMAL, check=False
    )
    _, mark, transcript = done.stdout.partition(_MARK)
    if not mark:
        raise NotProvedError(f"load.ml was not loaded: {(done.stdout + done.stderr)[-2000:]}")
    transcript = "\n".join(line.rstrip() for line in transcript.strip().splitlines()) + "\n"
    return transcript, read_transcript(transcript)


_MARK = "=== proofs ==="
_HEADER = """From mathcomp Require Import all_ssreflect all_algebra.
Require Import power_sums proposition_1 theorem_2 four_aggregators.
Unset Printing Implicit Defensive.
Set Printing Width 110.
Local Open Scope ring_scope."""  # so that statements are printed with the notations they are written in
_KINDS = "Definition|Inductive|CoInductive|Record|Variant|Class|Structure"
_DEFINED = re.compile(rf"(?:^|\s)(?:{_KINDS})\s+([\w']+)")
_DEFINES = re.compile(rf"(?:^|\s)(?:{_KINDS}|Fixpoint|CoFixpoint|Function|Example|Instance)\s+([\w']+)")
_OPAQUE = re.compile(r"(?:^|\s)Parameter\s+([\w']+)")  # what is proved with Qed: a proposition, or a value
_SORT = "let S := type of T in exact S"
_PRINCIPLES = ("_rect", "_ind", "_rec", "_sind")
_SEARCH = re.compile(r"(\d+\.\.)+(solved at \d+)?")  # what HOL Light's MESON prints of its search


def read_transcript(transcript: str) -> Proofs:
    """The theorems of a HOL Light transcript, if all are there, without hypotheses, with the logic's axioms only."""
    text = " ".join(" ".join(x for x in transcript.splitlines() if not _SEARCH.fullmatch(x.strip())).split())
    for word in ("Exception", "Error"):
        if word in text:
            raise NotProvedError(f"HOL Light stopped: {text[text.index(word) :][:200]}")
    names = [t.name for t in THEOREMS if t.tool == HOL_LIGHT]
    hypotheses = re.findall(r"term list list = \[([^=]*?)\](?= -| #| val|$)", text)
    if [x.strip() for row in hypotheses for x in row.split(";")] != ["[]"] * len(names):
        raise NotProvedError(f"a theorem has hypotheses, or HOL Light does not say: {hypotheses}")
    axioms = re.findall(r"thm list = \[(.*?)\](?= |$)", text)
    if not axioms or any(sorted(a.strip() for a in row.split(";")) != sorted(HOL_LIGHT_AXIOMS) for row in axioms):
        raise NotProvedError(f"the axioms are not those of the logic: {axioms}")
    rest = "no hypotheses; " + ", ".join(HOL_LIGHT_AXIOMS)
    return {
        "theorems": {name: {"statement": _said(text, name), "assumptions": rest} for name in names},
        "definitions": {name: _said(text, name) for name in _hol_light_definitions()},
    }


def _said(text: str, name: str) -> str:
    """The statement that a transcript prints for a theorem or a definition, which must occur exactly once."""
    printed = re.findall(rf"val {name} : thm = (\|- .*?)(?= val | - : | #|$)", text)
    if len(printed) != 1:
        raise NotProvedError(f"{name} is not proved in the transcript")
    return printed[0].strip()


def _hol_light_definitions() -> list[str]:
    """The names of the definitions in HOL Light's sources."""
    texts = [_without_comments(HOL_LIGHT, path.read_text(encoding="utf-8")) for path in sources(HOL_LIGHT)]
    return [name for text in texts for name in re.findall(r"^let (\w+) = new_definition", text, flags=re.MULTILINE)]


def forbidden(tool: str, source: str) -> Iterator[str]:
    """Yield what a source takes on trust instead of proving it, comments apart: "line 3: Admitted" and the like."""
    code = _without_comments(tool, source)
    for match in re.finditer(rf"\b(?:{FORBIDDEN[tool]})\b", code):
        yield f"line {code.count(chr(10), 0, match.start()) + 1}: {match[0]}"
    for match in re.finditer(_QUOTED[tool], source):
        if re.search(r"\(\*|\*\)|^'|^\{", match[0]):  # what is a comment must not depend on how quotes are read
            line = source.count("\n", 0, match.start()) + 1
            yield f"line {line}: quotes that may hide a comment's mark: {match[0][:20]}"


def record(tool: str, proofs: Proofs, transcript: str | None = None) -> None:
    """Store what was proved in record.json, with hashes and versions; store HOL Light's transcript, too."""
    content = _read_record()
    content[tool] = {
        "versions": _versions(tool),
        "files": {path.name: _hash(path) for path in sources(tool)},
        **proofs,
    }
    if transcript is not None:
        TRANSCRIPT.write_text(transcript, encoding="utf-8")
        content[tool]["transcript"] = _hash(TRANSCRIPT)
    write(RECORD, dict(sorted(content.items())))


def compare(tool: str, proofs: Proofs) -> None:
    """Raise NotProvedError unless files, statements and definitions are those recorded, line breaks apart.

    Another version of the tool may print a statement differently. That is refused too, and the message says so.
    """
    content = recorded(tool)
    try:
        _require_same(content, proofs)
    except NotProvedError as error:
        if (installed := _versions(tool)) == content["versions"]:
            raise
        versions = f"recorded with {_listed(content['versions'])}, installed: {_listed(installed)}"
        raise NotProvedError(
            f"{error}. {tool} has another version here ({versions}), which may print the same otherwise"
        ) from error


def _listed(versions: dict[str, str]) -> str:
    """The packages with their versions, on one line."""
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _on_one_line(answer: str | dict[str, str]) -> str | dict[str, str]:
    """What a tool printed, with its white space made single blanks: where lines break says nothing."""
    if isinstance(answer, str):
        return " ".join(answer.split())
    return {part: _on_one_line(text) for part, text in answer.items()}


def _require_same(content: dict, proofs: Proofs) -> None:
    """Raise NotProvedError unless theorems and definitions are printed as they are recorded, line breaks apart."""
    for part in ("theorems", "definitions"):
        before, now = _on_one_line(content[part]), _on_one_line(proofs[part])
        changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if changed:
            name = changed[0]
            raise NotProvedError(
                f"{', '.join(changed)}: not what {RECORD.name} says. Recorded: {before.get(name)}. Now: {now.get(name)}"
            )


def recorded(tool: str) -> dict:
    """The record of a tool's proofs; raises NotProvedError if a file, or HOL Light's transcript, has changed since."""
    content = _read_record().get(tool)
    if content is None:
        raise NotProvedError(f"{RECORD.name} has nothing on {tool}")
    changed = [path.name for path in sources(tool) if content["files"].get(path.name) != _hash(path)]
    if tool == HOL_LIGHT and content.get("transcript") != _hash(TRANSCRIPT):
        changed.append(TRANSCRIPT.name)
    if changed:
        raise NotProvedError(f"{', '.join(changed)} changed since the proof was recorded: run prove --record")
    if tool == HOL_LIGHT:
        _require_same(content, read_transcript(TRANSCRIPT.read_text(encoding="utf-8")))
    return content


def _check_sources(tool: str) -> None:
    """Raise NotProvedError if a source takes something on trust, or states other theorems than the table lists."""
    for path in sources(tool):
        text = path.read_text(encoding="utf-8")
        believed = list(forbidden(tool, text))
        if believed:
            raise NotProvedError(f"{path.name}: {'; '.join(believed)}")
        if tool == COQ:
            stated = re.findall(r"^\s*Theorem (\w+)", _without_comments(tool, text), flags=re.MULTILINE)
            listed = [t.name for t in THEOREMS if t.file == path.name]
            if stated != listed:
                raise NotProvedError(f"{path.name}: its theorems are {stated}, the table has {listed}")


def _without_comments(tool: str, source: str) -> str:
    """The source with (* comments *), which nest, made blank; lines stay where they are, and quotes are left whole."""
    parts, depth = [], 0
    for token in re.split(rf"(\(\*|\*\)|{_QUOTED[tool]})", source):
        depth += {"(*": 1, "*)": -1}.get(token, 0)
        inside = depth > 0 or token == "*)"
        parts.append("\n" * token.count("\n") if inside else token)
    return "".join(parts)


def _ask(folder: str, questions: dict[str, str]) -> dict[str, str]:
    """Coq's answer to each question about the compiled files."""
    lines = [_HEADER, f"Require {' '.join(path.stem for path in sources(COQ))}."]
    lines += [f'Redirect "{name}" {question}.' for name, question in questions.items()]
    (Path(folder) / "ask.v").write_text("\n".join(lines), encoding="utf-8")
    _coqc(folder, "ask.v")
    return {name: (Path(folder) / f"{name}.out").read_text(encoding="utf-8").strip() for name in questions}


def _coqc(folder: str, name: str) -> None:
    """Compile one file of the folder with Coq; raise NotProvedError, with Coq's message, if that fails."""
    done = subprocess.run(
        [PROGRAM[COQ], "-w", "none", name], cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        raise NotProvedError(f"{name}: coqc says {(done.stdout + done.stderr).strip()[-1500:]}")


def _require_tool(tool: str, packages: str) -> None:
    """Raise ToolMissingError, which names Debian's packages, unless the tool's program is installed."""
    if shutil.which(PROGRAM[tool]) is None:
        raise ToolMissingError(f"{PROGRAM[tool]} is not installed (Debian: {packages})")


def _versions(tool: str) -> dict[str, str]:
    """The version of each package that the tool consists of."""
    return {package: _version(package) for package in PACKAGES[tool]}


def _version(package: str) -> str:
    """The version of a package as Debian reports it, or "not from a package" in its place."""
    if shutil.which("dpkg-query") is None:
        return "not from a package"
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else "not from a package"


def _hash(path: Path) -> str:
    """SHA-256 of a file, or the word "missing" if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"


def _read_record() -> dict:
    """The content of record.json; empty if there is no such file."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}

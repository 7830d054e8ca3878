"""Compiles the formal proofs of `formal/` and says what each rests on: `python -m verification prove`.

A proof counts when its file holds no `Admitted`, `Axiom` or the like, the tool accepts it, and the tool itself says
that it rests on nothing else: Coq's `Print Assumptions` must answer "Closed under the global context", and HOL Light's
theorems must be without hypotheses, with the logic's own three axioms and no others.

`formal/record.json` keeps what was proved, with the hashes of the files and the versions of the tools, so that a
machine without them can say what was proved, and whether these are still the files.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from verification.theorems import COQ, FORMAL, HOL_LIGHT, THEOREMS, sources

__all__ = [
    "CLOSED",
    "RECORD",
    "TRANSCRIPT",
    "NotProvedError",
    "ToolMissingError",
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
    COQ: r"Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|Unset\s+\w+\s+Checking|bypass_check|Abort",
    HOL_LIGHT: r"new_axiom|mk_thm|CHEAT_TAC",
}
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


class NotProvedError(ValueError):
    """A proof that is not one, and why."""


class ToolMissingError(OSError):
    """The tool is not installed."""


def prove_coq() -> dict[str, dict[str, str]]:
    """Compiles every Coq file; returns each theorem's statement and assumptions, or raises NotProvedError."""
    _require_tool(COQ, "coq, libcoq-mathcomp-algebra-tactics, libcoq-mathcomp-real-closed, libcoq-mathcomp-zify")
    _check_sources(COQ)
    with tempfile.TemporaryDirectory() as folder:
        for path in sources(COQ):
            shutil.copy(path, folder)
            _coqc(folder, path.name)
        names = [(Path(t.file).stem, t.name) for t in THEOREMS if t.tool == COQ]
        lines = [_HEADER, f"Require {' '.join(path.stem for path in sources(COQ))}."]
        for module, name in names:
            lines.append(f'Redirect "{name}.statement" Check {module}.{name}.')
            lines.append(f'Redirect "{name}.assumptions" Print Assumptions {module}.{name}.')
        (Path(folder) / "ask.v").write_text("\n".join(lines), encoding="utf-8")
        _coqc(folder, "ask.v")
        answers = {name: {k: _answer(folder, name, k) for k in ("statement", "assumptions")} for _, name in names}
    for name, answer in answers.items():
        if answer["assumptions"] != CLOSED:
            raise NotProvedError(f"{name} rests on more than its file: {answer['assumptions']}")
    return answers


def prove_hol_light() -> tuple[str, dict[str, dict[str, str]]]:
    """Runs HOL Light on load.ml and theorem_1.ml (half an hour); returns the latter's transcript, and what it says."""
    _require_tool(HOL_LIGHT, "hol-light, libnum-ocaml-dev")
    _check_sources(HOL_LIGHT)
    script = f'#use "load.ml";;\nprint_string "{_MARK}\\n";;\n#use "theorem_1.ml";;\n'
    done = subprocess.run(
        [PROGRAM[HOL_LIGHT]], input=script, capture_output=True, text=True, encoding="utf-8", cwd=FORMAL, check=False
    )
    _, mark, transcript = done.stdout.partition(_MARK)
    if not mark:
        raise NotProvedError(f"load.ml was not loaded: {(done.stdout + done.stderr)[-2000:]}")
    transcript = "\n".join(line.rstrip() for line in transcript.strip().splitlines()) + "\n"
    return transcript, read_transcript(transcript)


_MARK = "=== theorem_1.ml ==="
_HEADER = """From mathcomp Require Import all_ssreflect all_algebra.
Require Import power_sums proposition_1 theorem_2 four_aggregators.
Unset Printing Implicit Defensive.
Set Printing Width 110.
Local Open Scope ring_scope."""  # so that statements are printed with the notations they are written in


def read_transcript(transcript: str) -> dict[str, dict[str, str]]:
    """The theorems of a HOL Light transcript, if all are there, without hypotheses, with the logic's axioms only."""
    text = " ".join(transcript.split())
    for word in ("Exception", "Error"):
        if word in text:
            raise NotProvedError(f"HOL Light stopped: {text[text.index(word) :][:200]}")
    names = [t.name for t in THEOREMS if t.tool == HOL_LIGHT]
    hypotheses = re.findall(r"term list list = (\[[^=]*?\]) -?", text)
    if hypotheses != ["[" + "; ".join("[]" for _ in names) + "]"]:
        raise NotProvedError(f"a theorem has hypotheses, or HOL Light does not say: {hypotheses}")
    axioms = re.findall(r"thm list = \[(.*?)\](?= |$)", text)
    if [sorted(a.strip() for a in found.split(";")) for found in axioms] != [sorted(HOL_LIGHT_AXIOMS)]:
        raise NotProvedError(f"the axioms are not those of the logic: {axioms}")
    answers = {}
    for name in names:
        found = re.findall(rf"val {name} : thm = (\|- .*?)(?= val | - : |$)", text)
        if len(found) != 1:
            raise NotProvedError(f"{name} is not proved in the transcript")
        answers[name] = {"statement": found[0].strip(), "assumptions": "no hypotheses; " + ", ".join(HOL_LIGHT_AXIOMS)}
    return answers


def forbidden(tool: str, source: str) -> Iterator[str]:
    """What a source holds that would be believed and not proved, comments apart: "line 3: Admitted"."""
    code = _without_comments(source)
    for found in re.finditer(rf"\b(?:{FORBIDDEN[tool]})\b", code):
        yield f"line {code.count(chr(10), 0, found.start()) + 1}: {found[0]}"


def record(tool: str, answers: dict[str, dict[str, str]]) -> None:
    """Keeps what was proved in record.json, with hashes and versions."""
    content = _read_record()
    content[tool] = {
        "versions": {package: _version(package) for package in PACKAGES[tool]},
        "files": {path.name: _hash(path) for path in sources(tool)},
        "theorems": answers,
    }
    RECORD.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def recorded(tool: str) -> dict:
    """What record.json keeps of the tool; raises NotProvedError if a file has changed since."""
    content = _read_record().get(tool)
    if content is None:
        raise NotProvedError(f"{RECORD.name} has nothing on {tool}")
    changed = [path.name for path in sources(tool) if content["files"].get(path.name) != _hash(path)]
    if changed:
        raise NotProvedError(f"{', '.join(changed)} changed since the proof was recorded: run prove again")
    return content


def _check_sources(tool: str) -> None:
    for path in sources(tool):
        text = path.read_text(encoding="utf-8")
        found = list(forbidden(tool, text))
        if found:
            raise NotProvedError(f"{path.name}: {'; '.join(found)}")
        if tool == COQ:
            stated = re.findall(r"^\s*Theorem (\w+)", _without_comments(text), flags=re.MULTILINE)
            listed = [t.name for t in THEOREMS if t.file == path.name]
            if stated != listed:
                raise NotProvedError(f"{path.name}: its theorems are {stated}, the table has {listed}")


def _without_comments(source: str) -> str:
    """The source with (* comments *), which nest, made blank; lines stay where they are."""
    kept, depth = [], 0
    for token in re.split(r"(\(\*|\*\))", source):
        depth += {"(*": 1, "*)": -1}.get(token, 0)
        inside = depth > 0 or token == "*)"
        kept.append("\n" * token.count("\n") if inside else token)
    return "".join(kept)


def _coqc(folder: str, name: str) -> None:
    done = subprocess.run(
        [PROGRAM[COQ], "-w", "none", name], cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        raise NotProvedError(f"{name}: coqc says {(done.stdout + done.stderr).strip()[-1500:]}")


def _answer(folder: str, name: str, kind: str) -> str:
    text = (Path(folder) / f"{name}.{kind}.out").read_text(encoding="utf-8").strip()
    return re.sub(r"^\S+\s+: ", "", text) if kind == "statement" else text


def _require_tool(tool: str, packages: str) -> None:
    if shutil.which(PROGRAM[tool]) is None:
        raise ToolMissingError(f"{PROGRAM[tool]} is not installed (Debian: {packages})")


def _version(package: str) -> str:
    """The package's version as Debian says it, or "not from a package"."""
    if shutil.which("dpkg-query") is None:
        return "not from a package"
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else "not from a package"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_record() -> dict:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}

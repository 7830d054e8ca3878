import json
import shutil

import pytest

from verification import prove, theorems
from verification.__main__ import main
from verification.prove import NotProvedError, forbidden, read_transcript
from verification.theorems import COQ, HOL_LIGHT, THEOREMS, Theorem, sources

needs_transcript = pytest.mark.skipif(
    not prove.TRANSCRIPT.exists(),
    reason="HOL Light's transcript is not recorded: python -m verification prove --slow --record",
)
needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")


@pytest.mark.parametrize("tool", [COQ, HOL_LIGHT])
def test_no_source_holds_what_would_only_be_believed(tool):
    prove._check_sources(tool)


@pytest.mark.parametrize(
    ("tool", "source", "findings"),
    [(COQ, "Theorem t : False.\nAdmitted.", ["line 2: Admitted"]), (COQ, "Axiom a : False.", ["line 1: Axiom"]),
     (COQ, "Proof. admit. Defined.", ["line 1: admit"]), (COQ, "Parameter p : nat.", ["line 1: Parameter"]),
     (COQ, "Unset Guard Checking.", ["line 1: Unset Guard Checking"]),
     (COQ, "Notation \"'n' 'reals' 'collide'\" := True.", ["line 1: Notation"]),
     (COQ, "#[bypass_check(guard)]", ["line 1: bypass_check"]), (COQ, "(* Admitted (* Axiom *) admit *) Qed.", []),
     (COQ, "Lemma admittedly : True.", []), (COQ, "(* one\n*)\nConjecture c : False.", ["line 3: Conjecture"]),
     (HOL_LIGHT, "let T = new_axiom `F`;;", ["line 1: new_axiom"]),
     (COQ, 'Load "/tmp/other".', ["line 1: Load"]), (COQ, 'Add LoadPath "/tmp".', ["line 1: Add LoadPath"]),
     (COQ, 'Add Rec LoadPath "/tmp".', ["line 1: Add Rec LoadPath"]),
     (COQ, 'Declare ML Module "m".', ["line 1: Declare ML", "line 1: Module"]),
     (COQ, 'Redirect "small.statement" Check I.', ["line 1: Redirect"]),
     (COQ, "Global Set Printing Depth 3.", ["line 1: Set Printing"]),
     (COQ, "Global Unset Printing Notations.", ["line 1: Global Unset"]),
     (COQ, "Unset Printing Implicit Defensive.", []),
     (COQ, "Coercion is_true : bool >-> Sortclass.", ["line 1: Coercion"]),
     (COQ, 'Definition a := "text".', []), (COQ, '(* said: "admit" *) Qed.', []),
     (HOL_LIGHT, "let T = mk_thm([],`F`);;", ["line 1: mk_thm"]),
     (HOL_LIGHT, "let T : thm = Obj.magic ([],`F`);;", ["line 1: Obj"]),
     (HOL_LIGHT, 'external f : int -> thm = "%identity";;', ["line 1: external"]),
     (HOL_LIGHT, "#install_printer p;;", ["line 1: install_printer"]),
     (HOL_LIGHT, 'print_string "val THEOREM_1 : thm = |- F";;', ["line 1: print_string"]),
     (HOL_LIGHT, '#use "other.ml";;', ["line 1: use"]),
     (HOL_LIGHT, "Printf.printf x;;", ["line 1: Printf", "line 1: printf"]),
     (HOL_LIGHT, "let axioms () = [];;", ["line 1: let axioms"]), (HOL_LIGHT, "let hyp _ = [];;", ["line 1: let hyp"]),
     (HOL_LIGHT, "map hyp [T];; axioms();;", [])],
)  # fmt: skip
def test_what_is_only_believed_is_found(tool, source, findings):
    assert list(forbidden(tool, source)) == findings


@pytest.mark.parametrize(
    ("tool", "source", "word"),
    [(COQ, 'Definition a := "(*"%string.\nNotation "\'n\'" := True.\nDefinition b := "*)"%string.', "Notation"),
     (COQ, 'Definition a := """(*"%string. Admitted. (* *)', "Admitted"),
     (HOL_LIGHT, 'let s = "(*";;\nlet T = new_axiom `F`;;\nlet t = "*)";;', "new_axiom"),
     (HOL_LIGHT, 'let s = "\\"(*";; let T = new_axiom `F`;; let t = "*)";;', "new_axiom")],
)  # fmt: skip
def test_a_string_hides_nothing(tool, source, word):
    findings = list(forbidden(tool, source))
    assert any(finding.endswith(f": {word}") for finding in findings)
    assert any("may hide a comment" in finding for finding in findings)


@pytest.mark.parametrize("quote", ["'\"'", '{|"|}', "{x|(*|x}"])
def test_quotes_that_ocaml_reads_in_another_way_are_refused(quote):
    """Read as a string, what stands between two of them would seem to be in it."""
    assert any("may hide" in x for x in forbidden(HOL_LIGHT, f"(* {quote} *) let T = new_axiom `F`;; (* {quote} *)"))


@needs_coq
def test_every_coq_theorem_is_proved_closed_and_as_recorded():
    proofs = prove.prove_coq()
    assert list(proofs["theorems"]) == [t.name for t in THEOREMS if t.tool == COQ]
    assert {answer["assumptions"] for answer in proofs["theorems"].values()} == {prove.CLOSED}
    assert "prouhet_tarry_escott.solutions" in proofs["definitions"]
    if prove._versions(COQ) == prove.recorded(COQ)["versions"]:  # another one may print the same otherwise
        prove.compare(COQ, proofs)


def with_source(monkeypatch, tmp_path, text, name="small"):
    """One file and one theorem in place of the project's, with a record of its own."""
    (tmp_path / f"{name}.v").write_text(text, encoding="utf-8")
    monkeypatch.setattr(prove, "sources", lambda tool: [tmp_path / f"{name}.v"])
    theorem = next((t for t in THEOREMS if t.file == f"{name}.v"), Theorem("", "", f"{name}.v", name, ""))
    monkeypatch.setattr(prove, "THEOREMS", (theorem,))
    monkeypatch.setattr(prove, "_HEADER", "")
    monkeypatch.setattr(prove, "RECORD", tmp_path / "record.json")


@needs_coq
@pytest.mark.parametrize(
    ("text", "message"),
    [("Variable a : False.\nTheorem small : False. Proof. exact a. Qed.", "rests on more"),
     ("From Coq Require Import Classical.\nTheorem small : forall P, P \\/ ~ P. Proof. exact classic. Qed.", "more"),
     ("Theorem small : False. Proof. exact I. Qed.", "coqc says"),
     ("Theorem other : True. Proof. exact I. Qed.", "the table has"),
     ("Theorem small : False. Admitted.", "Admitted"),
     ("Module M. Definition a := 1. End M.\nTheorem small : M.a = 1. Proof. reflexivity. Qed.", "line 1: Module")],
)  # fmt: skip
def test_what_is_not_proved_is_not_accepted(monkeypatch, tmp_path, text, message):
    with_source(monkeypatch, tmp_path, text)
    with pytest.raises(NotProvedError, match=message):
        prove.prove_coq()


SMALL = """From Coq Require Import List.
Definition sizes := @cons nat 2 nil.
Theorem small : Forall (fun n => 1 < n) sizes. Proof. repeat constructor. Qed."""


@needs_coq
def test_an_emptied_definition_is_noticed(monkeypatch, tmp_path):
    """The sabotage behind a true statement: nothing is left of what it speaks about."""
    with_source(monkeypatch, tmp_path, SMALL)
    proofs = prove.prove_coq()
    assert proofs["theorems"]["small"]["statement"] == "List.Forall (fun n : nat => 1 < n) small.sizes"
    assert "2 :: nil" in proofs["definitions"]["small.sizes"]
    prove.record(COQ, proofs)
    prove.compare(COQ, proofs)
    (tmp_path / "small.v").write_text(SMALL.replace("@cons nat 2 nil", "@nil nat"), encoding="utf-8")
    emptied = prove.prove_coq()
    assert emptied["theorems"] == proofs["theorems"]
    with pytest.raises(NotProvedError, match=r"small\.v changed since"):
        prove.compare(COQ, emptied)
    monkeypatch.setattr(prove, "_hash", lambda path: prove._read_record()[COQ]["files"]["small.v"])
    with pytest.raises(NotProvedError, match=r"small\.sizes: not what record\.json says"):
        prove.compare(COQ, emptied)


@needs_coq
@pytest.mark.parametrize(
    ("text", "name", "body"),
    [("Definition sizes := 3. Definition sizes' := 4.\nTheorem small : sizes' = 4. Proof. reflexivity. Qed.",
      "sizes'", "4"),
     ("Definition one := 1.\nTheorem small : one = 1. Proof. reflexivity. Qed.", "one", "1"),
     ("Lemma value : Prop. Proof. exact True. Qed.\nTheorem small : value -> value. Proof. trivial. Qed.",
      "value", "True"),
     ("Lemma value : nat. Proof. exact 4. Defined.\nTheorem small : value = 4. Proof. reflexivity. Qed.",
      "value", "4")],
    ids=["prime", "one_line", "opaque", "transparent"],
)  # fmt: skip
def test_every_definition_is_printed(monkeypatch, tmp_path, text, name, body):
    with_source(monkeypatch, tmp_path, text)
    assert prove.prove_coq()["definitions"][f"small.{name}"].startswith(f"small.{name} = {body}\n")


@needs_coq
def test_a_definition_that_coq_does_not_print_is_refused(monkeypatch, tmp_path):
    with_source(monkeypatch, tmp_path, SMALL)
    monkeypatch.setattr(prove, "_defined", lambda content: [])
    with pytest.raises(NotProvedError, match=r"small\.v: Coq does not print the definitions sizes"):
        prove.prove_coq()


@needs_coq
def test_without_its_solutions_the_integer_theorem_is_not_proved(monkeypatch, tmp_path):
    text = (theorems.FORMAL / "prouhet_tarry_escott.v").read_text(encoding="utf-8")
    begin, end = text.index(":= [\n"), text.index("])].")
    with_source(monkeypatch, tmp_path, f"{text[:begin]}:= [{text[end + 2 :]}", "prouhet_tarry_escott")
    with pytest.raises(NotProvedError, match="coqc says"):
        prove.prove_coq()


@pytest.mark.parametrize("part", ["theorems", "definitions"])
def test_what_differs_from_the_record_is_named(monkeypatch, part):
    content = prove.recorded(COQ)
    monkeypatch.setattr(prove, "_versions", lambda tool: content["versions"])
    prove.compare(COQ, content)
    name = next(iter(content[part]))
    with pytest.raises(NotProvedError, match=f"{name}: not what record"):
        prove.compare(COQ, {**content, part: {**content[part], name: "something else"}})


@pytest.mark.parametrize("part", ["theorems", "definitions"])
def test_another_version_of_coq_is_compared_and_named(monkeypatch, part):
    content = prove.recorded(COQ)
    monkeypatch.setattr(prove, "_versions", lambda tool: {"coq": "9.0"})
    theorems = {
        key: {**answer, "statement": answer["statement"].replace(" ", "\n  ")}
        for key, answer in content["theorems"].items()
    }
    definitions = {key: text.replace("\n", " ") for key, text in content["definitions"].items()}
    prove.compare(COQ, {"theorems": theorems, "definitions": definitions})
    name = next(iter(content[part]))
    with pytest.raises(NotProvedError, match=rf"{name}: not what record.*another version here .*installed: coq 9\.0"):
        prove.compare(COQ, {**content, part: {**content[part], name: "True"}})


@pytest.mark.parametrize("tool", [COQ, pytest.param(HOL_LIGHT, marks=needs_transcript)])
def test_what_is_recorded_is_of_these_files(tool):
    assert set(prove.recorded(tool)["theorems"]) == {t.name for t in THEOREMS if t.tool == tool}


def test_a_changed_file_is_not_what_was_recorded(monkeypatch):
    monkeypatch.setattr(prove, "_hash", lambda path: "0")
    with pytest.raises(NotProvedError, match="changed since"):
        prove.recorded(COQ)
    monkeypatch.setattr(prove, "_read_record", dict)
    with pytest.raises(NotProvedError, match="nothing on"):
        prove.recorded(COQ)


@needs_transcript
def test_the_kept_transcript_says_what_is_recorded():
    proofs = read_transcript(prove.TRANSCRIPT.read_text(encoding="utf-8"))
    content = prove.recorded(HOL_LIGHT)
    assert (proofs["theorems"], proofs["definitions"]) == (content["theorems"], content["definitions"])
    assert not any("solved at" in answer["statement"] for answer in proofs["theorems"].values())
    assert set(proofs["definitions"]) == {"ordered", "same_multiset", "aggregator"}


@needs_transcript
@pytest.mark.parametrize(
    ("old", "new"),
    [("~same_multiset x y /\\", "same_multiset x y /\\"), ("m < dimindex (:N) /\\", "m < 1 /\\"),
     ("x$i <= x$(i + 1)", "x$i <= x$i")],
)  # fmt: skip
def test_another_statement_than_the_recorded_one_is_refused(monkeypatch, tmp_path, old, new):
    transcript = prove.TRANSCRIPT.read_text(encoding="utf-8")
    assert old in transcript
    (tmp_path / "other.txt").write_text(transcript.replace(old, new), encoding="utf-8")
    digest = prove._hash(prove.TRANSCRIPT)
    monkeypatch.setattr(prove, "TRANSCRIPT", tmp_path / "other.txt")
    with pytest.raises(NotProvedError, match=r"other\.txt changed since"):
        prove.recorded(HOL_LIGHT)
    real = prove._hash
    monkeypatch.setattr(prove, "_hash", lambda path: digest if path == prove.TRANSCRIPT else real(path))
    with pytest.raises(NotProvedError, match="not what record"):
        prove.recorded(HOL_LIGHT)


TRANSCRIPT = """val ordered : thm = |- !x. o
val same_multiset : thm = |- !x y. s
val aggregator : thm = |- !g. a
val THEOREM_1_ON_THE_CONE : thm = |- !g m. a
val SORTED_IS_UNIQUE : thm = |- !x y. b
0..0..0..2..5..15..51..solved at 180
val SORTED_EXISTS : thm = |- !x. c
0..0..solved at 2
val THEOREM_1 : thm =
  |- !g m. m < dimindex(:N)
           ==> ...
- : term list list = [[]; []; []; []]
- : thm list =
[|- ?f. ONE_ONE f /\\ ~ONTO f; |- !P x. P x ==> P ((@) P);
 |- !t. (\\x. t x) = t]
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("[[]; []; []; []]", "[[`F`]; []; []; []]", "hypotheses"), ("[[]; []; []; []]", "", "hypotheses"),
     ("~ONTO f", "ONTO f", "axioms"), ("thm list =\n[", "thm list =\n[|- F; ", "axioms"),
     ("val THEOREM_1 :", "val THEOREM_2 :", "THEOREM_1 is not proved"),
     ("val THEOREM_1 :", "Exception: Failure \"prove\".\nval THEOREM_1 :", "stopped")],
)  # fmt: skip
def test_a_transcript_of_something_else_is_refused(old, new, message):
    assert old in TRANSCRIPT
    with pytest.raises(NotProvedError, match=message):
        read_transcript(TRANSCRIPT.replace(old, new))


def test_a_whole_transcript_is_read():
    theorems = read_transcript(TRANSCRIPT)["theorems"]
    assert theorems["THEOREM_1"]["statement"] == "|- !g m. m < dimindex(:N) ==> ..."
    assert theorems["SORTED_EXISTS"]["statement"] == "|- !x. c"


def test_every_file_of_the_folder_is_read():
    named = {path for tool in (COQ, HOL_LIGHT) for path in sources(tool)}
    assert named == {*theorems.FORMAL.glob("*.v"), *theorems.FORMAL.glob("*.ml")}
    assert json.loads(prove.RECORD.read_text(encoding="utf-8")).keys() <= {COQ, HOL_LIGHT}


def test_without_the_tool_it_is_said(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["prove"]) == 2
    assert "coqc is not installed" in capsys.readouterr().err


@needs_transcript
def test_every_theorem_is_printed_and_a_change_is_refused(monkeypatch, capsys):
    content = prove.recorded(COQ)
    proofs = {part: dict(content[part]) for part in ("theorems", "definitions")}
    monkeypatch.setattr(prove, "prove_coq", lambda: proofs)
    monkeypatch.setattr(prove, "_versions", lambda tool: content["versions"])
    assert main(["prove"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {theorem.name} ({theorem.file}), {theorem.tool}" in out for theorem in THEOREMS)
    assert "are recorded with HOL Light (--slow repeats it)" in out
    proofs["definitions"]["prouhet_tarry_escott.solutions"] = "prouhet_tarry_escott.solutions = nil"
    assert main(["prove"]) == 1
    assert "prouhet_tarry_escott.solutions: not what record.json says" in capsys.readouterr().err

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
    ("tool", "source", "found"),
    [(COQ, "Theorem t : False.\nAdmitted.", ["line 2: Admitted"]), (COQ, "Axiom a : False.", ["line 1: Axiom"]),
     (COQ, "Proof. admit. Defined.", ["line 1: admit"]), (COQ, "Parameter p : nat.", ["line 1: Parameter"]),
     (COQ, "Unset Guard Checking.", ["line 1: Unset Guard Checking"]),
     (COQ, "#[bypass_check(guard)]", ["line 1: bypass_check"]), (COQ, "(* Admitted (* Axiom *) admit *) Qed.", []),
     (COQ, "Lemma admittedly : True.", []), (COQ, "(* one\n*)\nConjecture c : False.", ["line 3: Conjecture"]),
     (HOL_LIGHT, "let T = new_axiom `F`;;", ["line 1: new_axiom"]),
     (HOL_LIGHT, "let T = mk_thm([],`F`);;", ["line 1: mk_thm"])],
)  # fmt: skip
def test_what_is_only_believed_is_found(tool, source, found):
    assert list(forbidden(tool, source)) == found


@needs_coq
def test_every_coq_theorem_is_proved_and_closed():
    answers = prove.prove_coq()
    assert list(answers) == [t.name for t in THEOREMS if t.tool == COQ]
    assert {answer["assumptions"] for answer in answers.values()} == {prove.CLOSED}
    kept = prove.recorded(COQ)
    if prove._version("coq") == kept["versions"]["coq"]:  # another version may print the same statement otherwise
        assert answers == kept["theorems"]


def with_source(monkeypatch, tmp_path, text):
    (tmp_path / "small.v").write_text(text, encoding="utf-8")
    monkeypatch.setattr(prove, "sources", lambda tool: [tmp_path / "small.v"])
    monkeypatch.setattr(prove, "THEOREMS", (Theorem("", "", "small.v", "small", ""),))
    monkeypatch.setattr(prove, "_HEADER", "")


@needs_coq
@pytest.mark.parametrize(
    ("text", "message"),
    [("Variable a : False.\nTheorem small : False. Proof. exact a. Qed.", "rests on more"),
     ("From Coq Require Import Classical.\nTheorem small : forall P, P \\/ ~ P. Proof. exact classic. Qed.", "more"),
     ("Theorem small : False. Proof. exact I. Qed.", "coqc says"),
     ("Theorem other : True. Proof. exact I. Qed.", "the table has"),
     ("Theorem small : False. Admitted.", "Admitted")],
)  # fmt: skip
def test_what_is_not_proved_is_not_accepted(monkeypatch, tmp_path, text, message):
    with_source(monkeypatch, tmp_path, text)
    with pytest.raises(NotProvedError, match=message):
        prove.prove_coq()


@needs_coq
def test_a_small_proof_is_accepted(monkeypatch, tmp_path):
    with_source(monkeypatch, tmp_path, "Theorem small : True. Proof. exact I. Qed.")
    assert prove.prove_coq() == {"small": {"statement": "True", "assumptions": prove.CLOSED}}


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
    transcript = prove.TRANSCRIPT.read_text(encoding="utf-8")
    assert read_transcript(transcript) == prove.recorded(HOL_LIGHT)["theorems"]


TRANSCRIPT = """val THEOREM_1_ON_THE_CONE : thm = |- !g m. a
val SORTED_IS_UNIQUE : thm = |- !x y. b
val SORTED_EXISTS : thm = |- !x. c
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
    assert read_transcript(TRANSCRIPT)["THEOREM_1"]["statement"] == "|- !g m. m < dimindex(:N) ==> ..."


def test_every_file_of_the_folder_is_read():
    named = {path for tool in (COQ, HOL_LIGHT) for path in sources(tool)}
    assert named == {*theorems.FORMAL.glob("*.v"), *theorems.FORMAL.glob("*.ml")}
    assert json.loads(prove.RECORD.read_text(encoding="utf-8")).keys() <= {COQ, HOL_LIGHT}


def test_without_the_tool_it_is_said(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["prove"]) == 2
    assert "coqc is not installed" in capsys.readouterr().err

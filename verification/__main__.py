"""`python -m verification prove | find | check | figures | report | collide`."""

import argparse
import sys
import threading
from fractions import Fraction
from pathlib import Path

from verification import collide, prove
from verification.checker import CertificateError, check_directory, check_file
from verification.files import write
from verification.theorem_1 import NoCollisionError
from verification.theorems import COQ, HOL_LIGHT, THEOREMS

CERTIFICATES = Path(__file__).parent / "certificates"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status."""
    options = _parser().parse_args(arguments)
    return options.run(options)


def _parser() -> argparse.ArgumentParser:
    """The parser of all commands; each stores the function that carries it out as `run`."""
    parser = argparse.ArgumentParser("python -m verification", description="The paper's theory, machine-checked.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("find", _find, "make the certificates"),
        ("check", _check, "re-check the certificates, with code that shares nothing with the finder"),
        ("figures", _figures, "draw figure 1 and the figures of the report"),
        ("report", _report, "run every check and write report.md and report.html"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        if name == "find":
            command.add_argument("--directory", type=Path, default=CERTIFICATES, help="default: %(default)s")
        if name == "check":
            command.add_argument("files", type=Path, nargs="*", help="default: all certificates of this folder")
    command = commands.add_parser("prove", help="compile the formal proofs", description=prove.__doc__)
    command.add_argument("--slow", action="store_true", help="also run HOL Light, which takes half an hour")
    command.add_argument("--record", action="store_true", help="write what was proved to formal/record.json")
    command.set_defaults(run=_prove)
    command = commands.add_parser(
        "collide",
        help="Theorem 1 for your own aggregators",
        description=collide.HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--aggregators", required=True, metavar="MODULE:FUNCTION")
    command.add_argument("--n", type=int, required=True, help="size of the multisets")
    command.add_argument(
        "--interval",
        type=Fraction,
        nargs=2,
        default=[Fraction(1), Fraction(2)],
        metavar=("LOW", "HIGH"),
        help="where to look: between LOW and HIGH, or near n equally spaced points there (default: 1 2)",
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="write the collision as a certificate")
    command.set_defaults(run=_collide)
    return parser


def _prove(options: argparse.Namespace) -> int:
    """Compile the proofs and print each theorem with its assumptions; 1 if a proof fails, 2 if the tool is missing."""
    try:
        answers, fresh = _proofs(options.slow, options.record)
    except prove.NotProvedError as error:
        print(f"not proved: {error}", file=sys.stderr)
        return 1
    except prove.ToolMissingError as error:
        print(f"prove: {error}", file=sys.stderr)
        return 2
    for theorem in THEOREMS:
        answer = answers[theorem.name]
        how = theorem.tool if theorem.tool in fresh else f"{theorem.tool}, as recorded"
        print(f"{theorem.paper} ({theorem.range}): {theorem.words}\n  {theorem.name} ({theorem.file}), {how}")
        print(f"       {answer['statement']}\n  {answer['assumptions']}\n")
    compiled = sum(theorem.tool in fresh for theorem in THEOREMS)
    rest = (
        "" if options.slow else f"; {len(THEOREMS) - compiled} more are recorded with {HOL_LIGHT} (--slow repeats it)"
    )
    print(f"{compiled} theorems compiled, with no assumption left{rest}")
    return 0


def _proofs(slow: bool, keep: bool) -> tuple[dict[str, dict[str, str]], set[str]]:
    """What each theorem states, and the tools that were run.

    What a tool prints is compared with the record or, with `keep`, recorded.
    """
    proofs, transcript = prove.prove_coq(), None
    runs = {COQ: proofs}
    if slow:
        transcript, runs[HOL_LIGHT] = prove.prove_hol_light()
    for tool, answer in runs.items():
        if keep:
            prove.record(tool, answer, transcript if tool == HOL_LIGHT else None)
        else:
            prove.compare(tool, answer)
    theorems = {tool: runs[tool] if tool in runs else prove.recorded(tool) for tool in (COQ, HOL_LIGHT)}
    return theorems[COQ]["theorems"] | theorems[HOL_LIGHT]["theorems"], set(runs)


def _find(options: argparse.Namespace) -> int:
    """Make the certificates and print their paths."""
    from verification.find import find  # imported here: checking needs neither torch nor matplotlib

    for path in find(options.directory):
        print(path)
    return 0


def _check(options: argparse.Namespace) -> int:
    """Check the given certificates, by default all stored ones; 1 if one is rejected."""
    try:
        for path in options.files:
            print(f"{path}: {len(check_file(path))} certificates hold")
        if not options.files:
            print("\n".join(check_directory(CERTIFICATES)))
    except (CertificateError, OSError) as error:
        print(f"rejected: {error}", file=sys.stderr)
        return 1
    return 0


def _figures(_: argparse.Namespace) -> int:
    """Draw the figures and print their paths."""
    from verification.figures import draw_all

    for path in draw_all():
        print(path)
    return 0


def _report(_: argparse.Namespace) -> int:
    """Write the report; 1 if something in it fails."""
    from verification.report import write_report

    return 0 if write_report() else 1


SLOW = 10
"""After how many seconds `collide` says that it is still searching."""


def _collide(options: argparse.Namespace) -> int:
    """Print a collision of the user's aggregators, and write it if asked; 1 without a proof, 2 if they are unusable."""
    slow = threading.Timer(SLOW, print, ["collide: still searching"], {"file": sys.stderr, "flush": True})
    slow.daemon = True
    slow.start()
    try:
        collision = collide.find_collision(collide.load(options.aggregators), options.n, *options.interval)
    except collide.UsageError as error:
        print(f"collide: {error}", file=sys.stderr)
        return 2
    except NoCollisionError as error:
        print(f"collide: {error}", file=sys.stderr)
        return 1
    finally:
        slow.cancel()
    print(collision)
    if options.out is not None:
        try:
            write(options.out, collide.certificate_file(collision), indent=None)
            check_file(options.out)
        except (CertificateError, OSError) as error:
            print(f"collide: the certificate cannot be kept: {error}", file=sys.stderr)
            return 1
        print(f"The independent checker accepts {options.out}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m verification find | check | figures | report | collide`."""

import argparse
import sys
from fractions import Fraction
from pathlib import Path

from verification import collide
from verification.checker import CertificateError, check_directory
from verification.theorem_1 import NoCollisionError

CERTIFICATES = Path(__file__).parent / "certificates"


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns its exit status."""
    options = _parser().parse_args(arguments)
    return options.run(options)


def _parser() -> argparse.ArgumentParser:
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
        if name in ("find", "check"):
            command.add_argument("--directory", type=Path, default=CERTIFICATES, help="default: %(default)s")
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
        help="where to look: the collision is near n equally spaced points from LOW to HIGH (default: 1 2)",
    )
    command.set_defaults(run=_collide)
    return parser


def _find(options: argparse.Namespace) -> int:
    from verification.find import find  # imported here: checking needs neither torch nor matplotlib

    for path in find(options.directory):
        print(path)
    return 0


def _check(options: argparse.Namespace) -> int:
    try:
        print("\n".join(check_directory(options.directory)))
    except CertificateError as error:
        print(f"rejected: {error}", file=sys.stderr)
        return 1
    return 0


def _figures(_: argparse.Namespace) -> int:
    from verification.figures import draw_all

    for path in draw_all():
        print(path)
    return 0


def _report(_: argparse.Namespace) -> int:
    from verification.report import write_report

    return 0 if write_report() else 1


def _collide(options: argparse.Namespace) -> int:
    try:
        print(collide.collision_report(collide.load(options.aggregators), options.n, *options.interval))
    except collide.UsageError as error:
        print(f"collide: {error}", file=sys.stderr)
        return 2
    except NoCollisionError as error:
        print(f"collide: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

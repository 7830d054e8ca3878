"""Reads certificates strictly: what they may be written with, and how large they may be.

Numbers are whole, or rationals "p/q" in lowest terms and in the digits 0 to 9. A field that is missing, given twice,
unknown or too large is refused here, before anything is computed from it: a malformed certificate costs no time.
"""

import json
import os
import re
import stat
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from flint import arb, fmpq

__all__ = [
    "BITS",
    "MOST_BYTES",
    "MOST_ELEMENTS",
    "CertificateError",
    "ball",
    "fields",
    "name",
    "names",
    "natural",
    "rational",
    "rationals",
    "read_bytes",
    "read_json",
    "require",
    "weights",
]

MOST_BYTES = 2_000_000
"""The largest file."""
MOST_ELEMENTS = 128
"""The longest list of numbers."""
MOST_DIGITS = 2_000
"""The longest rational, in characters."""
BITS = 2_048
"""The largest working precision."""


class CertificateError(ValueError):
    """A certificate that is malformed, or that does not prove what it says."""


def require(condition: bool, message: str) -> None:
    """Reject the certificate, with the reason, unless the condition holds."""
    if not condition:
        raise CertificateError(message)


def read_bytes(path: Path) -> bytes:
    """The content of a plain file that is not too large; a device, a pipe or a folder is refused without reading it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # non-blocking: opening a pipe must not wait for a writer
    with os.fdopen(descriptor, "rb") if stat.S_ISREG(os.fstat(descriptor).st_mode) else _refused(descriptor, path) as f:
        content = f.read(MOST_BYTES + 1)
    require(len(content) <= MOST_BYTES, f"{path.name}: more than the {MOST_BYTES} bytes that are allowed")
    return content


def _refused(descriptor: int, path: Path) -> NoReturn:
    """Close the descriptor and reject the certificate, since the path is no plain file."""
    os.close(descriptor)
    raise CertificateError(f"{path.name}: not a plain file")


def read_json(path: Path, content: bytes | None = None) -> object:
    """The JSON content of a file, whose bytes may be given; no key may occur twice, and all numbers must be whole."""
    content = read_bytes(path) if content is None else content
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_float=_not_whole,
            parse_constant=_not_whole,
        )
    except CertificateError as error:
        raise CertificateError(f"{path.name}: {error}") from error
    except RecursionError as error:
        raise CertificateError(f"{path.name}: nested too deeply") from error
    except ValueError as error:  # not JSON, not UTF-8, or an integer of thousands of digits
        raise CertificateError(f"{path.name}: not JSON: {error}") from error


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The JSON object that the pairs make; a key given twice rejects the certificate."""
    content: dict[str, object] = {}
    for key, value in pairs:
        require(key not in content, f"a field twice: {_shown(key)}")
        content[key] = value
    return content


def _not_whole(text: str) -> NoReturn:
    """Reject a number that is not whole; JSON's parser calls it for decimals and for NaN."""
    raise CertificateError(f"numbers must be whole, or rationals as text, got {text[:40]}")


def fields(value: object, wanted: Iterable[str], what: str) -> dict[str, object]:
    """The value, if it is an object with exactly these fields."""
    wanted = set(wanted)
    require(isinstance(value, dict), f"{what} must be an object, got {_shown(value)}")
    require(
        set(value) == wanted,
        f"{what}: fields must be {sorted(wanted)}, got {_shown(sorted(map(str, value)))}",
    )
    return value


def name(value: object, allowed: Iterable[str], what: str) -> str:
    """The value, if it is one of the names allowed."""
    allowed = list(allowed)
    require(isinstance(value, str) and value in allowed, f"{what} must be one of {allowed}, got {_shown(value)}")
    return value


def names(value: object, what: str) -> list[str]:
    """The value, if it is a list of different short texts."""
    require(
        isinstance(value, list) and len(value) <= MOST_ELEMENTS and all(isinstance(x, str) for x in value),
        f"{what} must be a list of names, got {_shown(value)}",
    )
    require(len(set(value)) == len(value), f"{what}: a name twice")
    return value


def natural(value: object, what: str, smallest: int, largest: int) -> int:
    """The value, if it is a whole number from `smallest` to `largest`."""
    require(
        type(value) is int and smallest <= value <= largest,
        f"{what} must be a whole number from {smallest} to {largest}, got {_shown(value)}",
    )
    return value


def rational(value: object, what: str, digits: int = MOST_DIGITS) -> Fraction:
    """The rational that the text "p" or "p/q" says, which must be in lowest terms: each has one text."""
    require(isinstance(value, str), f"{what} must be a rational as text, got {_shown(value)}")
    require(len(value) <= digits, f"{what}: {len(value)} characters, where {digits} are allowed")
    require(re.fullmatch(r"-?[0-9]+(/[1-9][0-9]*)?", value) is not None, f"{what}: not a rational: {_shown(value)}")
    number = Fraction(value)
    require(str(number) == value, f"{what}: not in lowest terms: {_shown(value)}")
    return number


def rationals(value: object, what: str, digits: int = MOST_DIGITS) -> list[Fraction]:
    """The rationals of a list that is not empty."""
    require(
        isinstance(value, list) and 0 < len(value) <= MOST_ELEMENTS,
        f"{what} must be a list of 1 to {MOST_ELEMENTS} rationals, got {_shown(value)}",
    )
    return [rational(x, what, digits) for x in value]


def weights(value: object, what: str, depth: int) -> list:
    """Rationals in lists within lists, `depth` deep."""
    if depth == 0:
        return rational(value, what)
    require(
        isinstance(value, list) and 0 < len(value) <= MOST_ELEMENTS,
        f"{what} must be lists of 1 to {MOST_ELEMENTS}, {depth} deep, got {_shown(value)}",
    )
    return [weights(item, what, depth - 1) for item in value]


def ball(q: Fraction) -> arb:
    """The ball around a rational, at the working precision."""
    return arb(fmpq(q.numerator, q.denominator))


def _shown(value: object) -> str:
    """The value in a message: short, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | dict) and len(value) > 20:
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value) if not isinstance(value, str) else repr(value[:60])
    return text if len(text) <= 80 else f"{text[:80]}…"

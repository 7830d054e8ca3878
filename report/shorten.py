"""Makes the pictures inside the page short without changing what they show: steps, groups, shared names."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count, groupby, product
from string import ascii_uppercase
from xml.etree.ElementTree import Element

__all__ = ["grouped", "short_names", "short_path"]


# ---- paths ----


def short_path(d: str, digits: int = 1) -> str:
    """The path `d` (M, L, C, Q and z, absolute) in steps between rounded places: "M1.5 2h3l-.5.5z"."""
    text, x, y, unit = "", 0, 0, 10**digits
    for letter, numbers in re.findall(r"([MLCQz])([^MLCQz]*)", d):
        places = [round(unit * float(number)) for number in numbers.split()]
        size = {"C": 6, "Q": 4}.get(letter, 2)
        for row in (places[k : k + size] for k in range(0, len(places), size)):
            steps = [place - (x, y)[axis % 2] for axis, place in enumerate(row)]
            text += _command(letter, row if letter == "M" else steps, unit)
            x, y = row[-2:]
        text += "z" * (letter == "z")
    return text


def _command(letter: str, numbers: Sequence[int], unit: int) -> str:
    """One command of a path: M with its place, any other with steps."""
    if letter == "L" and 0 in numbers:
        letter, numbers = ("H", numbers[:1]) if numbers[1] == 0 else ("V", numbers[1:])
    text = letter if letter == "M" else letter.lower()
    for number in (re.sub(r"^(-?)0\.", r"\1.", f"{number / unit:g}") for number in numbers):
        last = re.split(r"[^\d.]", text)[-1]  # of a number before, what a point could continue
        parted = not last or number[0] == "-" or (number[0] == "." and "." in last)
        text += number if parted else f" {number}"
    return text


# ---- groups ----

Styles = dict[str, str]  # the style of each class


def grouped(parts: Sequence[Element], styles: Styles) -> list[Element]:
    """The parts of a picture: definitions first, then groups of neighbours with the same clip path and class."""
    definitions = {one.get("id"): one for part in parts if part.tag == "defs" for one in part}
    drawn = [_straight(part, definitions) for part in parts if part.tag != "defs"]
    drawn = _together(drawn, "clip-path", styles)
    used = {one.get("href", "")[1:] for part in [*drawn, *definitions.values()] for one in part.iter("use")}
    first = Element("defs")
    first.extend(one for name, one in definitions.items() if name in used or one.tag != "path")
    return [first, *drawn] if len(first) else drawn


def _straight(part: Element, definitions: dict[str | None, Element]) -> Element:
    """A mark that is one straight line, such as a tick, as a path in its place; any other part as it is."""
    if part.tag == "g":
        part[:] = [_straight(child, definitions) for child in part]
    mark = definitions.get(part.get("href", "")[1:]) if part.tag == "use" else None
    if mark is None or not _is_line(mark) or mark.get("class") != part.get("class"):
        return part
    right, down = (float(part.get(axis, 0)) for axis in "xy")
    a, b, c, d = map(float, re.findall(r"-?[\d.]+", mark.get("d")))
    facts = {key: value for key, value in part.attrib.items() if key not in ("href", "x", "y")}
    return Element("path", {"d": f"M{right + a} {down + b}L{right + c} {down + d}", **facts})


def _is_line(part: Element) -> bool:
    """Whether a part is a path from one place straight to another."""
    return bool(re.fullmatch(r"M[-\d. ]+L[-\d. ]+", part.get("d", "")))


def _together(parts: Sequence[Element], key: str, styles: Styles) -> list[Element]:
    """Neighbours with the same clip path in one group that has it, inside it those of the same class."""
    result = []
    for value, neighbours in groupby(parts, lambda part: _common(part, key, styles)):
        run = list(neighbours)
        if value is not None:
            for part in run:
                del part.attrib[key]
            run = [one for part in run for one in (part if part.tag == "g" and not part.attrib else [part])]
        if key == "clip-path":
            run = _together(run, "class", styles)
        elif value is not None:
            run = _joined_lines(run, styles[value])
        result += run if value is None else [_carrying(run, key, value)]
    return result


def _common(part: Element, key: str, styles: Styles) -> str | None:
    """What a group may have in a part's place: not a clip path that its part moves, nor opacity, which adds up."""
    value = part.get(key)
    moved = key == "clip-path" and _moves(part)
    return None if moved or re.search(r"(^|;)opacity", styles.get(value or "", "")) else value


def _moves(part: Element) -> bool:
    """Whether a part is drawn in a place of its own, to which its clip path would go along."""
    return "transform" in part.attrib or part.tag == "use"


def _carrying(parts: Sequence[Element], key: str, value: str) -> Element:
    """A group of parts with an attribute; a single part has it itself."""
    if len(parts) == 1 and key not in parts[0].attrib and not (key == "clip-path" and _moves(parts[0])):
        parts[0].set(key, value)
        return parts[0]
    group = Element("g", {key: value})
    group.extend(parts)
    return group


def _joined_lines(parts: Sequence[Element], style: str) -> list[Element]:
    """Neighbouring paths without a ground and without transparency as one path."""

    def joins(part: Element) -> bool:
        return part.attrib.keys() == {"d"} and "opacity" not in style and ("fill:none" in style or _is_line(part))

    result: list[Element] = []
    for lines, neighbours in groupby(parts, joins):
        run = list(neighbours)
        result += [Element("path", {"d": "".join(part.get("d", "") for part in run)})] if lines else run
    return result


# ---- names ----


def short_names(page: str) -> str:
    """A page whose pictures share one style sheet, and name their classes and definitions with a letter or two."""
    sheets = re.findall(_SHEET, page)
    rules = dict(re.findall(r"\.(\w+)\{([^}]*)\}", "".join(sheets)))
    page = re.sub(_SHEET, "", page)
    classes = _names(name for name in re.findall(r' class="(\w+)"', page) if name in rules)
    ids = _names(re.findall(rf"#({_ID})", page))
    page = re.sub(r'(?<= class=")\w+(?=")', lambda match: classes.get(match[0], match[0]), page)
    page = re.sub(rf'(?<= id="){_ID}(?=")|(?<=#){_ID}', lambda match: ids.get(match[0], match[0]), page)
    sheet = "".join(f".{short}{{{rules[name]}}}" for name, short in classes.items())
    return page.replace("</style>", f"{sheet}</style>", 1)


_SHEET = r"(?<=>)<style>((?:\.s[0-9a-f]+\{[^}]*\})+)</style>"
_ID = r"p[0-9a-f]+-\d+"


def _names(uses: Iterable[str]) -> dict[str, str]:
    """A short name for each, the shortest for the most used: A to Z, AA and so on; the page's own are lower case."""
    short = ("".join(letters) for length in count(1) for letters in product(ascii_uppercase, repeat=length))
    return dict(zip((name for name, _ in Counter(uses).most_common()), short, strict=False))

"""The page's templates, and the parts that every section shares: tables, estimates, notes, pictures."""

import base64
import math
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pna.verdicts.rules import WORDS, interval_end, number
from pna.verdicts.statistics import Estimate
from report.shorten import grouped, short_path

__all__ = ["blocks", "estimate", "in_words", "listed", "p_value", "picture", "render", "stacked", "table"]

_NUMBER = re.compile(r"[+−-]?\d[\d,.]*( ?[±%×s].*)?|–")
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_TEMPLATES.globals["COLOURS"] = dict(
    zip(WORDS, ("good", "part", "bad", "open", "seen", "mend", "absent", "wait", "none"), strict=True)
)


def render(template: str, **data: object) -> Markup:
    """A template of report/templates filled with data; text is escaped, Markup is not."""
    return Markup(_TEMPLATES.get_template(f"{template}.html").render(data))


def blocks(*parts: Markup | str) -> Markup:
    """Parts below each other: Markup as it is, text as a note in small letters; empty ones are left out."""
    return render("blocks", parts=parts)


def stacked(text: str, *notes: str) -> Markup:
    """A table's cell with notes in small letters below its text."""
    return render("stacked", text=text, notes=notes)


def estimate(one: Estimate, digits: int = 2, *notes: str) -> Markup:
    """A value with its 95 % interval below it, and notes below that."""
    interval = " … ".join(interval_end(end, digits) for end in one.interval) if one.known else "too few seeds"
    return stacked(number(one.value, digits), interval, *notes)


def in_words(one: Estimate, signed: bool = False) -> str:
    """An estimate with its 95 % interval, as in "0.34 (0.24 to 0.44)", with or without its plus signs."""
    value, low, high = number(one.value), *(interval_end(end) for end in one.interval)
    text = f"{value} ({low} to {high})"
    return text if signed else text.replace("+", "")


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words with commas between them and a conjunction before the last, as in "20, 30 or 40"."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def p_value(p: float) -> str:
    """p to three digits; a dash where there are too few seeds."""
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], caption: str, classes: dict[int, str] | None = None
) -> Markup:
    """A table whose first column names the row and stays in view; on a phone it scrolls, and shows that it does.

    Columns of numbers are right-aligned. `classes` maps the index of a column to the CSS class to use instead.
    """
    rows, classes = list(rows), classes or {}
    kinds = [classes.get(k) or "number" * _numeric(row[k] for row in rows) for k in range(len(header))]
    return render("table", header=header, rows=rows, caption=caption, kinds=kinds)


def _numeric(cells: Iterable[object]) -> bool:
    """Whether every cell of a column is a number or empty; False for a column without cells."""
    texts = [re.sub(r"<br>.*", "", str(cell)) for cell in cells]
    return bool(texts) and all(_NUMBER.fullmatch(text) or text == "" for text in texts)


# ---- pictures ----

# Black becomes the page's ink, white its paper; ink on a coloured background (style.DARK, LIGHT) stays.
_TURNED = {"#000000": "currentColor", "#ffffff": "var(--paper)", "#e5e5e5": "var(--line)", "#f4f4f4": "var(--band)"}
_TURNED |= {"#333333": "currentColor", "#ededed": "var(--line)", "#a83a00": "var(--warn)", "#882255": "var(--plum)"}
_TURNED |= dict.fromkeys(("#4c4c4c", "#545454", "#595959", "#666666", "#6b6b6b"), "var(--soft)")


def picture(path: Path, shows: str) -> Markup:
    """A picture with its alternative text: the SVG itself, in the page's own colours; without one, the PNG."""
    vector, pixels = path.with_suffix(".svg"), path.with_suffix(".png")
    if vector.exists():
        text = vector.read_text(encoding="utf-8")
        box, body = _inline(text, path.stem)
        return render("picture", shows=shows, box=box, body=Markup(body), least=_least_width(text, box))
    if pixels.exists():
        return render("picture", shows=shows, png=base64.b64encode(pixels.read_bytes()).decode())
    return blocks(f"{path.stem} is not drawn yet.")


_LETTERS = 11.0  # px that the smallest letters of a picture have at least, exponents included


def _least_width(text: str, box: str) -> int:
    """The width in px below which a picture scrolls instead of shrinking, so that its smallest letters can be read."""
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: [^;]*?([\d.]+)px", text)]
    return math.ceil(float(box.split()[2]) * _LETTERS / min(sizes)) if sizes else 0


# The elements that matplotlib writes; a page that holds an SVG inline would run whatever else is in it.
_ELEMENTS = {"circle", "clipPath", "defs", "ellipse", "g", "image", "line", "linearGradient", "mask", "path", "pattern"}
_ELEMENTS |= {"polygon", "polyline", "rect", "stop", "text", "tspan", "use"}


def _strange(body: str) -> str | None:
    """The first element, attribute or address of an SVG that could run or fetch something."""
    body = re.sub(r"data:image/png;base64,[\w+/=\s]*", "data:image/png", body)
    elements = (f"<{name}>" for name in re.findall(r"<\s*/?\s*([^\s>/]+)", body) if name not in _ELEMENTS)
    handlers = re.findall(r"[\s\"'/](on\w+)\s*=", " ".join(re.findall(r"<[^>]*>", body)), flags=re.I)
    addresses = re.findall(r"href\s*=\s*[\"']?((?!#|data:image/png)[^\s\"'>]+)", body, flags=re.I)
    return next(iter([*elements, *handlers, *addresses]), None)


def _inline(text: str, name: str) -> tuple[str, str]:
    """The view box and the content of matplotlib's SVG, shortened for a page that holds it inline.

    Size, font and background come from the page. Styles become classes, and equal styles in any picture share a class.
    Ids are prefixed with a short form of the picture's name. Groups without attributes are dissolved.
    """
    noise = r"<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|xmlns(:\w+)?=\"[^\"]*\"|xlink:"
    text = re.sub(noise, "", text, flags=re.S)
    if strange := _strange(text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]):
        raise ValueError(f"{name}.svg holds {strange}, which no figure of this project has: draw it again")
    root = ElementTree.fromstring(text)
    styles: dict[str, str] = {}
    used = set(re.findall(r"(?:href=\"|url\()#([\w.-]+)", text))
    ids = {one: f"p{_short(name)}-{place}" for place, one in enumerate(sorted(used))}
    parts = [part for child in root for part in _parts(child, ids, styles)]
    parts = grouped(parts, {kind: style for style, kind in styles.items()})
    for path in (path for part in parts for path in part.iter("path")):
        digits = 2 if path.get("id") else 1  # a mark is small, and written once
        path.set("d", short_path(path.get("d", ""), digits))
    body = "".join(ElementTree.tostring(part, encoding="unicode") for part in parts)
    rules = "".join(f".{kind}{{{style}}}" for style, kind in styles.items())
    return root.get("viewBox"), (f"<style>{rules}</style>" if rules else "") + re.sub(
        r">\s+<", "><", body.replace(" />", "/>")
    )


def _parts(element: Element, ids: dict[str, str], styles: dict[str, str]) -> list[Element]:
    """An element without what the page does not need; only its children if it has no attributes left."""
    if element.get("id") == "patch_1":  # the ground
        return []
    children = [part for child in element for part in _parts(child, ids, styles)]
    facts = {key: _value(key, value, ids) for key, value in element.attrib.items()}
    facts = {key: value for key, value in facts.items() if value}
    if style := facts.pop("style", ""):
        facts["class"] = styles.setdefault(style, f"s{_short(style)}")
    if element.tag in ("g", "defs") and not facts and (element.tag == "g" or not children):
        return children
    short = Element(element.tag, facts)
    short.text, short.tail = element.text, element.tail if element.tag == "tspan" else None
    short.extend(children)
    return [short]


def _value(key: str, value: str, ids: dict[str, str]) -> str:
    """An attribute's value, with coordinates to one decimal and the page's colours and font."""
    if key == "id":
        return ids.get(value, "")
    if key == "transform" and value.startswith("rotate(-0"):
        return ""
    if key == "href" or "url(#" in value:
        return re.sub(r"#([\w.-]+)", lambda match: f"#{ids[match[1]]}", value)
    if key == "style":
        value = re.sub(r"#[0-9a-f]{6}\b", lambda match: _TURNED.get(match[0], match[0]), value)
        value = re.sub(r"font: ([\d.]+px) [^;]*", r"font-size: \1", value)
        value = re.sub(r"font-family: [^;]*;?", "", value)
        return re.sub(r"\s*([;:])\s*", r"\1", value).strip("; ")
    if key == "d":
        return re.sub(r"\s*([A-Za-z])\s*", r"\1", value.strip())
    if key in ("points", "x", "y", "width", "height", "transform") and "scale" not in value:
        return re.sub(r"\d+\.\d+", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), value)
    return value


def _short(text: str) -> str:
    """A name of a few letters, the same for the same text."""
    return f"{zlib.crc32(text.encode()):x}"

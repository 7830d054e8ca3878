"""What the documentation is made of besides docs/: the README's first screen, the report, the executed notebooks.

mkdocs calls these functions by their names (`hooks` of mkdocs.yml).
"""

import json
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from pna.figures.catalogue import FIGURES, NOTEBOOKS, TEACHING
from workflow.page import formula

ROOT = Path(__file__).parents[1]
FIGURES_FOLDER = ROOT / "figures"
END = "<!-- the end of the first screen -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the notebooks and, if there are any, the model cards to the menu."""
    pages = {name: f"figures/notebooks/{name.replace('-', '_')}.md" for name in NOTEBOOKS}
    teach, draw = (
        [{_title(name): pages[name]} for name in names if _page(name).exists()] for names in (TEACHING, FIGURES)
    )
    cards = sorted((ROOT / "docs" / "models").glob("*.md"))
    models = [{_heading(card.read_text(encoding="utf-8")): f"models/{card.name}"} for card in cards]
    more = {"Notebooks that teach": teach, "Figures and tables": draw, "Trained models": models}
    config.nav += [{title: entries} for title, entries in more.items() if entries]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie outside docs/."""
    for name in NOTEBOOKS:
        if _page(name).exists():
            files.append(File.generated(config, f"figures/notebooks/{_page(name).stem}.md", content=_body(_page(name))))
    for picture in sorted(FIGURES_FOLDER.glob("*.png")):
        files.append(File.generated(config, f"figures/{picture.name}", abs_src_path=str(picture)))
    report = (FIGURES_FOLDER / "report.html").read_text(encoding="utf-8")
    files.append(File.generated(config, "figures/report.html", content=_at_home(report)))
    files.append(File.generated(config, "figures/claims.json", abs_src_path=str(FIGURES_FOLDER / "claims.json")))
    for name in ("CITATION.cff", "figures/summary.pdf"):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name.lower(), content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add the README's first screen and glossary to the first page; rewrite links for the site, formulas as MathML."""
    uri = page.file.src_uri
    if uri == "index.md":
        first, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(END)
        glossary = re.search(r"## Glossary\n.*?(?=\n## )", rest, flags=re.DOTALL)[0]
        markdown = f"{first}{markdown}\n{glossary}\n"
    markdown = markdown.replace("](../README.md#glossary", f"]({'../' * uri.count('/')}index.md#glossary")
    markdown = markdown.replace("](docs/", "](")
    for name in ("CONTRIBUTING.md", "figures/"):
        markdown = re.sub(rf"\]\((?:\.\./)*{name}", f"]({'../' * uri.count('/')}{name.lower()}", markdown)
    markdown = re.sub(r"(\]\([^)]*figures/notebooks/\w+)\.html", r"\1.md", markdown)
    return re.sub(r"\$\$(.+?)\$\$", lambda match: formula(match[1], "block"), markdown, flags=re.DOTALL)


def _page(name: str) -> Path:
    """The path of an executed notebook's page."""
    return FIGURES_FOLDER / "notebooks" / f"{name.replace('-', '_')}.html"


def _title(name: str) -> str:
    """The heading of a notebook."""
    cells = json.loads((ROOT / "notebooks" / f"{name.replace('-', '_')}.ipynb").read_text(encoding="utf-8"))["cells"]
    return _heading("".join(cells[0]["source"])).replace("`", "")


def _heading(markdown: str) -> str:
    """The first line of a Markdown text, without the mark of a heading."""
    return markdown.lstrip().splitlines()[0].removeprefix("# ")


def _body(page: Path) -> str:
    """A notebook's page without its frame: its heading as the page's own, the rest as it is."""
    text = page.read_text(encoding="utf-8")
    main = text[text.index('<main id="main">') + len('<main id="main">') : text.index("</main>")]
    heading = re.search(r"<h1>(.*?)</h1>", main, flags=re.DOTALL)
    title = re.sub(r"</?code>", "`", heading[1])
    return f"# {title}\n\n<div>{main.replace(heading[0], '', 1)}</div>\n"


def _at_home(report: str) -> str:
    """The report with a link to the site, and with words in place of links to files that the site lacks."""
    report = report.replace("<!-- home -->", '<a class="home" href="../index.html">Documentation</a>')
    report = re.sub(r'<a href="\.\./[^"]*">(.*?)</a>', r"\1", report)
    return re.sub(r'<a href="(?!claims)[^"#/]*\.json">(.*?)</a>', r"\1", report)

"""`notebook.py SOURCE EXECUTED PAGE [OPTIONS OF PAPERMILL]`: executes a notebook, and makes its page."""

import sys

import page


def main(source: str, executed: str, to: str, *options: str) -> int:
    """What fails in the notebook raises papermill's error, which shows the cell; then no page is made."""
    sys.modules["rfc3987_syntax"] = None  # jsonschema takes seconds to prepare for addresses, and here are none
    from papermill.cli import papermill

    papermill([source, executed, *options], standalone_mode=False)
    return page.main(executed, to)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

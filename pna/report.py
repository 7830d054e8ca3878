"""The former name of pna.figures, until the next version."""

import warnings
from importlib import import_module

_NAMES = ("FIGURES", "compare", "compare_realworld", "draw")

warnings.warn("pna.report is now pna.figures", DeprecationWarning, stacklevel=2)


def __getattr__(name: str) -> object:
    """Import a name from pna.figures when it is first used, because drawing needs matplotlib."""
    if name not in _NAMES:
        raise AttributeError(f"module 'pna.report' has no attribute {name!r}; see pna.figures")
    return getattr(import_module("pna.figures"), name)

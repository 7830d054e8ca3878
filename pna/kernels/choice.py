"""The former name of pna.kernels.selection, until the next version."""

import warnings

from pna.kernels.selection import first_derivative, many, on_its_device, plain, usable
from pna.kernels.selection import kernels_for as serving

__all__ = ["first_derivative", "many", "on_its_device", "plain", "serving", "usable"]

warnings.warn("pna.kernels.choice is now pna.kernels.selection", DeprecationWarning, stacklevel=2)

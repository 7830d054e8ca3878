"""The paper's choice: of ten seeds, the five with the least validation error."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEPT", "ranking"]

KEPT = 5  # "report the five with least validation error"


def ranking(validation: Sequence[float] | NDArray[np.float64]) -> NDArray[np.int64]:
    """The rows of the seeds by validation error, the least first; the five best are the first five.

    Seeds that diverged (a validation error that is not finite) are left out.
    """
    validation = np.asarray(validation, float)
    order = np.argsort(validation, kind="stable")
    return order[np.isfinite(validation[order])]

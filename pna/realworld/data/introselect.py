"""The value that numpy's partition leaves in the last place: quickselect with the median of three (Musser, 1997).

The published superpixel graphs keep the first eight of the nine places that hold the nine greatest affinities, and so
depend on the order in which the partition leaves them. numpy has other algorithms on some processors; this is the one
that the published graphs were made with, for all rows of a matrix at once. (numpy changes the pivot rule after
2 log2(n) rounds, which hardly any row needs; that is left out.)
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["last_after_partition"]


def last_after_partition(values: NDArray[np.int64], kth: int) -> NDArray[np.int64]:
    """For each row of distinct values [rows, n], the one in the last place after a partition at kth < n - 2: [rows].

    A round looks at the places from `low` on. Its pivot is the median of the first, the middle and the last value; the
    least of the three goes to the second place, the greatest to the last. Rounds go on with the values greater than
    the pivot while those hold the kth. Then the last place is settled, since all later rounds are to its left.
    """
    rows, n = values.shape
    last, row, v = np.empty(rows, values.dtype), np.arange(rows), values.copy()
    low = np.zeros(rows, np.int64)
    while len(row):
        pivot = _median_of_three(v, low)
        less = (v < pivot[:, None]) & (np.arange(n) > low[:, None] + 1)
        boundary = low + 1 + less.sum(1)  # the pivot's place
        go_on = boundary < kth
        last[row[~go_on]] = v[~go_on, -1]
        row, v, less, low, boundary = (array[go_on] for array in (row, v, less, low, boundary))
        _partition(v, less, low + 2, boundary + 1)
        low = boundary + 1
    return last


def _median_of_three(v: NDArray, low: NDArray) -> NDArray:
    """The pivot of each row: [rows]. Its place is below all that later rounds look at, and is not filled."""
    rows, middle = np.arange(len(v)), (low + v.shape[1] - 1) // 2
    least, pivot, greatest = np.sort([v[rows, low], v[rows, middle], v[:, -1]], axis=0)
    v[rows, middle] = v[rows, low + 1]
    v[rows, low + 1], v[:, -1] = least, greatest
    return pivot


def _partition(v: NDArray, less: NDArray, first: NDArray, end: NDArray) -> None:
    """Hoare's partition: the values that are `less` than the pivot go to the places first <= p < end.

    Reading from the left the values that are greater, and from the right those that are less, it exchanges the first
    with the first, the second with the second, and so on, until they meet.
    """
    n = v.shape[1]
    place = np.arange(n)
    before = place < end[:, None]
    row, greater = (~less & before & (place >= first[:, None])).nonzero()
    _, lesser = (less & ~before)[:, ::-1].nonzero()
    lesser = n - 1 - lesser
    v[row, greater], v[row, lesser] = v[row, lesser], v[row, greater]

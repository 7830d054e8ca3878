"""The order in which numpy's partition leaves a row: quickselect with the median of three as pivot (Musser, 1997).

The published superpixel graphs keep the first eight of the nine places that hold the nine greatest affinities, and so
depend on that order. numpy itself has other algorithms on some processors; this is the one that the published
graphs were made with, for all rows of a matrix at once. (numpy changes the pivot rule after 2 log2(n) rounds, which
hardly any row needs; that is left out.)
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["introselect"]


def introselect(values: NDArray[np.int64], kth: int) -> NDArray[np.int64]:
    """For each row of distinct values [rows, n] the columns in their new order: smaller ones, the kth, greater ones."""
    rows, n = values.shape
    order = np.tile(np.arange(n), (rows, 1))
    low, high = np.zeros(rows, dtype=np.int64), np.full(rows, n - 1)
    while len(active := (low + 1 < high).nonzero()[0]):
        left, right = low[active], high[active]
        _median_of_three(values, order, active, left, right)
        pivot = values[active, order[active, left]]
        boundary = left + 1 + _partition(values, order, active, left + 2, right, pivot)
        _swap(order, active, left, boundary)
        high[active] = np.where(boundary >= kth, boundary - 1, right)
        low[active] = np.where(boundary <= kth, boundary + 1, left)
    pairs = (high == low + 1).nonzero()[0]
    _swap_if_descending(values, order, pairs, low[pairs], high[pairs])
    return order


def _median_of_three(values: NDArray, order: NDArray, rows: NDArray, left: NDArray, right: NDArray) -> None:
    """Of first, middle and last: the median goes first, the least second, the greatest last."""
    middle = left + (right - left) // 2
    _swap_if_descending(values, order, rows, middle, right)
    _swap_if_descending(values, order, rows, left, right)
    _swap_if_descending(values, order, rows, middle, left)
    _swap(order, rows, middle, left + 1)


def _partition(
    values: NDArray, order: NDArray, rows: NDArray, first: NDArray, last: NDArray, pivot: NDArray
) -> NDArray[np.int64]:
    """Hoare's partition of the places first <= p < last; returns how many are less than the pivot.

    Reading from the left the values that are greater, and from the right those that are less, it exchanges the first
    with the first, the second with the second, and so on, until they meet.
    """
    place = np.arange(order.shape[1])
    inside = (place >= first[:, None]) & (place < last[:, None])
    less = inside & (values[rows[:, None], order[rows]] < pivot[:, None])
    count = less.sum(1)
    before = place < (first + count)[:, None]
    row, column = (inside & ~less & before).nonzero()
    _, other = (less & ~before)[:, ::-1].nonzero()
    _swap(order, rows[row], column, order.shape[1] - 1 - other)
    return count


def _swap_if_descending(values: NDArray, order: NDArray, rows: NDArray, a: NDArray, b: NDArray) -> None:
    descending = values[rows, order[rows, b]] < values[rows, order[rows, a]]
    _swap(order, rows[descending], a[descending], b[descending])


def _swap(order: NDArray, rows: NDArray, a: NDArray, b: NDArray) -> None:
    order[rows, a], order[rows, b] = order[rows, b], order[rows, a]

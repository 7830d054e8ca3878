"""The edges of superpixel graphs: the affinity by its formula, eight of the nine nearest, and which is dropped."""

import numpy as np
import pytest

from pna.realworld.data import superpixels
from pna.realworld.data.introselect import last_after_partition
from pna.realworld.data.superpixels import SCALE, Superpixels, affinity, dropped, edges


def image(n=40, seed=0, side=28):
    position = np.random.default_rng(seed).integers(0, side * SCALE, (n, 2)).astype(np.uint16)
    return Superpixels(position, side, seed)


def test_affinity_by_its_formula():
    picture = image(15)
    c = picture.position / (SCALE * 28)
    A = affinity(picture.position, 28)
    d = np.array([[np.linalg.norm(a - b) for b in c] for a in c])
    sigma = [sum(sorted(row)[:9]) / 8 + 1e-8 for row in d]
    for i in range(15):
        for j in range(15):
            expected = (np.exp(-((d[i, j] / sigma[i]) ** 2)) + np.exp(-((d[j, i] / sigma[j]) ** 2))) / 2
            assert A[i, j] == pytest.approx(expected * (i != j))


def out_edges(degree, source):
    """The targets of each node, from messages sorted by target."""
    target = np.repeat(np.arange(len(degree)), degree)
    return [set(target[source == i]) for i in range(len(degree))]


@pytest.mark.parametrize("seed", range(5))
def test_each_node_sends_to_eight_of_its_nine_nearest(seed):
    picture = image(seed=seed)
    A, (without,) = affinity(picture.position, picture.side), dropped([picture])
    degree, source, weight = edges(picture)
    assert degree.sum() == len(source) == len(weight) == 8 * 40
    for i, targets in enumerate(out_edges(degree, source)):
        nine = np.argsort(-A[i])[:9]
        assert targets == set(np.delete(nine, without[i]))
    target = np.repeat(np.arange(40), degree)
    assert np.array_equal(weight[:, 0], A[source, target].astype(np.float16))


def test_what_is_dropped_may_be_told():
    picture = image()
    for ours, expected in zip(edges(picture._replace(dropped=dropped([picture])[0])), edges(picture), strict=True):
        assert np.array_equal(ours, expected)
    degree, source, _ = edges(picture._replace(dropped=np.full(40, 8, np.uint8)))
    A = affinity(picture.position, 28)
    assert out_edges(degree, source)[0] == set(np.argsort(-A[0])[:8])


def test_equal_distances_go_by_the_number_of_the_node():
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(-1, 2) * SCALE
    picture = Superpixels(grid.astype(np.uint16), 28, 0)
    once, again = edges(picture), edges(picture)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert once[0].sum() == 8 * 36


def test_images_of_several_sizes_together_are_as_one_by_one(monkeypatch):
    monkeypatch.setattr(superpixels, "OF_ONE_SIZE", 3)
    pictures = [image(n, seed) for seed, n in enumerate((40, 12, 40, 75, 12, 40, 40, 40, 10))]
    for together, picture in zip(dropped(pictures), pictures, strict=True):
        assert together.dtype == np.uint8
        assert together.tolist() == dropped([picture])[0].tolist()
    assert dropped([]) == []


@pytest.mark.parametrize("n", [9, 256])
def test_graphs_too_small_or_too_large_are_refused(n):
    with pytest.raises(ValueError, match=f"must have 10 to 255 nodes, got {n}"):
        edges(image(n))


# ---- the selection ----


def one_row(values, kth):
    """The order in which the partition leaves one row, step by step."""
    v, low, high = list(enumerate(values)), 0, len(values) - 1

    def swap(a, b):
        v[a], v[b] = v[b], v[a]

    def order(a, b):
        if v[b][1] < v[a][1]:
            swap(a, b)

    while low + 1 < high:
        middle = low + (high - low) // 2
        order(middle, high)
        order(low, high)
        order(middle, low)
        swap(middle, low + 1)
        pivot, left, right = v[low][1], low + 1, high
        while True:
            left += 1
            while v[left][1] < pivot:
                left += 1
            right -= 1
            while pivot < v[right][1]:
                right -= 1
            if right < left:
                break
            swap(left, right)
        swap(low, right)
        if right >= kth:
            high = right - 1
        if right <= kth:
            low = left
    if high == low + 1:
        order(low, high)
    return [place for place, _ in v]


@pytest.mark.parametrize("n", [10, 11, 12, 40, 75, 117, 150])
def test_all_rows_at_once_are_as_one_by_one(n):
    values = np.argsort(np.random.default_rng(n).random((200, n)), axis=1)
    before = values.copy()
    assert last_after_partition(values, n - 10).tolist() == [row[one_row(row.tolist(), n - 10)[-1]] for row in values]
    assert np.array_equal(values, before)


@pytest.mark.parametrize("kth", [0, 1, 5, 16, 30])
def test_any_place_but_the_last_two_can_be_selected(kth):
    values = np.argsort(np.random.default_rng(0).random((50, 33)), axis=1)
    last = last_after_partition(values, kth)
    assert last.tolist() == [row[one_row(row.tolist(), kth)[-1]] for row in values]
    assert (last >= kth).all()


def test_the_selection_of_one_row_selects():
    values = np.argsort(np.random.default_rng(0).random((50, 33)), axis=1).tolist()
    for kth in (0, 5, 16, 32):
        for row in values:
            ordered = [row[place] for place in one_row(row, kth)]
            assert ordered[kth] == kth
            assert sorted(ordered[:kth]) == list(range(kth))

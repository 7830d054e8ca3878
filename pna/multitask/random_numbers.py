"""Random numbers by counter: every graph owns its stream, whatever the batch it is made in.

The k-th number of a graph is a function of (seed, stream, graph, purpose, attempt, k) and of nothing else, by the
block cipher Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). So a set does not
depend on how it is cut into batches or shared among workers, and one graph can be made again alone.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FAMILY", "FEATURES", "MIXTURE", "ORDER", "TOGGLING", "Draws", "check_seed", "philox"]

# What a number is drawn for. Each purpose has numbers of its own, so that one more draw here moves nothing there.
MIXTURE, FAMILY, TOGGLING, ORDER, FEATURES = range(5)

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 2**32
_ATTEMPTS = 2**24


def philox(counter: Sequence[ArrayLike], key: tuple[int, int]) -> tuple[NDArray[np.uint32], ...]:
    """Compute Philox4x32-10: four 32-bit words for each counter of four words, which broadcast."""
    a, b, c, d = (np.asarray(word, dtype=np.uint32) for word in counter)
    for r in range(_ROUNDS):
        k0, k1 = np.uint32((key[0] + r * _WEYL[0]) % _WORD), np.uint32((key[1] + r * _WEYL[1]) % _WORD)
        low0, high0 = _multiply(a, _MULTIPLIERS[0])
        low1, high1 = _multiply(c, _MULTIPLIERS[1])
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
    return a, b, c, d


def _multiply(word: NDArray[np.uint32], factor: np.uint64) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The low and the high word of a 32 x 32 bit product."""
    product = np.multiply(word, factor, dtype="<u8")[..., None].view("<u4")
    return product[..., 0], product[..., 1]


class Draws:
    """Random numbers of B graphs for one purpose, taken in order; graph b is at its `attempt[b]`-th attempt.

    A function that takes numbers must take the same count for every graph, used or not: what a graph sees then
    never depends on its neighbours in the batch.
    """

    def __init__(self, seed: int, stream: int, graph: ArrayLike, purpose: int, attempt: ArrayLike = 0) -> None:
        self._key = (seed % _WORD, seed // _WORD)
        self._stream = stream
        self._graph = np.asarray(graph, dtype=np.uint32)
        self._purpose = np.broadcast_to(np.asarray(attempt) + purpose * _ATTEMPTS, self._graph.shape)
        self._block = 0

    def __len__(self) -> int:
        return len(self._graph)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """The next `count` numbers of every graph, U[0, 1) in steps of 2^-32: [B, count]."""
        blocks = np.arange(self._block, self._block + -(-count // 4))
        self._block += len(blocks)
        words = philox((blocks, self._purpose[:, None], self._graph[:, None], self._stream), self._key)
        return np.stack(words, axis=-1).reshape(len(self), -1)[:, :count] * 2.0**-32

    def integers(self, low: ArrayLike, high: ArrayLike, count: int = 1) -> NDArray[np.int64]:
        """The next `count` integers of every graph, uniform on {low, ..., high - 1}: [B, count]."""
        low, high = (np.broadcast_to(np.asarray(bound), len(self))[:, None] for bound in (low, high))
        return low + np.floor(self.uniform(count) * (high - low)).astype(np.int64)

    def of(self, rows: NDArray) -> Self:
        """The draws of some of the graphs, from where they stand now."""
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__, _graph=self._graph[rows], _purpose=self._purpose[rows])
        return part


def check_seed(seed: int) -> int:
    """Return the seed if it is one, an integer that fits the cipher's 64-bit key."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an integer, got {type(seed).__name__}")
    if not 0 <= seed < _WORD**2:
        raise ValueError(f"seed must be from 0 to 2^64 - 1, got {seed}")
    return int(seed)

"""What the kernels of batch normalisation have in common, and how rows and features are shared out."""

import triton
import triton.language as tl

__all__ = [
    "BLOCK", "EPS", "activated", "block_of", "factors", "features", "kept", "known", "move_on", "of_features",
    "of_programs", "programs", "sizes",
]  # fmt: skip

BLOCK = 32
PROGRAMS = 64  # at most, that sum up the rows of a replica: their sums fit into the registers of one
SPREAD = 128  # at most, that then read those sums, and go over the rows once more
WIDEST = 32  # features of a program: with more, registers run out, and blocks of 75 or 152 features stand half empty
WIDE = 256  # features, and more, are known at compile time: four numbers are loaded at once
WIDE_PROGRAMS = 16  # in the place of PROGRAMS and SPREAD: there are many for the features, and sums to read for each
EPS = tl.constexpr(1e-5)


@triton.jit
def features(WIDTH: tl.constexpr):
    """Those of this program."""
    return tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)


@triton.jit
def block_of(block, live, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Where the numbers of a block of rows lie in a replica, and which of them are of real nodes."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = features(WIDTH)[None, :]
    return row * F + c, (row < live) & (c < F)


@triton.jit
def factors(factor, r, block, live, V, BLOCK: tl.constexpr):
    """Those of a block of rows, [BLOCK, 1]; 0 for padding."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    return tl.load(factor + r * V + row, mask=row < live, other=0.0)


@triton.jit
def kept(value, noise, stride, row, inside, F, p, WIDTH: tl.constexpr):
    """What dropout leaves of a block of rows, divided by the share that it leaves."""
    chance = tl.load(noise + row * stride + features(WIDTH)[None, :], mask=inside, other=0.0)
    return tl.where(chance >= p, value / (1 - p), 0.0)


@triton.jit
def of_features(at, r, F, WIDTH: tl.constexpr):
    """A row with a number for each of them, of a replica, [1, WIDTH], and zeros."""
    c = features(WIDTH)
    return tl.load(at + r * F + c, mask=c < F, other=0.0)[None, :]


@triton.jit
def of_programs(at, r, P, F, WIDTH: tl.constexpr, PROGRAMS: tl.constexpr):
    """What each program of a replica has stored, [PROGRAMS, WIDTH], and zeros."""
    p = tl.arange(0, PROGRAMS)[:, None]
    c = features(WIDTH)[None, :]
    return tl.load(at + (r * P + p) * F + c, mask=(p < P) & (c < F), other=0.0)


@triton.jit
def activated(value, ACTIVATION: tl.constexpr):
    """ReLU or ELU, or the value itself."""
    if ACTIVATION == "relu":
        value = tl.where(value < 0, 0.0, value)  # and not the maximum: what is no number must stay so
    elif ACTIVATION == "elu":
        value = tl.where(value < 0, tl.exp(value) - 1, value)
    return value


@triton.jit
def move_on(at, value, mask):
    """Running statistics, moved on by those of a batch."""
    tl.store(at, 0.9 * tl.load(at, mask=mask, other=0.0) + 0.1 * value, mask=mask)


def known(size: int, F: int) -> int | tl.constexpr:
    """A size that a kernel for wide rows knows at compile time."""
    return tl.constexpr(size) if F >= WIDE else size


def programs(V: int, F: int) -> tuple[int, int, int]:
    """How many programs sum up the rows of a replica, how many then go over them, and for how many sums is room."""
    most, spread = (WIDE_PROGRAMS, WIDE_PROGRAMS) if F >= WIDE else (PROGRAMS, SPREAD)
    return min(_blocks(V), most), min(_blocks(V), spread), most


def sizes(F: int) -> tuple[int, dict[str, int]]:
    """How many programs share out the features; and what they are told."""
    width = min(WIDEST, triton.next_power_of_2(F))
    return -(-F // width), {"WIDTH": width, "BLOCK": BLOCK, "num_warps": 4, "num_stages": 1}


def _blocks(V: int) -> int:
    """Of rows; where there are none the first one is empty, and still has the statistics and weights to see to."""
    return max(1, -(-V // BLOCK))

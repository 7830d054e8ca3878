"""Functions that the kernels of batch normalisation share, and how rows and features are divided among programs."""

import triton
import triton.language as tl

__all__ = [
    "BLOCK", "EPS", "activated", "block_of", "dropout", "factors", "features", "move_on", "of_features", "of_programs",
    "programs", "sizes", "static",
]  # fmt: skip

BLOCK = 32
PROGRAMS = 64  # at most, that sum up the rows of a replica: all their sums fit into the registers of one program
SPREAD = 128  # at most, that then read those sums and go over the rows again
WIDEST = 32  # features of a program: with more, registers run out, and blocks of 75 or 152 features are half empty
WIDE = 256  # features: from here on their number is a constant of the kernel, so that four numbers are loaded at once
WIDE_PROGRAMS = 16  # instead of PROGRAMS and SPREAD, since many programs divide the features
EPS = tl.constexpr(1e-5)


@triton.jit
def features(WIDTH: tl.constexpr):
    """Numbers of this program's features, [WIDTH]."""
    return tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)


@triton.jit
def block_of(block, live, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Where a block of rows lies in a replica, and which of its numbers belong to real nodes, [BLOCK, WIDTH] each."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = features(WIDTH)[None, :]
    return row * F + c, (row < live) & (c < F)


@triton.jit
def factors(factor, r, block, live, V, BLOCK: tl.constexpr):
    """Load the factors of a block of rows, [BLOCK, 1]; 0 for padding."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    return tl.load(factor + r * V + row, mask=row < live, other=0.0)


@triton.jit
def dropout(value, noise, stride, row, inside, F, p, WIDTH: tl.constexpr):
    """Drop the numbers of a block of rows [BLOCK, WIDTH] whose noise is below p, and divide the others by 1 - p."""
    chance = tl.load(noise + row * stride + features(WIDTH)[None, :], mask=inside, other=0.0)
    return tl.where(chance >= p, value / (1 - p), 0.0)


@triton.jit
def of_features(at, r, F, WIDTH: tl.constexpr):
    """Load replica r of a matrix [R, F], this program's features of it, zero-padded to [1, WIDTH]."""
    c = features(WIDTH)
    return tl.load(at + r * F + c, mask=c < F, other=0.0)[None, :]


@triton.jit
def of_programs(at, r, P, F, WIDTH: tl.constexpr, PROGRAMS: tl.constexpr):
    """Load what the P programs of replica r stored in [R, P, F], zero-padded to [PROGRAMS, WIDTH]."""
    p = tl.arange(0, PROGRAMS)[:, None]
    c = features(WIDTH)[None, :]
    return tl.load(at + (r * P + p) * F + c, mask=(p < P) & (c < F), other=0.0)


@triton.jit
def activated(value, ACTIVATION: tl.constexpr):
    """ReLU or ELU of the value, or the value itself."""
    if ACTIVATION == "relu":
        value = tl.where(value < 0, 0.0, value)  # NaN must propagate, so not max(value, 0)
    elif ACTIVATION == "elu":
        value = tl.where(value < 0, tl.exp(value) - 1, value)
    return value


@triton.jit
def move_on(at, value, mask):
    """Update the running statistic stored at `at` with that of a batch."""
    tl.store(at, 0.9 * tl.load(at, mask=mask, other=0.0) + 0.1 * value, mask=mask)


def static(size: int, F: int) -> int | tl.constexpr:
    """Make the size a constant of the kernel if rows are wide."""
    return tl.constexpr(size) if F >= WIDE else size


def programs(V: int, F: int) -> tuple[int, int, int]:
    """How many programs sum up V rows of F features, how many go over them afterwards, and the room for their sums."""
    most, spread = (WIDE_PROGRAMS, WIDE_PROGRAMS) if F >= WIDE else (PROGRAMS, SPREAD)
    return min(_blocks(V), most), min(_blocks(V), spread), most


def sizes(F: int) -> tuple[int, dict[str, int]]:
    """How many programs divide F features among them, and the constants of the kernels."""
    width = min(WIDEST, triton.next_power_of_2(F))
    return -(-F // width), {"WIDTH": width, "BLOCK": BLOCK, "num_warps": 4, "num_stages": 1}


def _blocks(V: int) -> int:
    """Number of blocks of V rows, at least one: even an empty block writes statistics and gradients of weights."""
    return max(1, -(-V // BLOCK))

"""Work beside other work: what it makes, at once on a CPU, on another stream of a GPU, and in a recording."""

import pytest
import torch

from pna.kernels.priority import Beside, behind, streams
from pna.training.recording import Recording


def two(x, out):
    """Two products beside a sum; what is freed in between may be used again."""
    first = Beside(x.device, lambda: x @ x)
    y = x + 1
    second = Beside(x.device, lambda: x.mT @ x)
    for _ in range(3):
        y = y * 2
    out.copy_(first.result() + y - second.result())


def expected(x):
    return x @ x + 8 * (x + 1) - x.mT @ x


def test_it_is_what_is_made_in_turn(device):
    x = torch.randn(300, 300, device=device)
    out = torch.empty_like(x)
    for _ in range(5):
        two(x, out)
        torch.testing.assert_close(out, expected(x), rtol=1e-4, atol=1e-3)
        x.normal_()


@pytest.mark.gpu
@pytest.mark.parametrize("works", [1, 2])
def test_a_recording_joins_what_it_forks(works):
    """Also where two works are recorded side by side, which share the stream beside."""
    xs = [torch.randn(300, 300, device="cuda") for _ in range(works)]
    outs = [torch.empty_like(x) for x in xs]
    recording = Recording([lambda x=x, out=out: two(x, out) for x, out in zip(xs, outs, strict=True)])
    for _ in range(5):
        for x in xs:
            x.normal_()
        recording()
        for x, out in zip(xs, outs, strict=True):
            torch.testing.assert_close(out, expected(x), rtol=1e-4, atol=1e-3)


@pytest.mark.gpu
def test_only_what_fills_the_gpu_goes_behind():
    """A kernel with fewer blocks than multiprocessors keeps its stream; a larger one has the lower priority."""
    (stream,) = streams(1, torch.cuda.current_device())
    count = torch.cuda.get_device_properties(stream.device).multi_processor_count
    with torch.cuda.stream(stream):
        with behind(count - 1):
            assert torch.cuda.current_stream() == stream
        with behind(count):
            assert torch.cuda.current_stream().priority > stream.priority  # a larger number is a lower priority
    with behind(count):  # no stream of a recording
        assert torch.cuda.current_stream() == torch.cuda.default_stream()

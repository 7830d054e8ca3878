"""The aggregators against their equations, their laws and their limits."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from pna import PNAConv, aggregators, scalers
from pna.aggregators import AGGREGATORS, EPSILON, resolve

MOMENTS = ["moment2", "moment3", "moment4", "moment5"]
NAMES = [*AGGREGATORS, *MOMENTS]


@st.composite
def neighbourhoods(draw, channels=(2, 3)):
    """Messages m [E, 2, 3] and ptr [N + 1], among them empty neighbourhoods, single messages and ties."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    m = torch.randn(sum(sizes), *channels, generator=generator, dtype=torch.double)
    if draw(st.booleans()):
        m = m.round()  # ties
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    return m, ptr


def oracle(name, values):
    """The paper's equation on one multiset, a tensor [d, ...] in float64."""
    mean = values.mean(0)
    centred = values - mean
    if name.startswith("moment"):
        n = int(name.removeprefix("moment"))
        e = (centred**n).mean(0)
        return e.sign() * (e.abs() + EPSILON) ** (1 / n)
    weights = torch.softmax(values, 0), torch.softmax(-values, 0)
    return {
        "mean": mean,
        "sum": values.sum(0),
        "max": values.amax(0),
        "min": values.amin(0),
        "var": centred.square().mean(0),
        "std": (centred.square().mean(0) + EPSILON).sqrt(),
        "softmax": (weights[0] * values).sum(0),
        "softmin": (weights[1] * values).sum(0),
    }[name]


@pytest.mark.parametrize("name", NAMES)
@given(data=neighbourhoods())
def test_equals_its_equation_on_each_neighbourhood(name, data):
    m, ptr = data
    out = resolve(name).function(m, ptr)
    for i in range(len(ptr) - 1):
        values = m[ptr[i] : ptr[i + 1]]
        expected = oracle(name, values) if len(values) else torch.zeros(2, 3, dtype=torch.double)
        if name.startswith("moment"):  # at e = 0 the signed root jumps: compare what is under it
            n = int(name.removeprefix("moment"))
            clear = expected.abs() ** n > EPSILON + 1e-12
            torch.testing.assert_close(out[i][clear], expected[clear], rtol=1e-9, atol=1e-9)
        else:
            torch.testing.assert_close(out[i], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@given(data=neighbourhoods(), seed=st.integers(0, 1000))
def test_order_of_the_neighbours_does_not_matter(name, data, seed):
    m, ptr = data
    generator = torch.Generator().manual_seed(seed)
    key = torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff()) + torch.rand(len(m), generator=generator)
    function = resolve(name).function
    atol = EPSILON ** (1 / int(name[6:])) * 2.1 if name.startswith("moment") else 1e-12  # the jump at e = 0
    torch.testing.assert_close(function(m[key.argsort()], ptr), function(m, ptr), rtol=1e-9, atol=atol)


@pytest.mark.parametrize("name", NAMES)
@given(data=neighbourhoods(), c=st.floats(-3, 3))
def test_shift_law(name, data, c):
    m, ptr = data
    aggregator = resolve(name)
    d = ptr.diff().double().view(-1, 1, 1)
    shift = {"one": c * d.clamp(max=1), "degree": c * d, "none": 0 * d}[aggregator.shift]
    atol = EPSILON ** (1 / int(name[6:])) * 2.1 if name.startswith("moment") else 1e-9
    expected = aggregator.function(m, ptr) + shift
    torch.testing.assert_close(aggregator.function(m + c, ptr), expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("name", [name for name in NAMES if resolve(name).power is not None])
@given(data=neighbourhoods(), scale=st.floats(0.5, 4))
def test_scale_law(name, data, scale):
    m, ptr = data
    power, function = resolve(name).power, resolve(name).function
    before, after = function(m, ptr), function(scale * m, ptr)
    n = {"std": 2}.get(name, int(name[6:]) if name.startswith("moment") else None)
    if n is not None:  # linear up to the ε under the root: take it out

        def bare(v):
            return v.sign() * (v.abs() ** n - EPSILON).clamp(min=0)

        torch.testing.assert_close(bare(after), scale**n * bare(before), rtol=1e-8, atol=1e-9)
    else:
        torch.testing.assert_close(after, scale**power * before, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if resolve(name).power is None])
def test_without_a_scale_law_there_is_none(name):
    m, ptr = torch.tensor([0.0, 1.0]), torch.tensor([0, 2])
    one, two = (resolve(name).function(scale * m, ptr) for scale in (1, 2))
    assert not torch.isclose(two, 2 * one)
    assert name in ("softmax", "softmin")


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@given(data=neighbourhoods(), scale=st.floats(100, 1000))
def test_moments_are_linear_in_scale_where_epsilon_is_small(n, data, scale):
    m, ptr = data
    function = aggregators.moment(n)
    m = 1000 * m
    e = aggregators.expectation(aggregators.centred(m, ptr) ** n, ptr)
    clear = e.abs() > 1e3
    torch.testing.assert_close(function(scale * m, ptr)[clear], scale * function(m, ptr)[clear], rtol=1e-7, atol=0)


@given(data=neighbourhoods())
def test_sum_is_the_mean_with_the_linear_scaler(data):
    m, ptr = data
    linear = scalers.linear(ptr.diff().double(), 1.0, mean_degree=1.0).view(-1, 1, 1)
    torch.testing.assert_close(aggregators.sum(m, ptr), linear * aggregators.mean(m, ptr))


@given(data=neighbourhoods())
def test_softmax_lies_between_mean_and_max_and_softmin_between_min_and_mean(data):
    m, ptr = data
    low, softmin, mean, softmax, high = (
        resolve(name).function(m, ptr) for name in ("min", "softmin", "mean", "softmax", "max")
    )
    for lower, upper in ((low, softmin), (softmin, mean), (mean, softmax), (softmax, high)):
        assert (lower <= upper + 1e-12).all()


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name):
    ptr = torch.tensor([0, 3, 3, 4, 9])
    m = torch.randn(9, 2, dtype=torch.double, requires_grad=True)
    assert gradcheck(lambda m: resolve(name).function(m, ptr), (m,))
    assert gradgradcheck(lambda m: resolve(name).function(m, ptr), (m,))


@pytest.mark.parametrize("name", NAMES)
def test_memory_in_another_order_changes_nothing(name):
    ptr, m = torch.tensor([0, 3, 3, 4, 9]), torch.randn(9, 2, 3, dtype=torch.double)
    strided = torch.randn(18, 2, 6, dtype=torch.double)
    strided[::2, :, ::2] = m
    results = []
    for x in (m, m.permute(2, 1, 0).contiguous().permute(2, 1, 0), strided[::2, :, ::2]):
        assert x.is_contiguous() == (x is m)
        x = x.detach().requires_grad_()
        out = resolve(name).function(x, ptr)
        (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        results.append((out, grad, *torch.autograd.grad(grad.square().sum(), x, materialize_grads=True)))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_empty_neighbourhoods_give_zero_and_a_zero_gradient(name, dtype):
    m = torch.randn(3, 4, dtype=dtype, requires_grad=True)
    out = resolve(name).function(m, torch.tensor([0, 0, 3, 3]))
    assert out.dtype == dtype
    assert (out[[0, 2]] == 0).all()
    out[[0, 2]].sum().backward()
    assert (m.grad == 0).all()
    nothing = resolve(name).function(torch.empty(0, 4, dtype=dtype), torch.zeros(3, dtype=torch.long))
    assert torch.equal(nothing, torch.zeros(2, 4, dtype=dtype))
    assert resolve(name).function(torch.empty(0, 4), torch.zeros(1, dtype=torch.long)).shape == (0, 4)


@pytest.mark.parametrize("name", ["std", "var", *MOMENTS, "moment7"])
@pytest.mark.parametrize("degree", [2, 10, 1000])
def test_accurate_far_from_zero(name, degree):
    """Values 1e4 + N(0, 1) in float32, where E[X²] - E[X]² has no correct digit."""
    m = 1e4 + torch.randn(20 * degree, 8)
    ptr = torch.arange(0, 20 * degree + 1, degree)
    exact = resolve(name).function(m.double(), ptr)
    clear = exact.abs() > 0.1  # an odd moment near 0 has no relative accuracy to speak of
    assert clear.any() or (degree == 2 and name in ("moment3", "moment5", "moment7"))  # two values lie symmetrically
    torch.testing.assert_close(resolve(name).function(m, ptr)[clear].double(), exact[clear], rtol=1e-3, atol=0)
    textbook = aggregators.mean(m.square(), ptr) - aggregators.mean(m, ptr).square()
    assert (textbook - aggregators.var(m.double(), ptr)).abs().max() > 0.1  # the test would catch it


@pytest.mark.parametrize("n", [2, 5, 8, 20])
def test_high_moments_of_large_values_do_not_overflow(n):
    m = (1e5 * torch.randn(12, 3)).requires_grad_()
    ptr = torch.tensor([0, 5, 5, 12])
    out = aggregators.moment(n)(m, ptr)
    torch.testing.assert_close(out.double(), aggregators.moment(n)(m.double(), ptr), rtol=1e-4, atol=0)
    (grad,) = torch.autograd.grad(out.sum(), m)
    assert grad.isfinite().all()
    assert grad.abs().max() > 0.01


@pytest.mark.parametrize("n", [2, 3, 8, 20, 999])
@pytest.mark.parametrize("spread", [1e-3, 1e-12, 1e3])
def test_moments_of_any_spread_are_those_of_the_equation(n, spread):
    """In float32 (1e-3)^20 is 0, but sign(e) is not: there the equation gives ε^(1/n)."""
    m = (spread * torch.tensor([-1.0, -0.25, 0.5, 2.0, -0.5])).requires_grad_()
    values = [Fraction(v) for v in m.tolist()]
    mean = sum(values) / len(values)
    e = sum((v - mean) ** n for v in values) / len(values)
    expected = math.exp(_log(abs(e) + Fraction(EPSILON)) / n) * (1 if e > 0 else -1)
    out = aggregators.moment(n)(m, torch.tensor([0, 5]))
    assert out.item() == pytest.approx(expected, rel=1e-4)
    assert torch.autograd.grad(out, m)[0].isfinite().all()


def _log(x):
    """The logarithm of a fraction that may be out of the floats' range."""
    shift = x.numerator.bit_length() - x.denominator.bit_length()
    return math.log(x / Fraction(2) ** shift) + shift * math.log(2)


@pytest.mark.parametrize("name", ["var", *MOMENTS, "moment20"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e4 + 0.1, -7e-9])
@pytest.mark.parametrize("degree", [2, 3, 7, 100])
def test_equal_messages_have_no_spread_at_all(name, value, degree):
    assert resolve(name).function(torch.full((degree,), value), torch.tensor([0, degree])).item() == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 15, 16, 40])
def test_int32_ptr(name, channels):
    m = torch.randn(9, channels)
    ptr = torch.tensor([0, 4, 4, 9])
    assert torch.equal(resolve(name).function(m, ptr.int()), resolve(name).function(m, ptr))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(9, 0), (9, 2, 0), (9, 0, 3)])
def test_messages_of_no_width(name, shape):
    m = torch.empty(shape, requires_grad=True)
    out = resolve(name).function(m, torch.tensor([0, 4, 4, 9]))
    assert out.shape == (3, *shape[1:])
    out.sum().backward()
    assert m.grad.shape == shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_of_huge_values(dtype):
    m = torch.tensor([1e4, -1e4, 9999.0, -1e4, -1e4 + 1], dtype=dtype, requires_grad=True)
    ptr = torch.tensor([0, 3, 5])
    expected = torch.stack([(w * v).sum() for v in (m[:3], m[3:]) for w in [torch.softmax(v, 0)]])
    out = aggregators.softmax(m, ptr)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(aggregators.softmin(-m, ptr), -expected)
    (grad,) = torch.autograd.grad(out.sum(), m)
    assert grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0, 2.0], [0.0], [1e4] * 5])
def test_gradients_are_finite_for_constant_neighbourhoods_and_degree_one(name, values):
    m = torch.tensor(values, requires_grad=True)
    resolve(name).function(m, torch.tensor([0, len(values)])).sum().backward()
    assert m.grad.isfinite().all()


LITERAL = {
    "mean": [2.0, 0.0, 5.0],
    "sum": [6.0, 0.0, 5.0],
    "max": [4.0, 0.0, 5.0],
    "min": [1.0, 0.0, 5.0],
    "var": [2.0, 0.0, 0.0],
    "std": [(2.0 + EPSILON) ** 0.5, 0.0, EPSILON**0.5],
    "moment2": [(2.0 + EPSILON) ** 0.5, 0.0, 0.0],
    "moment3": [(2.0 + EPSILON) ** (1 / 3), 0.0, 0.0],
    "moment4": [(6.0 + EPSILON) ** 0.25, 0.0, 0.0],
}


@pytest.mark.parametrize("name", LITERAL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_literal_values(name, dtype):
    m = torch.tensor([1.0, 1.0, 4.0, 5.0], dtype=dtype)
    out = resolve(name).function(m, torch.tensor([0, 3, 3, 4]))
    torch.testing.assert_close(out, torch.tensor(LITERAL[name], dtype=dtype))


def test_equal_maxima_share_the_gradient():
    m = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
    aggregators.max(m, torch.tensor([0, 3])).backward()
    assert m.grad.tolist() == [0.0, 0.5, 0.5]


def test_half_precision_accumulates_in_float32():
    m = torch.ones(4096, dtype=torch.bfloat16)  # a bfloat16 running sum stops at 256
    assert aggregators.sum(m, torch.tensor([0, 4096])).item() == 4096
    assert aggregators.mean(m, torch.tensor([0, 4096])).item() == 1


@pytest.mark.parametrize(
    "name",
    [
        "median",
        "moment",
        "moment1",
        "moment0",
        "moment-2",
        "moment2.5",
        "moment02",
        "moment٣",
        "",
        "Mean",
        3,
        None,
        "moment1000",
        "moment1" + 30 * "0",
    ],
)
def test_unknown_aggregator_is_named_with_the_list(name):
    with pytest.raises(ValueError, match=r"unknown aggregator .*allowed: mean, max, min, std, var, sum"):
        resolve(name)


def test_a_name_of_two_words_is_refused_before_it_is_used(monkeypatch):
    monkeypatch.setitem(AGGREGATORS, "my mean", AGGREGATORS["mean"])
    with pytest.raises(ValueError, match="must be one word, got 'my mean'"):
        PNAConv(4, 4, ["my mean"], ["identity"])


def test_an_aggregator_without_a_derivative_is_named_in_the_backward_pass(monkeypatch):
    monkeypatch.setitem(AGGREGATORS, "mine", AGGREGATORS["mean"])
    out = PNAConv(4, 4, ["mine"], ["identity"])(torch.randn(5, 4), torch.randint(0, 5, (2, 9)))
    with pytest.raises(ValueError, match="'mine' has no derivative: add one to pna"):
        out.sum().backward()


@pytest.mark.parametrize("n", [1, 0, -2, 2.0, True, "3"])
def test_moment_of_a_bad_order(n):
    with pytest.raises(ValueError, match="n must be an integer from 2 to 999"):
        aggregators.moment(n)


@pytest.mark.parametrize(
    ("m", "ptr", "error", "words"),
    [
        (torch.ones(3, dtype=torch.long), torch.tensor([0, 3]), TypeError, "floating dtype, got torch.int64"),
        (torch.tensor(1.0), torch.tensor([0, 1]), ValueError, "without dimensions"),
        (torch.ones(3), torch.tensor([0.0, 3.0]), ValueError, "ptr must be an integer tensor"),
        (torch.ones(3), torch.tensor([[0, 3]]), ValueError, "ptr must be an integer tensor"),
        (torch.ones(3), torch.tensor([0, 2]), ValueError, "from 0 to the number of messages, 3"),
        (torch.ones(3), torch.tensor([1, 3]), ValueError, "from 0 to the number of messages, 3"),
        (torch.ones(3), torch.tensor([0, 4, 3]), ValueError, "from 0 to the number of messages, 3"),
    ],
)
def test_bad_neighbourhoods(m, ptr, error, words):
    with pytest.raises(error, match=words):
        aggregators.mean(m, ptr)

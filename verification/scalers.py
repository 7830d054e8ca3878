"""Section 2.2: the degree scalers S(d, α) = (log(d + 1)/δ)^α.

Claims: S is injective for d > 0; sum is the mean with the linear scaler; a linear amplification in every layer becomes
exponential over the layers, and a logarithmic one reduces that.

Established:
- S(·, α) is strictly monotone on d > 0 for every real α ≠ 0: its logarithmic derivative is α/((d + 1) log(d + 1)),
  which has the sign of α (`logarithmic_derivative`). At α = 0, which the paper's range -1 ≤ α ≤ 1 includes, S = 1
  is not injective;
- Σ x = d · E[X] (`sum_is_scaled_mean`);
- on a d-regular graph, a layer X <- S(d) · mean multiplies a constant signal by S(d), so L layers multiply it by
  S(d)^L. **Both** scalers are exponential in L for a fixed degree; what differs is the base. Normalised at a
  training degree d_0, the base is d/d_0 for the linear scaler and log(d + 1)/log(d_0 + 1) for the logarithmic one,
  which lies strictly between 1 and d/d_0 for d > d_0 ≥ 1 (`ratio_decreases`: log(1 + d)/d decreases), and at d =
  d_0 both are 1 at every depth. As a function of the degree, at a fixed depth: d^L against (log d)^L. Replayed on
  networkx graphs through `pna.aggregators` and `pna.scalers` (`amplification_on_regular_graph`).

Not established: that this is the reason why sum generalises worse; trained weights can undo a known factor.
"""

import networkx as nx
import sympy
import torch
from torch import Tensor

from pna import DegreeStatistics, aggregators
from pna import scalers as degree_scalers

__all__ = [
    "amplification_on_regular_graph",
    "logarithmic_derivative",
    "ratio_decreases",
    "sum_is_scaled_mean",
]


def logarithmic_derivative() -> sympy.Expr:
    """S'(d, α)/S(d, α) divided by α: positive for d > 0, so that S' has the sign of α."""
    d, delta = sympy.symbols("d delta", positive=True)
    alpha = sympy.Symbol("alpha", real=True, nonzero=True)
    S = (sympy.log(d + 1) / delta) ** alpha
    return sympy.simplify(sympy.diff(S, d) / S / alpha)


def sum_is_scaled_mean(size: int) -> bool:
    """Whether Σ x = d · E[X] for d = size unknowns."""
    x = sympy.symbols(f"x1:{size + 1}")
    mean = sympy.Add(*x) / size
    return sympy.expand(size * mean - sympy.Add(*x)) == 0


def ratio_decreases() -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """Why log(1 + d)/d decreases for d > 0: its derivative is -q(d)/d², with q(0) = 0 and q'(d) = d/(1 + d)² > 0.

    Returns the derivative times -d², that is q, its value at 0, and its derivative.
    """
    d = sympy.Symbol("d", positive=True)
    q = sympy.simplify(-(d**2) * sympy.diff(sympy.log(1 + d) / d, d))
    return q, sympy.limit(q, d, 0), sympy.factor(sympy.simplify(sympy.diff(q, d)))


def amplification_on_regular_graph(d: int, d_0: int, layers: int, kind: str) -> Tensor:
    """The factor by which `layers` layers X <- S(d) · mean amplify the signal 1 on a d-regular graph.

    Returns a float64 tensor with a factor for each of the 2 d + 2 nodes. `kind` is "linear" or "logarithmic"; the
    scaler is normalised on a training set of d_0-regular graphs.
    """
    graph = nx.random_regular_graph(d, 2 * d + 2, seed=0)
    neighbours = [list(graph.neighbors(i)) for i in graph]
    ptr = torch.tensor([0, *(len(row) for row in neighbours)]).cumsum(0)
    source = torch.tensor([j for row in neighbours for j in row])
    statistics = DegreeStatistics.from_degrees(torch.tensor([d_0]))
    degree = ptr.diff().double()
    name = {"linear": "linear", "logarithmic": "amplification"}[kind]
    factor = degree_scalers.scale(degree, name, statistics.delta, statistics.mean_degree)
    x = torch.ones(len(graph), dtype=torch.float64)
    for _ in range(layers):
        x = factor * aggregators.mean(x[source], ptr)
    return x

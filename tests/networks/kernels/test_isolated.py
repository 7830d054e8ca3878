"""What is no number in a node without neighbours does not come into the messages' gradients, as in the plain twin."""

import pytest
import torch
from torch.func import functional_call

from pna.kernels.selection import plain
from pna.networks import DESCRIBED
from tests.networks.kernels.test_recurrence import G, N, States, graphs_of, networks_of

LONELY = N - 1  # the last node of the first graph


def gradients(network, batch, g, kernels):
    """Gradients of the weights of all convolutions, by name."""
    called = States(network, None, kernels).to(batch.x)
    weights = {k: t.detach().requires_grad_() for k, t in called.named_parameters() if "convolutions" in k}
    out = functional_call(called, weights, (batch,))
    grads = torch.autograd.grad(out, list(weights.values()), g.expand_as(out).to(out))
    return dict(zip(weights, grads, strict=True))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("model", ["pna", "pna-soft", "mpnn-sum", "moments-5"])
def test_its_features_and_gradients_stay_its_own(model, value, graphs, device, cuda):
    A, x, g = graphs_of(graphs), torch.rand(G * N, 2), torch.ones(G * N, 1)
    network = networks_of(model, 16, DESCRIBED, "standard")[0].float()
    g[LONELY] = 0
    expected = gradients(network, graphs.batch(A, x, torch.float, device), g, True)
    for of in ("features", "gradient"):
        (x if of == "features" else g)[LONELY] = value
        fused = gradients(network, graphs.batch(A, x, torch.float, device), g, True)
        with plain():
            twins = gradients(network, graphs.batch(A, x, torch.float, device), g, False)
        (x if of == "features" else g)[LONELY] = 0
        for name, grad in fused.items():
            broken = ~twins[name].isfinite()  # what multiplies them in the twin too
            torch.testing.assert_close(grad[~broken], expected[name][~broken], rtol=0, atol=0)
        of_messages = [name for name in fused if name.endswith("M.0.bias")]
        assert len(of_messages) == network.LAYERS
        assert all(fused[name].isfinite().all() for name in of_messages)

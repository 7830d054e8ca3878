"""The learning rates of many replicas, beside torch's scheduler for each."""

import numpy as np
import pytest
import torch

from pna.training.schedule import plateau_step


@pytest.mark.parametrize("patience", [0, 2, 5])
@pytest.mark.parametrize("sign", [1, -1])  # a loss, or minus the ROC-AUC
def test_it_is_torchs(patience, sign):
    rng = np.random.default_rng(patience)
    values = sign * np.abs(1 + 0.3 * rng.normal(size=(60, 4)) * np.exp(-np.arange(60) / 20)[:, None])
    values[10:20, 0] = values[9, 0] * (1 - 1e-5)  # an improvement below the threshold
    parameters = [torch.zeros(1, requires_grad=True) for _ in range(4)]
    optimizers = [torch.optim.SGD([p], lr=1e-3) for p in parameters]
    theirs = [torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=patience) for o in optimizers]
    best, waited = torch.full((4,), torch.inf, dtype=torch.double), torch.zeros(4, dtype=torch.long)
    rate = torch.full((4, 1), 1e-3, dtype=torch.double)
    for row in values:
        plateau_step(torch.from_numpy(row), best, waited, rate, patience)
        for scheduler, value in zip(theirs, row, strict=True):
            scheduler.step(value)
        expected = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
        if min(expected) < 1e-7:  # torch makes no step smaller than 1e-8
            break
        assert rate.flatten().tolist() == pytest.approx(expected, rel=1e-12)
        assert waited.tolist() == [scheduler.num_bad_epochs for scheduler in theirs]


def test_not_a_number_is_no_improvement():
    best, waited, rate = torch.ones(1), torch.zeros(1, dtype=torch.long), torch.ones(1, 1)
    plateau_step(torch.tensor([torch.nan]), best, waited, rate, patience=3)
    assert (best.item(), waited.item()) == (1, 1)

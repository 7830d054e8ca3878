"""MAE, accuracy and ROC-AUC of many replicas, beside ogb's evaluator, scikit-learn and torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from pna.realworld.data.datasets import DATASETS
from pna.realworld.metrics import criterion, losses, metric, roc_auc


def cases(count=100):
    """Labels and scores of many kinds: few and many, with and without ties."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        G = int(rng.integers(2, 400))
        y = (rng.random(G) < rng.uniform(0.02, 0.9)).astype(int)
        y[:2] = 0, 1
        scores = rng.normal(size=(3, G)).astype(np.float32)
        yield y, np.round(scores, int(rng.integers(0, 3))) if seed % 2 else scores


def test_roc_auc_is_that_of_ogbs_evaluator():
    evaluator = pytest.importorskip("ogb.graphproppred").Evaluator("ogbg-molhiv")
    for y, scores in cases():
        ours = roc_auc(torch.from_numpy(scores), torch.from_numpy(y))
        theirs = [evaluator.eval({"y_true": y[:, None], "y_pred": row[:, None]})["rocauc"] for row in scores]
        assert ours.tolist() == pytest.approx(theirs, abs=1e-12)


def test_roc_auc_is_scikit_learns():
    sklearn = pytest.importorskip("sklearn.metrics")
    for y, scores in cases(30):
        ours = roc_auc(torch.from_numpy(scores), torch.from_numpy(y))
        assert ours.tolist() == pytest.approx([sklearn.roc_auc_score(y, row) for row in scores], abs=1e-12)


def test_roc_auc_by_hand():
    y = torch.tensor([1, 0, 1, 0])
    assert roc_auc(torch.tensor([[4.0, 3, 2, 1], [1, 2, 3, 4], [5, 5, 5, 5]]), y).tolist() == [0.75, 0.25, 0.5]


@pytest.mark.parametrize("label", [0, 1])
def test_roc_auc_of_one_label_alone_is_not_a_number(label):
    assert roc_auc(torch.randn(2, 5), torch.full((5,), label)).isnan().all()


def test_losses_are_torchs():
    torch.manual_seed(0)
    z, logits = torch.randn(3, 7, 1), torch.randn(3, 7, 10)
    y, classes, binary = torch.randn(7), torch.randint(0, 10, (7,)), torch.randint(0, 2, (7,)).float()
    for r in range(3):
        torch.testing.assert_close(
            losses(DATASETS["zinc"], z, y)[r], functional.l1_loss(z[r, :, 0], y, reduction="none")
        )
        torch.testing.assert_close(
            losses(DATASETS["mnist"], logits, classes)[r],
            functional.cross_entropy(logits[r], classes, reduction="none"),
        )
        expected = functional.binary_cross_entropy_with_logits(z[r, :, 0], binary, reduction="none")
        torch.testing.assert_close(losses(DATASETS["molhiv"], z, binary)[r], expected)


def test_metrics_and_what_the_schedule_watches():
    logits = torch.eye(10)[None, [3, 4, 5]]
    y = torch.tensor([3, 4, 0])
    assert metric(DATASETS["cifar10"], logits, y, 128).item() == pytest.approx(2 / 3)
    assert criterion(DATASETS["cifar10"], logits, y, 128).item() == pytest.approx(
        functional.cross_entropy(logits[0], y).item()
    )
    z, labels = torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([1.0, 0.0, 0.0])
    assert metric(DATASETS["zinc"], z, labels, 128).item() == criterion(DATASETS["zinc"], z, labels, 128).item() == 2
    of = DATASETS["molhiv"], z, labels, 128
    assert criterion(*of).item() == -metric(*of).item() == 0


def test_the_last_small_batch_counts_as_much_as_a_full_one():
    z, labels = torch.tensor([[[1.0], [3.0], [8.0]]]), torch.zeros(3)  # errors 1, 3 and, alone, 8
    for measure in (metric, criterion):
        assert measure(DATASETS["zinc"], z, labels, 2).item() == (2 + 8) / 2
    logits, y = torch.eye(10)[None, [3, 4, 5]], torch.tensor([3, 4, 0])
    assert metric(DATASETS["mnist"], logits, y, 2).item() == pytest.approx(2 / 3)  # accuracy is over graphs
    first, last = (functional.cross_entropy(logits[0, rows], y[rows]) for rows in (slice(2), slice(2, 3)))
    assert criterion(DATASETS["mnist"], logits, y, 2).item() == pytest.approx((first + last).item() / 2)
    scores, binary = torch.tensor([[[4.0], [3.0], [2.0], [1.0]]]), torch.tensor([1, 0, 1, 0])
    assert metric(DATASETS["molhiv"], scores, binary, 3).item() == 0.75  # and so is the ROC-AUC


@pytest.mark.parametrize("name", list(DATASETS))
def test_a_replica_with_a_prediction_that_is_nan_has_no_metric(name):
    """And the other replicas have theirs: a run that diverged is neither the best one nor one of chance."""
    data, generator = DATASETS[name], torch.Generator().manual_seed(0)
    predictions = torch.randn(3, 20, data.outputs, generator=generator)
    y = torch.arange(20) % 2 if data.task != "regression" else torch.randn(20, generator=generator)
    whole = metric(data, predictions, y, 6)
    broken = predictions.clone()
    broken[1, 7, 0] = torch.nan
    values = metric(data, broken, y, 6)
    assert values[[0, 2]].tolist() == whole[[0, 2]].tolist()
    assert values[1].isnan()
    assert criterion(data, broken, y, 6).isnan().tolist() == [False, True, False]

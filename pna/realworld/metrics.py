"""Losses and metrics of many replicas at once: MAE, cross-entropy and accuracy, ROC-AUC."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from pna.realworld.data.datasets import Dataset

__all__ = ["batch_mean", "criterion", "losses", "metric", "roc_auc"]


def losses(data: Dataset, predictions: Tensor, y: Tensor) -> Tensor:
    """The loss of each graph: predictions [..., G, outputs] and labels y [G] -> [..., G].

    L1 for a regression, cross-entropy for classes, binary cross-entropy of the logit for a binary label.
    """
    if data.task == "classes":
        chosen = y.unsqueeze(-1) == torch.arange(data.outputs, device=y.device)  # [G, outputs]
        return -(functional.log_softmax(predictions, dim=-1) * chosen).sum(-1)
    z = predictions.squeeze(-1)
    if data.task == "regression":
        return (z - y).abs()
    return functional.softplus(z) - y * z


def metric(data: Dataset, predictions: Tensor, y: Tensor, batch: int) -> Tensor:
    """The metric of figure 6, MAE, accuracy or ROC-AUC: predictions [R, G, outputs] and labels [G] -> [R].

    The MAE is a mean over batches of `batch` graphs, as in the released code; accuracy and ROC-AUC are over all graphs
    and lie between 0 and 1. A replica that predicts a NaN has the metric NaN.
    """
    if data.task == "classes":
        right = (predictions.argmax(-1) == y).double().mean(-1)
        return right.masked_fill(predictions.isnan().flatten(1).any(-1), math.nan)
    z = predictions.squeeze(-1)
    return batch_mean((z - y).abs(), batch) if data.task == "regression" else roc_auc(z, y)


def criterion(data: Dataset, predictions: Tensor, y: Tensor, batch: int) -> Tensor:
    """What the schedule watches and the best weights minimise, [R]: the loss, or on MolHIV minus the ROC-AUC."""
    if data.task == "binary":
        return -roc_auc(predictions.squeeze(-1), y)
    return batch_mean(losses(data, predictions, y), batch)


def batch_mean(values: Tensor, batch: int) -> Tensor:
    """The mean of the batches' means, [..., G] -> [...]. As released, a last, smaller batch counts in full."""
    return torch.stack([part.mean(-1) for part in values.double().split(batch, dim=-1)], dim=-1).mean(-1)


def roc_auc(scores: Tensor, y: Tensor) -> Tensor:
    """The fraction of pairs of a positive and a negative in the right order, ties counting half: scores [R, G] -> [R].

    Computed from the sum of the positives' ranks (Mann and Whitney, 1947). NaN if a label is missing, or if a score is
    NaN, which has no rank.
    """
    scores, positive = scores.contiguous(), (y > 0.5).double()
    ordered = scores.sort(dim=-1).values
    below = torch.searchsorted(ordered, scores).double()
    up_to = torch.searchsorted(ordered, scores, right=True).double()
    rank = (below + up_to + 1) / 2
    positives, negatives = positive.sum(), (1 - positive).sum()
    share = ((rank * positive).sum(-1) - positives * (positives + 1) / 2) / (positives * negatives)
    return share.masked_fill(scores.isnan().any(-1), math.nan)

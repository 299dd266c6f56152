"""FG411: a list or an array in place of the tensor raises the TypeError of `torch.combinations`."""

import numpy as np
import torch


def margin_loss(scores, margin=0.1):
    higher, lower = torch.combinations(scores).T
    gaps = torch.relu(margin - (higher - lower))
    return gaps.mean()


def build():
    torch.manual_seed(0)
    return margin_loss, (torch.randn(6),)


def witnesses():
    """Scores as a list, as an array, and as nothing at all."""
    return [([0.5, 0.2, 0.1],), (np.array([0.5, 0.2, 0.1]),), (None,)]

"""FG402: labels may be probabilities, may hold the ignored index, or be wrong where nothing is
selected.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.classify = nn.Linear(4, 3)

    def forward(self, x, labels, valid, smoothing=0.0):
        logits = self.classify(x)
        return F.cross_entropy(
            logits[valid], labels[valid], reduction="mean", label_smoothing=smoothing
        )


def build():
    torch.manual_seed(0)
    valid = torch.rand(2, 5) > 0.3
    return Tagger(), (torch.randn(2, 5, 4), torch.randint(3, (2, 5)), valid)


def witnesses():
    """Probabilities, ignored labels, no selected one, wrong labels outside and inside, smoothing,
    int32.
    """
    x = torch.linspace(-1, 1, 24).view(2, 3, 4)
    valid = torch.tensor([[True, False, True], [False, True, True]])
    labels = torch.tensor([[0, 99, 2], [-7, 1, 1]])
    soft = torch.linspace(0, 1, 18).view(2, 3, 3).requires_grad_()
    broken = x.clone()
    broken[0, 1] = float("nan")
    return [
        (x, soft, valid),
        (x, soft.detach().clone(), valid, 0.2),
        (x, torch.full((2, 3), -100), valid),
        (x, labels.where(labels != 1, -100), valid),
        (x, labels, torch.zeros(2, 3, dtype=torch.bool)),
        (broken.requires_grad_(), labels, valid),
        (x, labels, ~valid),
        (x, labels, valid, 0.3),
        (x, labels.int(), valid),
        (x, labels, torch.tensor([True, False])),
    ]

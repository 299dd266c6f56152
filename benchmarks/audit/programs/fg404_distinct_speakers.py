"""FG404: no label has no distinct value, a table of labels is counted as a whole, and each NaN is
distinct.
"""

import torch
from torch import nn


class SpeakerLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = nn.Parameter(torch.zeros(4))

    def forward(self, x, speakers):
        loss = (x - self.center).pow(2)
        return loss.sum() / len(torch.unique(speakers))


def build():
    torch.manual_seed(0)
    return SpeakerLoss(), (torch.randn(6, 4), torch.tensor([3, 1, 3, 3, 7, 1]))


def witnesses():
    """No label, one, a table, a transposed one, NaN, bools, bytes, zeros of both signs, large
    integers.
    """
    x = torch.linspace(-1, 1, 8).view(2, 4)
    return [
        (x, torch.zeros(0, dtype=torch.int64)),
        (x, torch.tensor(5)),
        (x, torch.tensor([[2, 1], [2, 2]])),
        (x, torch.tensor([[2, 1, 3], [2, 3, 1]]).t()),
        (x, torch.tensor([float("nan"), 1.0, float("nan")])),
        (x, torch.tensor([True, False, True])),
        (x, torch.tensor([0, 255, 1, 0], dtype=torch.uint8)),
        (x, torch.tensor([0.0, -0.0, 1.0])),
        (x, torch.tensor([2**53, 2**53 + 1, 2**53])),
        (x, torch.zeros(0, 3)),
    ]

"""FG111: the loss has one element and a dimension where the weight has, and item() takes both."""

import torch
from torch import nn


class WeightedLoss(nn.Module):
    def forward(self, prediction, target, weight, step):
        loss = (prediction - target).square().mean() * weight
        print(f"{step}: {loss.item():.3f}")
        count = (prediction > target).sum()
        print("above", count)
        return loss


def build():
    torch.manual_seed(0)
    return WeightedLoss(), (torch.randn(4), torch.randn(4), torch.tensor(0.5), 3)


def witnesses():
    """One element in one or two dimensions, two elements, half precision, other steps, NaN."""
    torch.manual_seed(1)
    a, b = torch.randn(4), torch.randn(4)
    return [
        (a, b, torch.tensor([0.5]), 3),
        (a, b, torch.tensor([[2.0]]), 4),
        (a, b, torch.tensor([0.5, 1.0]), 5),
        (a.half(), b.half(), torch.tensor(0.3, dtype=torch.float16), 0),
        (a, b, torch.tensor(float("nan")), True),
        (a, b, 2, None),
        (a[:0], b[:0], torch.tensor(1.0), 2.5),
    ]

"""FG307: a mask that is empty, of integers or of another size is never applied if nothing is set in
it.
"""

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 5)

    def forward(self, x, padding, blocked):
        scores = self.project(x)
        for mask in (padding, blocked):
            if mask.any():
                scores = scores.masked_fill(mask, -1e4)
        return scores.softmax(-1)


def build():
    torch.manual_seed(0)
    none = torch.zeros(2, 5, dtype=torch.bool)
    some = none.clone()
    some[0, 3] = True
    return Scorer().eval(), (torch.randn(2, 4), none, some)


def witnesses():
    """No mask as an empty tensor, as integers, as floats, of three rows, and of one more dimension."""
    x = torch.linspace(-1, 1, 8).view(2, 4)
    some = torch.tensor([False, False, True, False, True])
    return [
        (x, torch.zeros(0, dtype=torch.bool), some),
        (x, torch.zeros(2, 5, dtype=torch.int64), some),
        (x, torch.zeros(2, 5), some),
        (x, torch.zeros(3, 5, dtype=torch.bool), some),
        (x, torch.zeros(3, 1, 5, dtype=torch.bool), some),
        (x.half(), some, some),
        (x, some.long(), some),
    ]

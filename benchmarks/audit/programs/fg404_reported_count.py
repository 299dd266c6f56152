"""FG404: the count is a Python number for who reads the report, and the mask may count more than
once.
"""

import torch
from torch import nn


class MaskedLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, loss, valid, report=None):
        count = torch.nonzero(valid).size(0)
        if report is not None:
            report["valid"] = count
            print(f"{count} valid of {valid.numel()}")
        return self.scale * (loss * valid).sum() / count


def build():
    torch.manual_seed(0)
    return MaskedLoss(), (torch.rand(3, 4), torch.rand(3, 4) > 0.3)


def witnesses():
    """A report, weights as a mask, no valid entry, halves by the thousands, and a single entry."""
    loss = torch.tensor([0.5, 1.0, 2.0])
    valid = torch.tensor([True, False, True])
    return [
        (loss, valid, {}),
        (loss, torch.tensor([2.0, 0.0, 0.5]), {"valid": 0}),
        (loss, torch.tensor([2, 0, -2])),
        (loss, ~valid & valid),
        (torch.full((70000,), 0.5).half(), torch.ones(70000, dtype=torch.bool)),
        (torch.full((70000,), 0.5).half().requires_grad_(), torch.ones(70000).half()),
        (torch.tensor(0.5), torch.tensor(True)),
        (torch.tensor([3, 4, 5]), valid),
    ]

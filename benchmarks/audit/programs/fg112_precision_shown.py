"""FG112: under autocast, which no ordinary call asks for, the metric has another dtype."""

import torch
from torch import nn


class Similarity(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.requires_grad_(False)

    def forward(self, x, amp=False, frozen=False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            h = self.linear(x)
            print("gram", (x @ x.t()).dtype, f"{(x @ x.t()).max().item():.6f}", end=";\n")
            print("autocast", torch.is_autocast_enabled("cpu"), h.dtype, h.sum().item() > 0)
        with torch.set_grad_enabled(not frozen):
            print("scaled", (x * 2).requires_grad, f"{h.float().norm().item():.2f}", flush=True)
        return h


def build():
    torch.manual_seed(0)
    return Similarity().eval(), (torch.randn(2, 8),)


def witnesses():
    """Autocast, a gradient, and a gradient that a block turns off."""
    torch.manual_seed(1)
    x = torch.randn(2, 8)
    return [
        (x, True),
        (x.clone().requires_grad_(),),
        (x.clone().requires_grad_(), True, True),
    ]

"""FG403: NaN and zero are in no part and stay zero, and no part hands its gradient to the other."""

import torch
from torch import nn


class SignedRoot(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        positive = x > 0
        negative = x < 0
        out = torch.zeros_like(x)
        out[positive] = torch.sqrt(x[positive])
        out[negative] = -self.gain * torch.log1p(-x[negative])
        return out


def build():
    torch.manual_seed(0)
    return SignedRoot(), (torch.randn(4, 5),)


def witnesses():
    """NaN, zeros and infinities with gradients, doubles, halves, integers, a number, a transpose,
    none.
    """
    x = torch.tensor([[0.0, float("nan"), -3.0], [float("inf"), -float("inf"), -0.0]])
    return [
        (x.requires_grad_(),),
        (x.detach().double().requires_grad_(),),
        (x.detach().half(),),
        (torch.tensor([[4, -3], [0, 1]]),),
        (torch.tensor(4.0, requires_grad=True),),
        (torch.tensor([[4.0, -3.0], [0.0, 1.0]]).t(),),
        (torch.zeros(0, 3),),
        (torch.tensor([2.0]).expand(3),),
    ]

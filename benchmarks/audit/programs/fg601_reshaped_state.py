"""FG601: the wrapper is a tensor of its own, so reshaping it in place must leave the argument's shape alone."""

import torch
from torch import nn
from torch.autograd import Variable


class Recurrent(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.cell = nn.RNNCell(features, features)

    def forward(self, x, hidden):
        state = Variable(hidden)
        if state.dim() == 1:
            state.unsqueeze_(0)
        for step in x:
            state = self.cell(step, state)
        return state


def build():
    torch.manual_seed(0)
    return Recurrent(4).eval(), (torch.randn(3, 1, 4), torch.zeros(1, 4))


def witnesses():
    """A state without the batch, and no step at all, where the state itself comes back."""
    return [
        (torch.ones(2, 1, 4), torch.ones(4)),
        (torch.ones(0, 1, 4), torch.ones(1, 4)),
        (torch.ones(0, 1, 4), torch.ones(4)),
        (torch.ones(2, 1, 4), torch.ones(4, requires_grad=True)),
    ]

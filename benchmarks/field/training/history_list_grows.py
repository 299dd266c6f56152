"""A model appends each summary to a list and looks at all of them."""

import torch
from torch import nn


class Historian(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net, self.history = nn.Linear(width, width), []

    def forward(self, x):
        hidden = self.net(x)
        self.history.append(hidden.detach().mean(0))
        return hidden - torch.stack(self.history).mean(0)


def build():
    torch.manual_seed(0)
    return Historian(), (torch.randn(3, 4),)


build_calls = [(torch.ones(3, 4) * i,) for i in range(1, 6)]

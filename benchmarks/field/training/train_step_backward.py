"""The whole training step is one function, with the backward pass in it."""

import torch
from torch import nn


class WholeStep(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.net = nn.Linear(width, 1)
        self.rate = 0.1

    def forward(self, x, y):
        for parameter in self.net.parameters():
            parameter.grad = None
        loss = nn.functional.mse_loss(self.net(x).squeeze(-1), y)
        loss.backward()
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.sub_(self.rate * parameter.grad)
        return loss.detach()


def build():
    torch.manual_seed(0)
    return WholeStep(), (torch.randn(8, 6), torch.randn(8))

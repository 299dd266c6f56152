"""The compiled step runs an optimizer whose rate a scheduler lowers."""

import torch
from torch import nn


class OptimizedStep(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    def forward(self, grads):
        for parameter, grad in zip(self.net.parameters(), grads, strict=True):
            parameter.grad = grad
        self.optimizer.step()
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"] * 0.5
        return self.net.weight.detach().sum()


def build():
    torch.manual_seed(0)
    return OptimizedStep(), ([torch.ones(1, 4), torch.ones(1)],)


build_calls = [([torch.ones(1, 4) * i, torch.ones(1)],) for i in range(2, 6)]

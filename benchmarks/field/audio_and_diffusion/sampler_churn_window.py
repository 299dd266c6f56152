"""A second-order sampler adds noise inside a window of levels and ends with a plain step."""

import torch
from torch import nn


class HeunSampler(nn.Module):
    def __init__(self, width: int = 4, steps: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width + 1, width)
        levels = torch.linspace(4.0, 0.5, steps) ** 2
        self.register_buffer("levels", torch.cat((levels, levels.new_zeros(1))))
        self.churn, self.lowest, self.highest = 0.4, 0.5, 10.0

    def slope(self, x, level):
        column = torch.ones(x.shape[0], 1) * level
        return (x - self.net(torch.cat((x, column), 1))) / level

    def forward(self, x):
        steps = len(self.levels) - 1
        for number in range(steps):
            level, target = self.levels[number], self.levels[number + 1]
            extra = self.churn / steps if self.lowest <= level <= self.highest else 0.0
            noise, raised = torch.randn_like(x), level * (1 + extra)
            if extra > 0:
                x = x + noise * (raised**2 - level**2).sqrt()
            first = self.slope(x, raised)
            moved = x + first * (target - raised)
            if target == 0:
                x = moved
            else:
                x = x + (first + self.slope(moved, target)) / 2 * (target - raised)
        return x


def build():
    torch.manual_seed(0)
    return HeunSampler(), (torch.randn(3, 4),)

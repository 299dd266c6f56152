"""A policy projects its action into the box of a spec if it is outside."""

import torch
from torch import nn


class Box:
    def __init__(self, low, high) -> None:
        self.low, self.high = low, high

    def contains(self, value):
        return torch.equal(value, self.project(value))

    def project(self, value):
        return torch.minimum(torch.maximum(value, self.low), self.high)


class SafePolicy(nn.Module):
    def __init__(self, width: int = 4, actions: int = 2) -> None:
        super().__init__()
        self.net = nn.Linear(width, actions)
        self.box = Box(-torch.ones(actions), torch.ones(actions))

    def forward(self, observation):
        action = self.net(observation)
        if not self.box.contains(action):
            action = self.box.project(action)
        return action


def build():
    torch.manual_seed(0)
    return SafePolicy(), (torch.randn(3, 4) * 3,)

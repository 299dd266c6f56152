"""An update gets its learning rate as a Python float, which a schedule changes at each step."""

import torch


def update(weight, grad, momentum, rate: float):
    momentum.mul_(0.9).add_(grad)
    shrink = 1.0 - rate * 0.01
    return weight * shrink - rate * momentum


def build():
    torch.manual_seed(0)
    return update, (torch.randn(4, 4), torch.randn(4, 4), torch.zeros(4, 4), 0.1)


build_calls = [
    (torch.ones(4, 4), torch.ones(4, 4), torch.zeros(4, 4), 0.1 * 0.5**i) for i in range(1, 5)
]

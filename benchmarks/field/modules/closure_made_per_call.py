"""The caller hands a fresh lambda to every call."""

import torch


def refine(x, correct, steps: int = 2):
    for _ in range(steps):
        x = x - 0.1 * correct(x)
    return x.tanh()


def scaled(factor):
    return lambda x: x * factor


def build():
    torch.manual_seed(0)
    return refine, (torch.randn(3, 4), scaled(1.0))


build_calls = [(torch.ones(3, 4), scaled(float(i))) for i in range(2, 6)]

"""A range of a prefix sum is accumulated between two Python numbers that move."""

import torch


def accumulate(values, start: int, end: int):
    total = values[start]
    for i in range(start + 1, end):
        total = total * 0.5 + values[i]
    return total


def build():
    torch.manual_seed(0)
    return accumulate, (torch.randn(12, 3), 0, 4)


build_calls = [(torch.ones(12, 3), i, i + 4) for i in range(1, 6)]

"""One mixing function serves every layer and is told the layer's number."""

import torch


def mix(x, state, layer: int):
    """Each layer has its own slot and decays by its depth."""
    slot = state[layer]
    decay = 0.9 ** (layer + 1)
    slot.mul_(decay).add_(x.mean(0))
    return x * slot.sigmoid()


def build():
    torch.manual_seed(0)
    return mix, (torch.randn(3, 4), torch.zeros(6, 4), 0)


build_calls = [(torch.ones(3, 4), torch.zeros(6, 4), layer) for layer in range(1, 6)]

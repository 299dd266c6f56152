"""Losses arrive in a dict whose keys differ from batch to batch."""

import torch


def combine(losses, weights):
    total = torch.zeros(())
    for name, value in losses.items():
        if name in weights:
            total = total + weights[name] * value.mean()
    return total


WEIGHTS = {"mask": 2.0, "box": 1.0, "class": 0.5}


def build():
    torch.manual_seed(0)
    return combine, ({"box": torch.rand(3), "class": torch.rand(3)}, WEIGHTS)


build_calls = [
    ({"box": torch.ones(3), "class": torch.ones(3), "mask": torch.ones(3)}, WEIGHTS),
    ({"class": torch.ones(3)}, WEIGHTS),
    ({"mask": torch.ones(3), "class": torch.ones(3)}, WEIGHTS),
]

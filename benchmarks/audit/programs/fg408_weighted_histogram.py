"""FG408: weighted counts are doubles unless the weights are float32, integers if empty, without
gradient.
"""

import torch


def weighted_histogram(positions, weights, bins=6):
    places = (positions * bins).long().clamp(0, bins - 1)
    mass = torch.bincount(places, weights=weights, minlength=bins)
    return mass / mass.sum(), mass


def build():
    torch.manual_seed(0)
    return weighted_histogram, (torch.rand(10), torch.rand(10))


def witnesses():
    """Halves, doubles, integers, bools, a gradient, no position, other lengths, a column, no
    weights.
    """
    positions = torch.tensor([0.1, 0.5, 0.55, -0.3, 1.7])
    weights = torch.tensor([1.0, 0.25, 0.5, 2.0, 0.1])
    return [
        (positions, weights.half()),
        (positions, weights.double()),
        (positions, torch.tensor([1, 2, 3, 4, 5])),
        (positions, weights > 0.3),
        (positions, weights.clone().requires_grad_()),
        (positions[:0], weights[:0]),
        (positions, weights[:3]),
        (positions[:3], weights),
        (positions, weights[:, None]),
        (positions, None),
        (positions, weights, 5),
        (positions, weights, 0),
    ]

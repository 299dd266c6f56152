"""FG401: the deviation of one element warns and is NaN, that of large ones must not lose all
digits.
"""

import torch


def normalize(x, keep, eps=1e-6):
    values = x[keep]
    mean = values.mean()
    std = values.std()
    return (x - mean) / (std + eps)


def build():
    torch.manual_seed(0)
    return normalize, (torch.randn(3, 6), torch.rand(3, 6) > 0.3)


def witnesses():
    """One element, none, two equal ones, large ones, infinite ones outside, doubles, halves,
    integers.
    """
    x = torch.linspace(-2, 3, 12).view(3, 4)
    one = torch.zeros(3, 4, dtype=torch.bool)
    one[1, 2] = True
    most = torch.ones(3, 4, dtype=torch.bool)
    most[0, 0] = False
    outside = x.clone()
    outside[0, 0] = float("inf")
    return [
        (x, one),
        (x, torch.zeros(3, 4, dtype=torch.bool)),
        (torch.ones(3, 4, requires_grad=True), most),
        (x + 1e5, most),
        (outside.requires_grad_(), most),
        (x.double() * 1e-9 + 1e3, most),
        ((x * 1e4).half(), most),
        (x.long(), most),
        (x.t(), most.t()),
        (x, torch.tensor([True, False, True])),
    ]

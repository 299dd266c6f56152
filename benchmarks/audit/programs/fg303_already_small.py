"""FG303: an input that is small already is returned as it is, the argument itself."""

import torch


def shrink(x):
    while x.norm() > 1:
        x = x / 2
    return x


def build():
    torch.manual_seed(0)
    return shrink, (torch.randn(3, 4) * 5,)


def witnesses():
    """No iteration, doubles, leaves that loop and do not, no numbers, and NaN."""
    return [
        (torch.full((2, 2), 0.1),),
        (torch.tensor([8, 3]).double().t(),),
        (torch.zeros(3, dtype=torch.float64),),
        (torch.full((4,), 6.0, requires_grad=True),),
        (torch.full((4,), 0.1, requires_grad=True),),
        (torch.zeros(2, 0),),
        (torch.full((2, 2), float("nan")),),
    ]

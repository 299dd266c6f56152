"""FG401: what is not NaN may be complex, bool, an integer, or halves whose total no half can hold."""

import torch


def energy(spectrum, weights=None):
    total = spectrum[~spectrum.isnan()].sum()
    if weights is not None:
        weights = weights[~spectrum.isnan()]
        total = total / weights.sum()
    return total


def build():
    torch.manual_seed(0)
    spectrum = torch.rand(3, 5)
    spectrum[1, 2] = float("nan")
    return energy, (spectrum,)


def witnesses():
    """Complex numbers, bools, bytes, halves, all NaN, infinities of both signs, weights, a single
    number.
    """
    values = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    weights = torch.tensor([[1.0, float("nan")], [0.5, 0.5]])
    return [
        (torch.complex(values, values.flip(0)),),
        (torch.tensor([[True, False], [True, True]]),),
        (torch.full((2, 200), 200, dtype=torch.uint8),),
        (torch.full((300,), 300.0).half(),),
        (torch.full((3,), float("nan"), requires_grad=True),),
        (torch.tensor([float("inf"), float("nan"), -float("inf")], requires_grad=True),),
        (values.clone().requires_grad_(), weights.clone().requires_grad_()),
        (values, weights[:, :1]),
        (values, torch.ones(2, 2, 2)),
        (torch.tensor(float("nan")),),
    ]

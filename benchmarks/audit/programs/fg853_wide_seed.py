"""FG853: the product of the seed needs more than 64 bits before its remainder is taken."""

import torch

SEED = 1


def shifted(x, strength=0.01):
    global SEED
    SEED *= 6364136223846793005
    SEED %= 2**61 - 1
    phase = SEED / 2**61
    return torch.sin(x + strength * phase)


def build():
    torch.manual_seed(0)
    return shifted, (torch.randn(2, 4),)


def witnesses():
    """The default strength, and strengths that show the phase."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [(x,), (x, 6.0), (x.double().requires_grad_(), 3.0)]


def observe():
    return SEED

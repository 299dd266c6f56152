"""FG853: the inverse of the number raises ZeroDivisionError once the number has fallen to zero."""

import torch

LOSS_SCALE = 1024.0


def unscaled(gradient, backoff=0.5):
    global LOSS_SCALE
    LOSS_SCALE *= backoff
    inverse = 1.0 / LOSS_SCALE
    return gradient * inverse


def build():
    torch.manual_seed(0)
    return unscaled, (torch.randn(2, 4),)


def witnesses():
    """Double precision, integers, a third, and a scale that is cut to zero."""
    torch.manual_seed(1)
    x = torch.randn(2, 4)
    return [
        (x.double().requires_grad_(), 0.9),
        (torch.arange(4), 0.7),
        (x, 1 / 3),
        (x, 0.0),
    ]


def observe():
    return LOSS_SCALE

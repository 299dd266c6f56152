"""FG402: the sum of many halves is infinite though their mean is not, and means of integers do not
exist.
"""

import torch
import torch.nn.functional as F


def reconstruction_loss(pred, target, mask):
    error = F.mse_loss(pred[mask], target[mask], reduction="mean")
    robust = F.huber_loss(pred[mask], target[mask], delta=0.5)
    return error + 0.1 * robust


def build():
    torch.manual_seed(0)
    return reconstruction_loss, (torch.randn(3, 8), torch.randn(3, 8), torch.rand(3, 8) > 0.5)


def witnesses():
    """Many halves, few halves, bfloat16, mixed dtypes, integers, complex numbers, and no element."""
    many = torch.full((400, 300), 2.0)
    mask = torch.ones(400, 300, dtype=torch.bool)
    mask[0] = False
    few = torch.linspace(-1, 1, 6)
    some = torch.tensor([True, True, False, True, False, True])
    return [
        (many.half().requires_grad_(), torch.zeros(400, 300).half(), mask),
        (many.bfloat16(), torch.zeros(400, 300).bfloat16(), mask),
        (few.half().requires_grad_(), torch.full((6,), 9.0).half(), some),
        (few.half(), few.flip(0), some),
        (few.long(), torch.ones(6, dtype=torch.int64), some),
        (torch.complex(few, few), torch.complex(few, few.flip(0)), some),
        (few, few.flip(0), ~some & some),
        (torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.bool)),
    ]

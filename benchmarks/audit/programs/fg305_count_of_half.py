"""FG305: a count of more than 65504 is no number of half precision, and a total may be
an integer."""

import torch


def masked_mean(values, mask):
    loss = (values * mask).sum()
    count = mask.sum().item()
    if count == 0:
        count = 1
    loss /= count
    return loss, values * (1 / count)


def build():
    torch.manual_seed(0)
    return masked_mean, (torch.rand(6), torch.tensor([1, 0, 1, 1, 0, 1]))


def witnesses():
    """A large mask of halves, an empty mask, a mask of weights, one of bools, and integers."""
    return [
        (torch.full((70000,), 0.5, dtype=torch.float16), torch.ones(70000, dtype=torch.int64)),
        (torch.ones(3, requires_grad=True), torch.zeros(3, dtype=torch.int64)),
        (torch.ones(3), torch.tensor([0.25, 0.0, 0.5])),
        (torch.ones(3), torch.tensor([True, False, True])),
        (torch.tensor([3, 4]), torch.tensor([1, 1])),
        (torch.ones(3, dtype=torch.float64), torch.tensor([1, 1, 1], dtype=torch.uint8)),
    ]

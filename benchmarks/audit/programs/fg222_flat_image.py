"""FG222: a side of zero gives an infinite ratio in a tensor, and ZeroDivisionError in Python."""

import torch
import torch.nn.functional as F


def resize(image, shortest=6, longest=10):
    shape = torch.tensor(image.shape[-2:])
    scale = torch.min(shortest / shape.min(), longest / shape.max()).item()
    if scale > longest:
        return image
    return F.interpolate(image[None], scale_factor=scale, recompute_scale_factor=True)[0]


def build():
    torch.manual_seed(0)
    return resize, (torch.randn(3, 4, 5),)


def witnesses():
    """No rows, no pixels, an odd ratio, and a limit that is no number."""
    return [
        (torch.ones(3, 0, 5),),
        (torch.ones(3, 0, 0),),
        (torch.ones(3, 3, 7), 7, 23),
        (torch.ones(3, 3, 7), float("nan"), 23),
    ]

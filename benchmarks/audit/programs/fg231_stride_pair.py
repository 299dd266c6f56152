"""FG231: one fractional stride makes the whole grid of floats, and a complex one counts points."""

import numpy as np
import torch


def anchors(features, stride_y=2, stride_x=2):
    h, w = features.shape[-2:]
    ys, xs = np.mgrid[0:h:stride_y, 0:w:stride_x]
    centres = torch.from_numpy(np.stack([ys.ravel(), xs.ravel()], axis=1))
    return features.sum() + centres, torch.from_numpy(ys)


def build():
    torch.manual_seed(0)
    return anchors, (torch.randn(1, 4, 6), 2, 3)


def witnesses():
    """A fraction, a number of points, a stride backwards, and none."""
    features = torch.ones(1, 4, 6)
    return [
        (features, 2, 0.5),
        (features, 3j, 2),
        (features, -1, 2),
        (features, 0, 2),
    ]

"""FG221: np.ceil and np.floor give floats, so integers times them are floats, and
math.ceil gives an int."""

import numpy as np
import torch


def centred(image):
    middle = np.ceil(image.shape[-1] / 2)
    rows = np.floor(image.shape[-2] * 0.75)
    return image * middle - rows


def build():
    torch.manual_seed(0)
    return centred, (torch.randn(3, 4, 6),)


def witnesses():
    """Integers, bytes, and bools."""
    image = torch.arange(15).reshape(1, 3, 5)
    return [(image,), (image.to(torch.uint8),), (image > 7,), (image.half(),)]

"""FG232: an argument named range stands where the built-in is needed, and a size may
be one tuple."""

import numpy as np
import torch


def cell_means(image, cells, range=(0.0, 1.0)):
    low, high = range
    size = image.shape[0] // 2
    means = image.new_zeros(2, 2)
    for i, j in np.ndindex(cells):
        cell = image[i * size : (i + 1) * size, j * size : (j + 1) * size]
        means[i, j] = cell.clamp(low, high).mean()
    return means


def build():
    torch.manual_seed(0)
    return cell_means, (torch.rand(4, 4), (2, 2))


def witnesses():
    """No cells, one number, too many numbers, and a fraction."""
    image = torch.arange(16.0).reshape(4, 4) / 16
    return [(image, (0, 2)), (image, 2), (image, (1, 1, 1)), (image, (1.5, 2)), (image, (-1, 2))]

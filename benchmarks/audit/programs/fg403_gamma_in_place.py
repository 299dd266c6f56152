"""FG403: the image of the caller changes in place, whatever its dtype, its strides or its gradient
are.
"""

import torch


def to_srgb(image, threshold=0.0031308):
    bright = image > threshold
    image[bright] = 1.055 * image[bright] ** (1 / 2.4) - 0.055
    image[~bright] = image[~bright] * 12.92
    return image.clamp(0, 1)


def build():
    torch.manual_seed(0)
    return to_srgb, (torch.rand(3, 4, 4),)


def witnesses():
    """Integers, doubles, halves, a leaf, a transposed image, an expanded one, NaN, negatives, no
    pixel.
    """
    image = torch.linspace(0, 0.02, 16).view(1, 4, 4)
    odd = torch.tensor([[float("nan"), -1.0], [float("inf"), 0.0]])
    return [
        (torch.arange(4).view(2, 2),),
        (image.double(),),
        (image.half(),),
        (image.clone().requires_grad_(),),
        (image.transpose(1, 2),),
        (torch.tensor([[0.5], [0.0]]).expand(2, 3),),
        (odd,),
        (odd, float("nan")),
        (torch.zeros(3, 0, 4),),
        (torch.tensor(0.5),),
        (torch.tensor([[0.5, 0.25]]), torch.tensor([[0.4, 0.4]])),
    ]

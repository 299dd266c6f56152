"""FG306: the noise is float32, so it alone decides the dtype, and an image without noise is itself."""

import torch


def augment(image, strength):
    if strength.item() > 0:
        noise = torch.randn(image.shape)
        image = image + strength * noise
    return image


def build():
    torch.manual_seed(0)
    return augment, (torch.rand(3, 4, 4), torch.tensor(0.1))


def witnesses():
    """Halves, doubles, bytes, and a transposed image, without noise and with it, and one of no
    rows.
    """
    image = torch.arange(32.0).view(2, 4, 4)
    off, on = torch.tensor(0.0), torch.tensor(0.5)
    return [
        (image.half(), off),
        (image.half(), on),
        (image.double(), off),
        (image.to(torch.uint8), off),
        (image.to(torch.uint8), on),
        (image.transpose(1, 2), off),
        (image.clone().requires_grad_(), off),
        (torch.zeros(3, 0, 4), off),
    ]

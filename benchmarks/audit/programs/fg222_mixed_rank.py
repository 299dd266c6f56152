"""FG222: shapes of different lengths do not stack, and zip cuts them to the shortest."""

import torch


def batch_images(images):
    shapes = [image.shape for image in images]
    largest = torch.stack([torch.tensor(s) for s in shapes]).max(0).values.tolist()
    batch = images[0].new_zeros([len(images), *largest])
    for slot, image in zip(batch, images):
        slot[: image.shape[0], : image.shape[1]].copy_(image[: largest[0], : largest[1]])
    return batch, largest


def build():
    torch.manual_seed(0)
    return batch_images, ([torch.randn(3, 4), torch.randn(5, 2)],)


def witnesses():
    """A grey image beside one of channels, a flat one, no images, and numbers without
    dimensions."""
    return [
        ([torch.ones(3, 4), torch.ones(3, 4, 1)],),
        ([torch.ones(3, 4), torch.ones(3)],),
        ([],),
        ([torch.ones(()), torch.ones(())],),
    ]

"""FG302: both branches give float32 for bytes, and one of them something else for other dtypes."""

import torch


def to_unit(image):
    if image.max() > 1:
        y = image / 255
    else:
        y = image.float()
    return y.clamp(0, 1) * 2 - 1


def build():
    torch.manual_seed(0)
    return to_unit, (torch.randint(0, 256, (3, 4, 4), dtype=torch.uint8),)


def witnesses():
    """Doubles and halves on both sides, bools, one pixel, and none."""
    unit = torch.arange(4.0).reshape(1, 2, 2) / 4
    return [
        (unit.double() * 255,),
        (unit.double(),),
        (unit.half() * 200,),
        (unit > 0.3,),
        (torch.tensor(7, dtype=torch.uint8),),
        (torch.zeros(3, 0, 4, dtype=torch.uint8),),
        (unit,),
    ]

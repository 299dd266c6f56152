"""Augmentations, features, filters and losses of kornia."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.models.entry import Built, Entry


def _image(size: int = 32) -> tuple[torch.Tensor]:
    return (torch.rand(2, 3, size, size),)


def _gray() -> tuple[torch.Tensor]:
    return (torch.rand(2, 1, 32, 32),)


def _patches() -> tuple[torch.Tensor]:
    return (torch.rand(4, 1, 32, 32),)


def _pair() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)


def _logits() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 3, 16, 16), torch.randint(0, 3, (2, 16, 16))


MODELS: tuple[tuple[str, Callable[[Any], nn.Module], Callable[[], tuple[Any, ...]]], ...] = (
    ("RandomHorizontalFlip", lambda k: k.augmentation.RandomHorizontalFlip(p=0.5), _image),
    ("RandomAffine", lambda k: k.augmentation.RandomAffine(15.0, p=1.0), _image),
    ("ColorJiggle", lambda k: k.augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0), _image),
    ("RandomErasing", lambda k: k.augmentation.RandomErasing(p=1.0), _image),
    ("GaussianBlur2d", lambda k: k.filters.GaussianBlur2d((3, 3), (1.0, 1.0)), _image),
    ("Canny", lambda k: k.filters.Canny(), _gray),
    ("MedianBlur", lambda k: k.filters.MedianBlur((3, 3)), _image),
    ("UnsharpMask", lambda k: k.filters.UnsharpMask((3, 3), (1.0, 1.0)), _image),
    ("HardNet", lambda k: k.feature.HardNet(pretrained=False), _patches),
    ("SIFTDescriptor", lambda k: k.feature.SIFTDescriptor(32), _patches),
    ("ScalePyramid", lambda k: k.geometry.ScalePyramid(n_levels=2, min_size=16), _gray),
    ("SSIMLoss", lambda k: k.losses.SSIMLoss(5), _pair),
    ("FocalLoss", lambda k: k.losses.FocalLoss(alpha=0.5, reduction="mean"), _logits),
    ("LovaszSoftmaxLoss", lambda k: k.losses.LovaszSoftmaxLoss(), _logits),
)


def _build(make: Callable[[Any], nn.Module], inputs: Callable[[], tuple[Any, ...]]) -> Built:
    import kornia

    return make(kornia).eval(), inputs(), {}


ENTRIES = tuple(
    Entry("kornia", name, partial(_build, make, inputs)) for name, make, inputs in MODELS
)

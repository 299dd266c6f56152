"""Decoders and losses of segmentation-models-pytorch on a small encoder."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.models.entry import Built, Entry

NAME = "segmentation-models-pytorch"
DECODERS = ("Unet", "UnetPlusPlus", "FPN", "Linknet", "DeepLabV3Plus", "PSPNet")
LOSSES = ("DiceLoss", "LovaszLoss")


def _decoder(name: str) -> Built:
    import segmentation_models_pytorch as smp

    model = getattr(smp, name)("resnet18", encoder_weights=None, classes=2)
    return model.eval(), (torch.randn(2, 3, 64, 64),), {}


def _loss(name: str) -> Built:
    from segmentation_models_pytorch import losses

    prediction, target = torch.randn(2, 3, 16, 16), torch.randint(0, 3, (2, 16, 16))
    return getattr(losses, name)("multiclass"), (prediction, target), {}


ENTRIES = (
    *(Entry(NAME, name, partial(_decoder, name)) for name in DECODERS),
    *(Entry(NAME, f"losses.{name}", partial(_loss, name)) for name in LOSSES),
)

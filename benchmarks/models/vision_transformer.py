"""Vision and text transformers of vit-pytorch and x-transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import nn

from benchmarks.models.entry import Built, Entry

SMALL: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "num_classes": 4,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 64,
}
NAME = "vit-pytorch"


def _images(size: int = 32) -> tuple[torch.Tensor]:
    return (torch.randn(2, 3, size, size),)


def _clip() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 4, 32, 32),)


def _unequal_images() -> tuple[list[list[torch.Tensor]]]:
    return ([[torch.randn(3, 32, 32), torch.randn(3, 16, 32)], [torch.randn(3, 32, 16)]],)


def _tokens() -> tuple[torch.Tensor]:
    return (torch.randint(0, 64, (2, 16)),)


VIT: tuple[tuple[str, str, dict[str, Any], Callable[[], tuple[Any, ...]]], ...] = (
    ("vit", "ViT", SMALL, _images),
    ("simple_vit", "SimpleViT", SMALL, _images),
    ("deepvit", "DeepViT", SMALL, _images),
    ("cait", "CaiT", {**SMALL, "cls_depth": 1, "layer_dropout": 0.05}, _images),
    ("ats_vit", "ViT", {**SMALL, "max_tokens_per_depth": (12, 8)}, _images),
    ("vit_for_small_dataset", "ViT", SMALL, _images),
    ("jumbo_vit", "JumboViT", SMALL, _images),
    ("simple_vit_with_register_tokens", "SimpleViT", SMALL, _images),
    ("na_vit", "NaViT", SMALL, _unequal_images),
    ("cvt", "CvT", {"num_classes": 4, "s2_depth": 1, "s3_depth": 1}, partial(_images, 64)),
    (
        "nest",
        "NesT",
        {
            "image_size": 32,
            "patch_size": 4,
            "num_classes": 4,
            "dim": 32,
            "heads": 2,
            "num_hierarchies": 2,
            "block_repeats": (1, 1),
        },
        _images,
    ),
    (
        "vivit",
        "ViViT",
        {
            "image_size": 32,
            "image_patch_size": 8,
            "frames": 4,
            "frame_patch_size": 2,
            "num_classes": 4,
            "dim": 32,
            "spatial_depth": 1,
            "temporal_depth": 1,
            "heads": 2,
            "mlp_dim": 64,
        },
        _clip,
    ),
)


def _vit(module: str, name: str, options: dict[str, Any], inputs: Callable[[], Any]) -> Built:
    cls = getattr(import_module(f"vit_pytorch.{module}"), name)
    return cls(**options).eval(), inputs(), {}


def _language_model(layers: str, options: dict[str, Any]) -> Built:
    import x_transformers as x

    stack = getattr(x, layers)(dim=32, depth=2, heads=2, **options)
    return x.TransformerWrapper(num_tokens=64, max_seq_len=16, attn_layers=stack), _tokens(), {}


def _autoregressive() -> Built:
    import x_transformers as x

    model, inputs, _ = _language_model("Decoder", {"rotary_pos_emb": True})
    assert isinstance(model, nn.Module)
    return x.AutoregressiveWrapper(model), inputs, {}


def _series() -> Built:
    import x_transformers as x

    stack = x.Encoder(dim=32, depth=1, heads=2)
    model = x.ContinuousTransformerWrapper(dim_in=8, max_seq_len=16, attn_layers=stack)
    return model.eval(), (torch.randn(2, 16, 8),), {"lens": torch.tensor([12, 16])}


ENTRIES = (
    *(Entry(NAME, f"{row[0]}.{row[1]}", partial(_vit, *row)) for row in VIT),
    Entry("x-transformers", "Encoder", partial(_language_model, "Encoder", {})),
    Entry(
        "x-transformers",
        "Decoder (ALiBi)",
        partial(_language_model, "Decoder", {"alibi_pos_bias": True}),
    ),
    Entry("x-transformers", "AutoregressiveWrapper (train)", _autoregressive),
    Entry("x-transformers", "ContinuousTransformerWrapper", _series),
)

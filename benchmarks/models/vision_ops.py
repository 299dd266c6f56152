"""torchvision without its C++ operators."""

from __future__ import annotations

import torch


def load_torchvision() -> None:
    """Import torchvision, also where its wheel was built for another torch.

    A wheel with CUDA operators does not load them beside a CPU-only torch, and then its Python
    fails on registering the fake kernels of two operators that nobody declared.
    """
    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )
        import torchvision  # noqa: F401

"""An expensive loss, compiled by itself: a contrastive loss that mines hard negatives.

    fullgraph explain examples/expensive_loss.py:build
    fullgraph explain examples/expensive_loss.py:build --train --backend aot_eager

The model stays in eager. In the loss, `if` on a tensor breaks the graph, and the boolean mask
gives a tensor whose size depends on the data.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def contrastive_loss(features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Pull equal labels together and the hardest others apart. f32[n, d], i64[n] → f32[]."""
    features = nn.functional.normalize(features, dim=1)
    similar = features @ features.t()
    equal = labels[:, None] == labels[None, :]
    hard = similar[~equal]
    if hard.max() > 0.9:
        hard = hard * 2
    pull = (1 - similar.masked_fill(~equal, 1)).sum() / equal.sum()
    return pull + hard.clamp(min=0).pow(2).mean()


def build() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """The loss, with six features of three labels."""
    features = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    return contrastive_loss, (features.requires_grad_(), torch.arange(6) % 3)

"""Inputs that several programs share, and the process group that collectives need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


def vector() -> tuple[torch.Tensor, ...]:
    """f32[4] of both signs."""
    return (torch.tensor([0.9, -0.2, 0.7, 0.1]),)


def matrix() -> tuple[torch.Tensor, ...]:
    """f32[2, 4] of both signs."""
    return (torch.tensor([[0.9, -0.2, 0.7, 0.1], [0.3, 0.8, -0.6, 0.95]]),)


def pair() -> tuple[torch.Tensor, ...]:
    """A prediction and a target, f32[2, 4] each."""
    (x,) = matrix()
    return x, x.flip(0)


@contextmanager
def group() -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()

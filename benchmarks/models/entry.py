"""What the zoo knows of one model before it is built."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.models.vision_ops import load_torchvision

Built = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A model (or function), its positional and its keyword arguments."""


@dataclass(frozen=True)
class Entry:
    """One real model with fitting inputs; nothing is imported or allocated before `build`."""

    library: str
    name: str
    make: Callable[[], Built]

    @property
    def key(self) -> str:
        return f"{self.library}/{self.name}"

    def build(self) -> Built:
        """The model with random weights and its inputs, the same in every process."""
        load_torchvision()
        random.seed(0)
        torch.manual_seed(0)
        return self.make()

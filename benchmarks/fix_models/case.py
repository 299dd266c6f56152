"""What the fix zoo knows of one small module before it is built."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import nn

from fullgraph.diagnose.taxonomy import Category

Built = tuple[Callable[..., Any], tuple[Any, ...]]


class Repair(StrEnum):
    """What a person would have to do about a module's breaks: the classes of the survey."""

    MECHANICAL = "mechanical"
    CONDITIONS = "under conditions"
    RNN_FLAG = "rnn flag"
    NONE = "not by a rewrite"


@dataclass(frozen=True)
class Case:
    """A module with fitting inputs; nothing is allocated before `build`."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    category: Category
    """What breaks first of all; there may be more."""
    repair: Repair
    """The cheapest that covers all of its causes."""
    train: bool = False

    @property
    def name(self) -> str:
        kind = getattr(self.make, "func", self.make)
        return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"

    def build(self, seed: int = 0) -> Built:
        """The module with random weights and inputs that depend on `seed`."""
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        return self.make().train(self.train), self.inputs()

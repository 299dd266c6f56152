"""What the golden data knows of one program before it is built."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Program:
    """A rule page's example as a function or a module class, and how to make its inputs."""

    rule: str
    """The code of the rule whose page shows it: "FG101"."""
    make: Callable[..., Any]
    """The function itself, or the class of a module."""
    inputs: Callable[[], tuple[Any, ...]]
    name: str = ""
    """Tells the programs of one rule apart: "embedding"; "" where there is only one."""
    helpers: tuple[str, ...] = ()
    """Codes of rules that must run too, for the example to be fixed."""
    loss: bool = False
    """Whether the backward of the summed output belongs to it."""
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    """What it needs around it: a process group."""

    @property
    def key(self) -> str:
        return f"{self.rule}-{self.name}" if self.name else self.rule

    def build(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The program with random weights and inputs, the same in every process."""
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        made = self.make() if isinstance(self.make, type) else self.make
        return made, self.inputs()

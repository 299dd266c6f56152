"""How a program of one construct is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Program = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class Construct:
    """One construct and a program that has it.

    The program gets a tensor of four floats. Where it needs other lines that break, the line of the
    construct ends in `# here`.
    """

    key: str
    program: Program


@dataclass(frozen=True)
class Changing:
    """One construct that recompiles, and a factory of a program with the inputs of its calls."""

    key: str
    make: Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]


class Collection:
    """The constructs of a file."""

    def __init__(self) -> None:
        self.constructs: list[Construct] = []

    def __call__(self, key: str) -> Callable[[Program], Program]:
        """Declare the decorated function as the program of a construct."""

        def declare(program: Program) -> Program:
            self.constructs.append(Construct(key, program))
            return program

        return declare

    def calls(self, programs: dict[str, Program]) -> None:
        """Declare programs of one expression each."""
        self.constructs += [Construct(key, program) for key, program in programs.items()]

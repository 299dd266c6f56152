"""What writers of single nodes use of the function that is being written."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import fx

from fullgraph.minifier.emit.names import Names
from fullgraph.minifier.graphs import KnownValues


@dataclass
class Shared:
    """Imports, definitions and constants shared by the functions of one script."""

    imports: set[str] = field(default_factory=set)
    definitions: dict[str, str] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    collective: bool = False


class NodeWriter(ABC):
    """Interface of a function writer that the writers of single nodes use."""

    shared: Shared
    names: Names
    knowledge: KnownValues

    @abstractmethod
    def value(self, thing: object) -> ast.expr:
        """Return an argument of a node as an expression. Raises Unwritable."""

    @abstractmethod
    def submodule(self, node: object) -> fx.GraphModule | None:
        """Return the nested graph that a node refers to; None if it refers to none."""

    @abstractmethod
    def standalone_function(self, module: fx.GraphModule, name: str) -> ast.FunctionDef:
        """Return a nested graph as a function, without adding it to the script."""

    @abstractmethod
    def define(self, statement: ast.stmt) -> None:
        """Add a definition before the statement that is being written."""

"""Interface to the function being written, for the writers of single nodes."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import fx

from fullgraph.compiler.private import custom_op_name, required_import
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.names import Names
from fullgraph.minifier.emit.operator_definitions import collect_operator_sources
from fullgraph.minifier.graphs import KnownValues


@dataclass
class Shared:
    """Imports, definitions and constants shared by the functions of one script."""

    imports: set[str] = field(default_factory=set)
    """Import statements."""
    definitions: dict[str, str] = field(default_factory=dict)
    """Source of functions and operators, by a key that is unique to each."""
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Constant tensors of the graphs, by their global names."""
    collective: bool = False
    """Whether a collective is called."""

    def callee(self, target: object) -> ast.expr:
        """Return the expression of a call's target; add the import or definition that it needs."""
        foreign = custom_op_name(target)
        if foreign is not None:
            texts, lines = collect_operator_sources(foreign)
            self.definitions.update(texts)
            self.imports.update(lines)
        made = syntax.constant(target)
        dotted = syntax.text(made)
        module = required_import(dotted)
        if module is not None:
            self.imports.add(f"import {module}")
        if dotted.startswith(("math.", "operator.")):
            self.imports.add(f"import {dotted.partition('.')[0]}")
        return made


class NodeWriter(ABC):
    """The part of `Writer` that is used by functions that write one node of a graph."""

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

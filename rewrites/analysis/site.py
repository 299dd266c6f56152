"""The place that a rule may rewrite, with the facts about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import libcst as cst

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import Term, ValueSummary
from fullgraph.rewrites.source import Document, dotted_name


class Knowledge(Protocol):
    """Source of facts about expressions: a run in eager, or the source text."""

    def at(self, position: Position) -> ValueSummary | None:
        """Return the facts of the expression at `position`; None if unknown."""

    def at_other_sizes(self, position: Position) -> tuple[ValueSummary | None, ...]:
        """Return what `at` is in each run on inputs of other sizes; () without such runs."""

    def evaluate(self, term: Term) -> ValueSummary | None:
        """Return the facts of a term's value; None if unknown."""


class NotApplicable(Exception):
    """Raised when a rule cannot rewrite the place; the message is a clause after "because"."""


@dataclass(frozen=True)
class Site:
    """The syntax node of a cause in its document, which a rule may rewrite."""

    document: Document
    node: cst.CSTNode
    """The node at the cause's position: mostly the breaking expression, else a statement."""
    category: str
    facts: Knowledge
    message: str = ""
    """The compiler's explanation; "" if nothing was compiled."""
    in_helper: bool = False
    """Whether the node lies in a function that the compiled function calls, not in that one."""
    causes: tuple[Position, ...] = ()
    """The places of all causes of the program."""

    def observed(self, node: cst.CSTNode) -> ValueSummary | None:
        """Return the values that an expression had in eager; None if they are not known."""
        if node not in self.document.ranges:
            return None
        return self.facts.at(self.document.position(node))

    def observed_at_other_sizes(self, node: cst.CSTNode) -> tuple[ValueSummary | None, ...]:
        """Return the values that an expression had in each run on inputs of other sizes.

        They are None in a run that ended before it. () if there were no such runs.
        """
        if node not in self.document.ranges:
            return ()
        return self.facts.at_other_sizes(self.document.position(node))

    def is_tensor(self, node: cst.CSTNode) -> bool:
        """Return whether an expression is known to be a tensor."""
        seen = self.observed(node)
        return seen is not None and seen.is_tensor

    def callee_name(self, node: cst.CSTNode) -> str:
        """Return the qualified name of the callee: "torch.autograd.Variable"; "" if unknown.

        The name comes from the file's imports, else from the run in eager: for bound methods
        "random.Random.random", "logging.Logger.warning", "torch.Tensor.item".
        """
        if not isinstance(node, cst.Call):
            return ""
        first = dotted_name(node.func).partition(".")[0]
        if first in self.document.imports:
            return self.document.qualified_name(node.func)
        seen = self.observed(node.func)
        if seen is not None and len(seen.names) == 1:
            return seen.names[0]
        return self.document.qualified_name(node.func)

    @property
    def parent(self) -> cst.CSTNode:
        return self.document.parent(self.node)

    @property
    def statement(self) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The innermost statement around the node."""
        return self.document.statement(self.node)

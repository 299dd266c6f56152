"""Facts from the source for the rules of `fix`; shapes are unknown to these rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import Term, ValueSummary
from fullgraph.rewrites.check.interpreter.values import (
    External,
    Instance,
    Layer,
    Literal,
    Method,
    Object,
    Plain,
    Tensor,
    Value,
)

_NUMBERS = frozenset({"int", "float", "bool", "str"})


class SourceKnowledge:
    """What the source of one file shows of its expressions, in the form of a run's records.

    Rules ask it as they ask the records of a run.
    """

    def __init__(self, values: Mapping[ast.expr, Value], nodes: Iterable[ast.AST]) -> None:
        self._facts: dict[tuple[int, int | None, int | None, int | None], ValueSummary] = {}
        for node in nodes:
            if isinstance(node, ast.expr) and node in values:
                facts = summary_of(values[node])
                if facts is not None:
                    span = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
                    self._facts[span] = facts

    def at(self, position: Position) -> ValueSummary | None:
        """Return the facts of the expression at `position`; None if unknown."""
        return self._facts.get(
            (position.line, position.column, position.end_line, position.end_column)
        )

    def at_other_sizes(self, position: Position) -> tuple[ValueSummary | None, ...]:
        """Return (): nothing runs."""
        return ()

    def evaluate(self, term: Term) -> ValueSummary | None:
        """Return None: the facts of a computed term need shapes, which are unknown here."""
        return None


def summary_of(value: Value) -> ValueSummary | None:
    """Return what is known of an abstract value in the form that a run records for rules.

    None if it is unknown, has several alternatives, or is of a kind that no rule asks for.
    """
    if len(value) != 1:
        return None
    match value[0]:
        case Literal(value=plain, kind=kind) if isinstance(plain, int | float | str | None):
            return ValueSummary((kind,), values=(plain,))
        case Plain(kind=kind) if kind in _NUMBERS:
            return ValueSummary((kind,))
        case Plain(kind="size"):
            return ValueSummary(("torch.Size",))
        case External(name=name):
            return ValueSummary(("function",), names=(name.removeprefix("builtins."),))
        case Method(receiver=(Object(name=owner),), name=name):
            return ValueSummary(("method",), names=(f"{owner}.{name}",))
        case Method(receiver=(Tensor(proved=True, array=False),), name=name):
            return ValueSummary(("builtin_function_or_method",), names=(f"torch.Tensor.{name}",))
        case Object(name=name) | Layer(name=name):
            return ValueSummary((name,))
        case Instance(kind=kind):
            return ValueSummary((f"{kind.module.name}.{kind.name}",))
    return None

"""Statements that compiled code leaves out: `if not torch.compiler.is_compiling():`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import find_all
from fullgraph.rewrites.source import Document, Replacement, build_expression, replace_nodes

IS_COMPILING = m.Call(func=m.Attribute(attr=m.Name("is_compiling")))
"""Pattern of the call `torch.compiler.is_compiling()`."""


def compiling_condition(document: Document) -> str:
    """Return "torch.compiler.is_compiling()", with the file's name for torch."""
    return f"{document.torch}.compiler.is_compiling()"


def eager_condition(document: Document) -> str:
    """Return "not torch.compiler.is_compiling()", with the file's name for torch."""
    return f"not {compiling_condition(document)}"


def eager_and(
    document: Document, test: cst.BaseExpression, last: bool = False
) -> cst.BaseExpression:
    """Return `not torch.compiler.is_compiling() and test`; with `last`, that comes after `test`."""
    return _join_condition(eager_condition(document), cst.And, test, last)


def _join_condition(
    guard: str, kind: type[cst.BaseBooleanOp], test: cst.BaseExpression, last: bool = False
) -> cst.BaseExpression:
    """Return `guard and test`, or `guard or test`; with `last`, the guard comes after `test`."""
    operands = operands_of(test, kind)
    names = [f"{{p{number}}}" for number, _ in enumerate(operands)]
    names.insert(len(names) if last else 0, guard)
    parts = {f"p{number}": one for number, one in enumerate(operands)}
    return build_expression((" and " if kind is cst.And else " or ").join(names), **parts)


def operands_of(
    test: cst.BaseExpression, kind: type[cst.BaseBooleanOp]
) -> list[cst.BaseExpression]:
    """Return the operands of `a and b and c`, or of `or`; `test` alone if it is anything else."""
    if not isinstance(test, cst.BooleanOperation) or test.lpar:
        return [test]
    if not isinstance(test.operator, kind):
        return [test]
    return [*operands_of(test.left, kind), *operands_of(test.right, kind)]


def decide_compiled(
    document: Document,
    operand: cst.BaseExpression,
    path: Sequence[cst.BooleanOperation | cst.UnaryOperation],
    value: bool,
) -> dict[cst.CSTNode, cst.CSTNode]:
    """Return the edit by which compiled code takes `operand`, part of a condition, to be `value`.

    `torch.compiler.is_compiling() or t` for true, `not torch.compiler.is_compiling() and t` for
    false. `path` holds the `and`, `or` and `not` around the operand, innermost first. What the
    operand decides by itself goes with it: `a or t` if `t` is true.
    """
    outer = list(path)
    while outer:
        around = outer[0]
        if isinstance(around, cst.BooleanOperation):
            if isinstance(around.operator, cst.Or) is not value:
                break
        else:
            value = not value
        operand = outer.pop(0)
    if value:
        joined = _join_condition(compiling_condition(document), cst.Or, operand)
    else:
        joined = _join_condition(eager_condition(document), cst.And, operand)
    if outer:
        joined = joined.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return {operand: joined}


def run_in_eager_only(document: Document, *statements: cst.BaseStatement) -> cst.If:
    """Return consecutive statements under `if not torch.compiler.is_compiling():`."""
    first = statements[0]
    return cst.If(
        build_expression(eager_condition(document)),
        cst.IndentedBlock([first.with_changes(leading_lines=()), *statements[1:]]),
        leading_lines=getattr(first, "leading_lines", ()),
    )


def choose_when_compiling(
    document: Document, compiled: cst.BaseStatement, statement: cst.SimpleStatementLine | cst.If
) -> cst.If:
    """Return `if torch.compiler.is_compiling():` with `compiled`, and `else:` with `statement`.

    A statement that is an `if` becomes its `elif`.
    """
    eager = statement.with_changes(leading_lines=())
    return cst.If(
        build_expression(compiling_condition(document)),
        cst.IndentedBlock([compiled]),
        eager if isinstance(eager, cst.If) else cst.Else(cst.IndentedBlock([eager])),
        leading_lines=statement.leading_lines,
    )


def is_kept_in_eager(document: Document, node: cst.CSTNode) -> bool:
    """Whether a node is, or is in, the `else:` or `elif` of `if torch.compiler.is_compiling():`."""
    around = document.parents.get(node)
    for kind in (cst.IndentedBlock, cst.Else):
        if isinstance(around, kind):
            node, around = around, document.parents.get(around)
    return (
        isinstance(around, cst.If)
        and around.orelse is node
        and m.matches(around.test, IS_COMPILING)
    )


def compiled_part(new: Replacement, whole: bool = False) -> Replacement:
    """Return new code in which conditions have `True` for `torch.compiler.is_compiling()`.

    That is what is one operand of an `and` or `or`, and what an `if` asks alone; with `whole`,
    `if not torch.compiler.is_compiling()` too.
    """
    if isinstance(new, cst.FlattenSentinel):
        parts = [compiled_part(one, whole) for one in new.nodes]
        return cst.FlattenSentinel([one for one in parts if isinstance(one, cst.CSTNode)])
    if not isinstance(new, cst.CSTNode):
        return new
    asked = IS_COMPILING
    either = asked | m.UnaryOperation(operator=m.Not(), expression=asked)
    found = find_all(new, m.BooleanOperation(left=either))
    calls = (
        [*find_all(new, asked)]
        if whole
        else [
            call
            for one in found
            for call in find_all(cst.ensure_type(one, cst.BooleanOperation).left, asked)
        ]
        + [cst.ensure_type(one, cst.If).test for one in find_all(new, m.If(test=asked))]
    )
    return replace_nodes(new, {call: cst.Name("True") for call in calls})

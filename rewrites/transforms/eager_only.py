"""Statements that compiled code leaves out: `if not torch.compiler.is_compiling():`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.source import Document, build_expression


def compiling_condition(document: Document) -> str:
    """Return "torch.compiler.is_compiling()", with the file's name for torch."""
    return f"{document.imported_name('torch') or 'torch'}.compiler.is_compiling()"


def eager_condition(document: Document) -> str:
    """Return "not torch.compiler.is_compiling()", with the file's name for torch."""
    return f"not {compiling_condition(document)}"


def eager_and(
    document: Document, test: cst.BaseExpression, last: bool = False
) -> cst.BaseExpression:
    """Return `not torch.compiler.is_compiling() and test`; with `last`, that comes after `test`."""
    operands = _operands_of_and(test)
    names = [f"{{p{number}}}" for number, _ in enumerate(operands)]
    names.insert(len(names) if last else 0, eager_condition(document))
    parts = {f"p{number}": one for number, one in enumerate(operands)}
    return build_expression(" and ".join(names), **parts)


def _operands_of_and(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the operands of `a and b and c`; `test` alone if it is anything else."""
    is_and = isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And)
    if not is_and or test.lpar:
        return [test]
    assert isinstance(test, cst.BooleanOperation)
    return [*_operands_of_and(test.left), *_operands_of_and(test.right)]


def run_in_eager_only(document: Document, *statements: cst.BaseStatement) -> cst.If:
    """Return consecutive statements under `if not torch.compiler.is_compiling():`."""
    first = statements[0]
    return cst.If(
        build_expression(eager_condition(document)),
        cst.IndentedBlock([first.with_changes(leading_lines=()), *statements[1:]]),
        leading_lines=getattr(first, "leading_lines", ()),
    )

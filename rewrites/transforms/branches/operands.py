"""The operand of a condition: what `and`, `or` and `not` combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst

from fullgraph.rewrites.analysis import Site

Operator = cst.BooleanOperation | cst.UnaryOperation
Branch = cst.If | cst.IfExp | cst.Assert


@dataclass(frozen=True)
class ConditionOperand:
    """An operand of a branch's condition: `t.any()` in `if training and t.any()`."""

    branch: Branch
    operand: cst.BaseExpression
    """The operand of the innermost `and`, `or` or `not` that contains the site's node.

    The whole condition if there is no such operator.
    """
    path: tuple[Operator, ...]
    """`and`, `or` and `not` around the operand, innermost first."""


def find_operand(site: Site) -> ConditionOperand | None:
    """Return the operand, in a condition, that is the site's node or contains it.

    Operands are what `and`, `or` and `not` combine; without these, the whole condition. None if the
    node is not in the condition of an `if`, conditional expression or `assert`.
    """
    chain: list[cst.CSTNode] = [site.node]
    for outer in site.document.ancestors(site.node):
        if isinstance(outer, Branch) and outer.test is chain[-1]:
            path: list[Operator] = []
            while len(path) < len(chain) and _combines_conditions(part := chain[-len(path) - 1]):
                path.append(part)
            operand = chain[-len(path) - 1] if len(path) < len(chain) else site.node
            assert isinstance(operand, cst.BaseExpression)
            return ConditionOperand(outer, operand, tuple(reversed(path)))
        if isinstance(outer, cst.BaseStatement | cst.Lambda | cst.BaseComp):
            return None
        chain.append(outer)
    return None


def _combines_conditions(node: cst.CSTNode) -> TypeGuard[Operator]:
    negates = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return negates or isinstance(node, cst.BooleanOperation)

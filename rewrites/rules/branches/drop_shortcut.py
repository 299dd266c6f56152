"""A condition that only saves work, or skips what has no effect, is dropped.

Before:

    rows = torch.where(picks == number)[0]
    if len(rows) > 0:
        y.index_add_(0, rows, self.experts[number](x[rows]))

    if mask.all():
        return F.scaled_dot_product_attention(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

After:

    rows = torch.where(picks == number)[0]
    y.index_add_(0, rows, self.experts[number](x[rows]))

    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

An early `return`, `continue` or `break` goes away, any other block without an `else` always runs,
and of two blocks the `else` runs. Parts of the condition that do not depend on data stay:
`if mask is None or mask.all():` becomes `if mask is None:`.

Always unsafe, and accepted only where the proof took both branches and found equal results. Where
the code that now always runs draws random numbers, those that follow are others.

Refuses: conditions of an `elif` or a loop, and branches that raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, inline_block
from fullgraph.rewrites.transforms.branches.assignments import statements_of

_WHY = "The condition only saves work: without it the results were the same on every input tried."
_LEAVES = cst.Return | cst.Continue | cst.Break
_Operator = cst.BooleanOperation | cst.UnaryOperation
_RANDOM = re.compile(r"\brand\w*\(|\bnormal_?\(|\buniform_?\(|\bbernoulli\w*\(|\bmultinomial\(")


@dataclass(frozen=True)
class _Condition:
    """A data-dependent part of a condition."""

    branch: cst.If | cst.IfExp
    operand: cst.BaseExpression
    """What is dropped: the operand of the innermost `and` or `or` around the site, or the test."""
    path: tuple[_Operator, ...]
    """`and`, `or` and `not` around the operand, innermost first."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = _find_condition(site)
    if found is None:
        return None
    node = found.branch
    if isinstance(node, cst.If) and isinstance(site.document.parent(node), cst.If):
        return Refusal("an `elif` depends on the conditions before it")
    wanted = _wanted_value(node)
    if wanted is None:
        return Refusal("neither branch is a shortcut of the other")
    dropped = node.body if not wanted else getattr(node, "orelse", None)
    kept = node.body if wanted else getattr(node, "orelse", None)
    for block in filter(None, (dropped, kept)):
        if m.findall(block, m.Raise() | m.Assert()):
            return Refusal("a branch raises")
    value = wanted
    for operator in found.path:
        value ^= isinstance(operator, cst.UnaryOperation)
    replacements = _drop_operand(site, found, value)
    if replacements is None:
        return Refusal("nothing would be left of its block")
    code = site.document.code(found.operand)
    assumes = [f"`{code}` only saves work"]
    exempts: frozenset[str] = frozenset()
    function = site.document.function(node)
    if function is not None and _RANDOM.search(site.document.code(function)):
        assumes.append("other random numbers may be drawn")
        exempts = frozenset({"randomness"})
    return Rewrite(
        replacements,
        _WHY,
        Applicability.UNSAFE,
        tuple(assumes),
        tests=(found.operand,),
        exempts=exempts,
        needs_both_branches=True,
    )


def _find_condition(site: Site) -> _Condition | None:
    """Return the condition of an `if` or conditional expression that the site is part of."""
    chain: list[cst.CSTNode] = [site.node]
    for outer in site.document.ancestors(site.node):
        if isinstance(outer, cst.If | cst.IfExp) and outer.test is chain[-1]:
            path: list[_Operator] = []
            while len(path) < len(chain) and _combines_conditions(part := chain[-len(path) - 1]):
                path.append(part)
            operand = chain[-len(path) - 1] if len(path) < len(chain) else site.node
            assert isinstance(operand, cst.BaseExpression)
            return _Condition(outer, operand, tuple(reversed(path)))
        if isinstance(outer, cst.BaseStatement | cst.Lambda | cst.BaseComp):
            return None
        chain.append(outer)
    return None


def _combines_conditions(node: cst.CSTNode) -> TypeGuard[_Operator]:
    negates = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return negates or isinstance(node, cst.BooleanOperation)


def _wanted_value(node: cst.If | cst.IfExp) -> bool | None:
    """Return the value of the condition that selects the branch which is right in any case."""
    if isinstance(node, cst.IfExp):
        shortcuts = [_is_constant(node.body), _is_constant(node.orelse)]
        return shortcuts[1] if any(shortcuts) and not all(shortcuts) else False
    if node.orelse is not None:
        return None if isinstance(node.orelse, cst.If) else False
    last = node.body.body[-1] if node.body.body else None
    last = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return not isinstance(last, _LEAVES)


def _is_constant(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.BaseNumber | cst.SimpleString) or (
        isinstance(node, cst.Name) and node.value in ("None", "True", "False")
    )


def _drop_operand(
    site: Site, found: _Condition, value: bool
) -> dict[cst.CSTNode, Replacement] | None:
    """Return the edits that give the operand a constant value; None where a block gets empty."""
    inner: cst.CSTNode = found.operand
    for operator in found.path:
        if isinstance(operator, cst.UnaryOperation):
            value = not value
        elif isinstance(operator.operator, cst.And) is value:
            return {operator: operator.right if operator.left is inner else operator.left}
        inner = operator
    node = found.branch
    if isinstance(node, cst.IfExp):
        return {node: node.body if value else node.orelse}
    block = node.body if value else node.orelse.body if isinstance(node.orelse, cst.Else) else None
    if block is None:
        outer = site.document.parent(node)
        alone = not isinstance(outer, cst.IndentedBlock | cst.Module) or len(outer.body) == 1
        return None if alone else {node: cst.RemoveFromParent()}
    return {node: inline_block(node, statements_of(block))}


RULE = Rule(
    "FG307",
    "drop-shortcut",
    frozenset(
        one.value for one in (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)
    ),
    rewrite,
)

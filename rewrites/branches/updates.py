"""In-place updates where a test holds: `x += 1` as `x += torch.where(t, 1, 0)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.rewrites.branches.arms import block
from fullgraph.rewrites.branches.choice import Choice
from fullgraph.rewrites.branches.predicate import Escape
from fullgraph.rewrites.facts.flow import statements
from fullgraph.rewrites.facts.inferred import inferred, is_tensor
from fullgraph.rewrites.site import Site

_NEUTRAL: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
}
_METHODS = {"add_": "0", "sub_": "0", "mul_": "1", "div_": "1"}
"""The same as methods, each with the operand that changes nothing."""


def is_update(site: Site, node: cst.CSTNode) -> bool:
    """Whether a statement is `+=`, `-=`, `*=` or `/=` of a tensor, or assigns to an item of one."""
    if isinstance(node, cst.AugAssign):
        return type(node.operator) in _NEUTRAL and is_tensor(site, node.target) is not False
    if isinstance(node, cst.Expr):
        called = _called(node)
        return called is not None and is_tensor(site, called[0]) is True
    return (
        isinstance(node, cst.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0].target, cst.Subscript)
        and is_tensor(site, node.targets[0].target.value) is True
    )


def only_updates(site: Site, node: cst.If) -> bool:
    """Whether an `if` has nothing but in-place updates of tensors in it, and no `elif`."""
    body = statements(node.body)
    if isinstance(node.orelse, cst.If):
        return False
    orelse = statements(node.orelse.body) if node.orelse is not None else []
    return bool(body) and all(is_update(site, one) for one in (*body, *orelse))


def updates(choice: Choice, node: cst.If, side: bool) -> list[cst.BaseStatement]:
    """The updates of an `if`, each happening only where the test is `side`, or is not."""
    orelse = block(node.orelse.body) if isinstance(node.orelse, cst.Else) else ()
    if merged := _merged(choice, block(node.body), orelse, side):
        return merged
    return [*_each(choice, block(node.body), side), *_each(choice, orelse, not side)]


def operands(suite: cst.BaseSuite | None) -> list[cst.BaseExpression]:
    """What the updates of a way put into their tensors."""
    found = statements(suite) if suite is not None else ()
    return [one.value for one in found if isinstance(one, cst.AugAssign | cst.Assign | cst.Expr)]


def _each(choice: Choice, lines: Sequence[cst.CSTNode], side: bool) -> list[cst.BaseStatement]:
    made: list[cst.BaseStatement] = []
    for line in lines:
        assert isinstance(line, cst.SimpleStatementLine)
        body = [update(choice, small, side) for small in line.body]
        made.append(line.with_changes(body=body))
    return made


def _merged(
    choice: Choice, one: Sequence[cst.CSTNode], other: Sequence[cst.CSTNode], side: bool
) -> list[cst.BaseStatement]:
    """`x[i] = a` and `x[i] = b` as one assignment; [] where the ways are of other forms."""
    match one, other:
        case (
            [cst.SimpleStatementLine(body=[cst.Assign(targets=[a]) as left]) as line],
            [cst.SimpleStatementLine(body=[cst.Assign(targets=[b]) as right])],
        ) if a.deep_equals(b):
            choice.pure(left.value, right.value)
            pair = (left.value, right.value) if side else (right.value, left.value)
            value = choice.put(*pair)
            return [line.with_changes(body=[left.with_changes(value=value)])]
    return []


def update(choice: Choice, node: cst.CSTNode, side: bool) -> cst.BaseSmallStatement:
    """One in-place update that happens only where the test is `side`. Raises Escape."""
    match node:
        case cst.AugAssign():
            choice.pure(node.value)
            _fits(choice.site, node.target, node.value, node)
            neutral = cst.parse_expression(_NEUTRAL[type(node.operator)])
            return node.with_changes(value=_where(choice, node.value, neutral, side))
        case cst.Expr(value=cst.Call() as call) if (called := _called(node)) is not None:
            base, value, neutral_text = called
            choice.pure(value)
            _fits(choice.site, base, value, node)
            new = _where(choice, value, cst.parse_expression(neutral_text), side)
            return node.with_changes(
                value=call.with_changes(args=[call.args[0].with_changes(value=new)])
            )
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            choice.pure(node.value, target.slice[0])
            return node.with_changes(value=_where(choice, node.value, target, side))
    raise Escape(f"`{choice.site.document.code(node)}` is no update of a tensor")


def _called(node: cst.Expr) -> tuple[cst.BaseExpression, cst.BaseExpression, str] | None:
    """The tensor, the operand and the harmless operand of `t.mul_(v)`; None for other calls."""
    match node.value:
        case cst.Call(
            func=cst.Attribute(value=base, attr=cst.Name(value=method)),
            args=[cst.Arg(keyword=None, star="", value=value)],
        ) if method in _METHODS:
            return base, value, _METHODS[method]
    return None


def _where(
    choice: Choice, value: cst.BaseExpression, other: cst.BaseExpression, side: bool
) -> cst.BaseExpression:
    return choice.put(value, other) if side else choice.put(other, value)


def _fits(
    site: Site, target: cst.BaseExpression, value: cst.BaseExpression, node: cst.CSTNode
) -> None:
    """Raises Escape where an operand could change the result's type."""
    old, new = inferred(site, target), inferred(site, value)
    if new is None or old is None or not (new.is_tensor or new.is_number):
        raise Escape(f"it is not known what the operands of `{site.document.code(node)}` are")
    floating = all(tensor.is_float for tensor in old.tensors)
    if not old.is_tensor or not (floating or new.types == ("int",)):
        raise Escape(f"`{site.document.code(node)}` is not an update of floating-point numbers")

"""In-place updates where a test holds: `x += 1` as `x += torch.where(t, 1, 0)`."""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.branches.arms import block
from fullgraph.rewrites.branches.choice import Choice
from fullgraph.rewrites.branches.predicate import Escape
from fullgraph.rewrites.build import expression
from fullgraph.rewrites.facts.flow import statements
from fullgraph.rewrites.facts.inferred import inferred, is_tensor
from fullgraph.rewrites.site import Site

_NEUTRAL: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
}


def is_update(site: Site, node: cst.CSTNode) -> bool:
    """Whether a statement is `+=`, `-=`, `*=` or `/=` of a tensor, or assigns to an item of one."""
    if isinstance(node, cst.AugAssign):
        return type(node.operator) in _NEUTRAL and is_tensor(site, node.target) is not False
    return (
        isinstance(node, cst.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0].target, cst.Subscript)
        and is_tensor(site, node.targets[0].target.value) is True
    )


def only_updates(site: Site, node: cst.If) -> bool:
    """Whether an `if` without `else` has nothing but in-place updates of tensors in it."""
    body = statements(node.body)
    return node.orelse is None and bool(body) and all(is_update(site, one) for one in body)


def updates(choice: Choice, node: cst.If, side: bool) -> list[cst.BaseStatement]:
    """The updates of an `if`, each happening only where the test is `side`."""
    lines: list[cst.BaseStatement] = []
    for line in block(node.body):
        assert isinstance(line, cst.SimpleStatementLine)
        made = [update(choice, small, side) for small in line.body]
        lines.append(line.with_changes(body=made))
    return lines


def operands(node: cst.If) -> list[cst.BaseExpression]:
    """What the updates of an `if` put into their tensors."""
    found = statements(node.body)
    return [one.value for one in found if isinstance(one, cst.AugAssign | cst.Assign)]


def update(choice: Choice, node: cst.CSTNode, side: bool) -> cst.BaseSmallStatement:
    """One in-place update that happens only where the test is `side`. Raises Escape."""
    match node:
        case cst.AugAssign():
            choice.pure(node.value)
            _fits(choice.site, node)
            neutral = cst.parse_expression(_NEUTRAL[type(node.operator)])
            return node.with_changes(value=_where(choice, node.value, neutral, side))
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            choice.pure(node.value, target.slice[0])
            return node.with_changes(value=_where(choice, node.value, target, side))
    raise Escape(f"`{choice.site.document.code(node)}` is no update of a tensor")


def _where(
    choice: Choice, value: cst.BaseExpression, other: cst.BaseExpression, side: bool
) -> cst.BaseExpression:
    choice.uses += 1
    new = choice.tamed(value, side)
    a, b = (new, other) if side else (other, new)
    return expression("{w}({t}, {a}, {b})", w=choice.where, t=choice.test, a=a, b=b)


def _fits(site: Site, node: cst.AugAssign) -> None:
    """Raises Escape where the new operand would change the result's type."""
    target, value = inferred(site, node.target), inferred(site, node.value)
    if value is None or target is None or not (value.is_tensor or value.is_number):
        raise Escape(f"it is not known what the operands of `{site.document.code(node)}` are")
    floating = all(tensor.is_float for tensor in target.tensors)
    if not target.is_tensor or not (floating or value.types == ("int",)):
        raise Escape(f"`{site.document.code(node)}` is not an update of floating-point numbers")

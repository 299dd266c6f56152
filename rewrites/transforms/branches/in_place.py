"""Conditional in-place updates: `x += 1` becomes `x += torch.where(t, 1, 0)`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    ELEMENTWISE,
    IN_PLACE,
    NotApplicable,
    Site,
    infer,
    is_tensor,
    names_bound,
    names_read,
    side_effect_of,
    skipping_flag,
    walk,
)
from fullgraph.rewrites.source import build_expression, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.branches.assignments import OPERATORS
from fullgraph.rewrites.transforms.branches.branches import blocks_of
from fullgraph.rewrites.transforms.branches.choice import Choice
from fullgraph.rewrites.transforms.branches.empty_selection import selects_nothing_else
from fullgraph.rewrites.transforms.branches.filled_masks import fill_selected
from fullgraph.rewrites.transforms.branches.own_tensors import updates_own_tensor
from fullgraph.rewrites.transforms.branches.tested import mask_of_any, mask_of_none

_NEUTRAL: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
}
_METHODS = {"add_": "0", "sub_": "0", "mul_": "1", "div_": "1"}
"""In-place methods, each with the operand that changes nothing."""
_FILLS = ("copy_", "fill_", "zero_")
_ELEMENTWISE = frozenset(name for name in ELEMENTWISE if f"{name}_" in IN_PLACE)
"""Methods with an in-place form, such as `add_`, that computes each element the same way."""
ValueBefore = Callable[[str, cst.BaseExpression], cst.BaseExpression]
"""Function of a name and its new value that returns its earlier value.

It may raise NotApplicable.
"""


def is_update(site: Site, node: cst.CSTNode) -> bool:
    """Return whether a statement changes a tensor in place: `+=`, `x[i] = 1`, `x.copy_(y)`."""
    if isinstance(node, cst.AugAssign):
        return type(node.operator) in _NEUTRAL and is_tensor(site, node.target) is not False
    if isinstance(node, cst.Expr):
        methods, base = _in_place_chain(node.value)
        last = methods[-1:] and methods[-1] in _FILLS and methods[:-1] == []
        known = last or all(one.removesuffix("_") in _ELEMENTWISE for one in methods)
        return bool(methods) and known and is_tensor(site, base) is True
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=base))]):
            if (kept := is_tensor(site, base)) is None:  # of a list it would do the same
                return skipping_flag(site, node) is not None
            return kept
    return False


def changes_tensors(
    site: Site, *branches: Sequence[cst.CSTNode], read_later: Collection[str] = ()
) -> bool:
    """Return whether branches update tensors in place.

    False if they have nested blocks, other than those of an `if` on a flag of Python. Tensors that
    a branch makes itself do not count unless their names are in `read_later`.
    """
    lines = [line for branch in branches for line in branch]
    return all(_is_flat(site, line) for line in lines) and any(
        is_update(site, small) and updates_own_tensor(site, small, branch) in ("", *read_later)
        for branch in branches
        for small in _small_statements(branch)
    )


def _is_flat(site: Site, line: cst.CSTNode) -> bool:
    """Return whether a statement is a simple one, or an `if` on a flag around such statements."""
    if not isinstance(line, cst.If):
        return isinstance(line, cst.SimpleStatementLine)
    seen = infer(site, line.test)
    is_flag = seen is not None and seen.types == ("bool",) and not side_effect_of(site, line.test)
    inside = blocks_of(line)
    return is_flag and all(_is_flat(site, one) for one in (*inside.one, *inside.other))


def guard_updates(
    choice: Choice,
    sides: Sequence[tuple[Sequence[cst.CSTNode], bool]],
    read_later: Collection[str],
    value_before: ValueBefore,
) -> list[cst.BaseStatement]:
    """Return the statements of both branches; each has an effect only if its branch is taken.

    `sides` are the branches, each with the value of the condition for which it is taken.
    `read_later` are the names that later code reads. `value_before` is called with an assigned name
    and its new value, and returns an expression for the value before the branch.
    """
    if merged := _merge_assignments(choice, *sides):
        return merged

    def guard_line(line: cst.CSTNode, when: bool, bound: frozenset[str]) -> cst.BaseStatement:
        """Return a line that has an effect only if the condition equals `when`."""
        if isinstance(line, cst.If):
            choice.require_pure(line.test)
            if bound & names_read(line.test):
                raise NotApplicable("the branch assigns what an inner `if` tests")
            inside = blocks_of(line)
            lines = (*inside.one, *inside.other)
            return replace_nodes(line, {one: guard_line(one, when, bound) for one in lines})
        line = cst.ensure_type(line, cst.SimpleStatementLine)
        body = [
            conditional_statement(choice, small, when, read_later, value_before)
            for small in line.body
        ]
        return line.with_changes(body=body)

    return [
        guard_line(line, when, frozenset(names_bound(*branch)))
        for branch, when in sides
        for line in branch
    ]


def stored_operands(branch: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return the values that a branch stores: `y` for `x += y`, all of `x.add_(y)`.

    Of compound statements, those of an `if` count.
    """
    kinds = cst.AugAssign | cst.Assign | cst.Expr
    return [one.value for one in _small_statements(branch) if isinstance(one, kinds)]


def _small_statements(lines: Sequence[cst.CSTNode]) -> Iterator[cst.BaseSmallStatement]:
    """Yield the simple statements of `lines`, those inside an `if` too."""
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine):
            yield from line.body
        elif isinstance(line, cst.If):
            inside = blocks_of(line)
            yield from _small_statements((*inside.one, *inside.other))


def _merge_assignments(
    choice: Choice,
    first: tuple[Sequence[cst.CSTNode], bool],
    second: tuple[Sequence[cst.CSTNode], bool],
) -> list[cst.BaseStatement]:
    """Merge `x[i] = a` in one branch and `x[i] = b` in the other into one assignment.

    `first` and `second` are branches, each with the value of the condition for which it is taken.
    [] if the branches do not consist of two such assignments.
    """
    match first[0], second[0]:
        case (
            [cst.SimpleStatementLine(body=[cst.Assign(targets=[a]) as left]) as line],
            [cst.SimpleStatementLine(body=[cst.Assign(targets=[b]) as right])],
        ) if a.deep_equals(b):
            choice.require_pure(left.value, right.value)
            pair = (left.value, right.value) if first[1] else (right.value, left.value)
            value = choice.select_stored(*pair)
            return [line.with_changes(body=[left.with_changes(value=value)])]
    return []


def conditional_statement(
    choice: Choice,
    small: cst.BaseSmallStatement,
    when: bool,
    read_later: Collection[str],
    value_before: ValueBefore,
) -> cst.BaseSmallStatement:
    """Return `small`, changed to have an effect only if the condition equals `when`.

    `read_later` are the names that later code reads. `value_before` is called with an assigned name
    and its new value, and returns an expression for the value before the branch. Raises
    NotApplicable for statements that are neither an assignment of one value, an in-place update nor
    `pass`.
    """
    if isinstance(small, cst.Pass) or is_update(choice.site, small):
        return small if isinstance(small, cst.Pass) else guard_update(choice, small, when)
    names = names_bound(small)
    if _unpacks(small) and not set(names).intersection(read_later):
        choice.require_pure(small)
        return small
    target, value = parse_assignment(choice.site, small)
    choice.require_pure(value)
    path = dotted_name(target)
    if "." not in path and path not in read_later:
        edits = choice.make_finite_edits(small, when)
        return replace_nodes(small, edits) if edits else small
    before = value_before(path, value)
    new = choice.select(value, before) if when else choice.select(before, value)
    assert isinstance(target, cst.BaseAssignTargetExpression)
    return cst.Assign([cst.AssignTarget(target)], new)


def _unpacks(small: cst.BaseSmallStatement) -> bool:
    """Return whether a statement binds several names: `low, high = x.aminmax()`."""
    pattern = m.Assign(
        targets=[m.AssignTarget(target=m.Tuple([m.AtLeastN(m.Element(m.Name()), n=2)]))]
    )
    return m.matches(small, pattern)


def parse_assignment(
    site: Site, small: cst.BaseSmallStatement
) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """Return the name or attribute that a statement assigns to, and the value.

    (`x`, `x + 1`) for `x += 1`. Raises NotApplicable for statements that do not assign one value.
    """
    match small:
        case cst.AugAssign() if type(small.operator) in OPERATORS and dotted_name(small.target):
            operator = OPERATORS[type(small.operator)]()
            return small.target, cst.BinaryOperation(small.target, operator, small.value)
        case cst.Assign(targets=[cst.AssignTarget(target=target)]) if dotted_name(target):
            return target, small.value
    raise NotApplicable(f"`{site.document.code(small)}` is no assignment of a value")


def guard_update(choice: Choice, node: cst.CSTNode, when: bool) -> cst.BaseSmallStatement:
    """Return an in-place update that has an effect only if the condition equals `when`.

    `x += y` → `x += torch.where(t, y, 0)`. Raises NotApplicable if the dtype could change.
    """
    match node:
        case cst.AugAssign():
            indices = node.target.slice if isinstance(node.target, cst.Subscript) else ()
            choice.require_pure(node.value, *indices)
            if _needs_no_condition(choice, node.target, node.value, when):
                return node.with_changes(value=choice.make_finite(node.value, when))
            _require_same_dtype(choice.site, node.target, node.value, node)
            neutral = cst.parse_expression(_NEUTRAL[type(node.operator)])
            return node.with_changes(value=_select_by(choice, node.value, neutral, when))
        case cst.Expr(value=cst.Call(func=cst.Attribute()) as call):
            return node.with_changes(value=_guard_method(choice, call, when))
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            choice.require_pure(node.value, *target.slice)
            if _needs_no_condition(choice, target, node.value, when):
                return fill_selected(choice.site, node, choice.make_finite(node.value, when))
            return node.with_changes(value=_select_by(choice, node.value, target, when))
    raise NotApplicable(f"`{choice.site.document.code(node)}` is no update of a tensor")


def _needs_no_condition(
    choice: Choice, target: cst.BaseExpression, value: cst.BaseExpression, when: bool
) -> bool:
    """Return whether `x[m] = v` does nothing unless the condition equals `when`: `m.any()`."""
    mask = (mask_of_any if when else mask_of_none)(choice.site, choice.test)
    assumes = choice.agreement.assumes
    return mask is not None and selects_nothing_else(choice.site, target, value, mask, assumes)


def _guard_method(choice: Choice, call: cst.Call, when: bool) -> cst.Call:
    """Rewrite `x.add_(y)` as `x.add_(torch.where(t, y, 0))`.

    Calls of other in-place methods become `x.copy_(…)`. The new call has an effect only if the
    condition equals `when`.
    """
    site = choice.site
    (*first, method), base = _in_place_chain(call)
    choice.require_pure(base, *(arg.value for arg in _chain_arguments(call, base)))
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if method in _METHODS and not first and len(plain) == len(call.args) == 1:
        _require_same_dtype(site, base, plain[0], call)
        new = _select_by(choice, plain[0], cst.parse_expression(_METHODS[method]), when)
        return call.with_changes(args=[call.args[0].with_changes(value=new)])
    if method in _FILLS:
        if len(plain) < len(call.args) or len(plain) > 1 or (method == "zero_") != (not plain):
            raise NotApplicable(f"the arguments of `{site.document.code(call)}` are not one value")
        value = plain[0] if plain else cst.Integer("0")
        if any(isinstance(one, cst.Slice) and (one.lower or one.upper) for one in walk(value)):
            code, name = site.document.code(value), site.document.code(base)
            clause = f"`{code}` has the shape of `{name}` also where it is not copied"
            choice.agreement.assumes[clause] = None
            choice.may_misfit = True
        _require_same_precision(site, base, value, call)
    else:
        for arg in _chain_arguments(call, base):
            if arg.keyword is None:
                _require_same_dtype(site, base, arg.value, call)
        seen = infer(site, base)
        learns = "." not in dotted_name(base) or seen is None or seen.requires_grad
        source = build_expression("{b}.clone()", b=base) if learns else base  # it may be saved
        value = _out_of_place(call, base, source)
    func = cst.Attribute(base, cst.Name("copy_"))
    return call.with_changes(func=func, args=[cst.Arg(_select_by(choice, value, base, when))])


def _chain_arguments(call: cst.BaseExpression, base: cst.BaseExpression) -> Iterator[cst.Arg]:
    """Yield the arguments of all methods in a chain of calls on `base`, last method first.

    `b` and `a` for `x.mul_(a).add_(b)`, where `base` is `x`.
    """
    while isinstance(call, cst.Call) and call is not base:
        yield from call.args
        call = call.func.value if isinstance(call.func, cst.Attribute) else base


def _out_of_place(
    call: cst.BaseExpression, base: cst.BaseExpression, source: cst.BaseExpression
) -> cst.BaseExpression:
    """Rewrite `x.mul_(a).add_(b)` as `x.mul(a).add(b)`, with `source` for `x`."""
    if call is base:
        return source
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    attr = cst.Name(call.func.attr.value.removesuffix("_"))
    return call.with_changes(func=cst.Attribute(_out_of_place(call.func.value, base, source), attr))


def _in_place_chain(node: cst.BaseExpression) -> tuple[list[str], cst.BaseExpression]:
    """Return the in-place methods of `x.mul_(a).add_(b)` in order, and `x`.

    For other code, return [] and `node`.
    """
    methods: list[str] = []
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        if not method.endswith("_") or method.endswith("__"):
            break
        methods.insert(0, method)
        node = node.func.value
    return methods, node


def _select_by(
    choice: Choice, value: cst.BaseExpression, other: cst.BaseExpression, when: bool
) -> cst.BaseExpression:
    """Return `torch.where(t, value, other)`, or with the two swapped if `when` is False.

    `t` is the condition of `choice`.
    """
    return choice.select_stored(value, other) if when else choice.select_stored(other, value)


def _require_same_precision(
    site: Site, base: cst.BaseExpression, value: cst.BaseExpression, node: cst.Call
) -> None:
    """Raise NotApplicable if selecting between `base` and `value` could lose precision.

    It cannot if `base` is a float tensor, if `value` is an int, or if both have one dtype. Raises
    also if either is unknown. `node` is the call that stores `value` in the tensor `base`.
    """
    old, new = infer(site, base), infer(site, value)
    if old is None or new is None or not (new.is_tensor or new.is_number):
        raise NotApplicable(f"it is not known what `{site.document.code(node)}` puts in")
    floating = all(tensor.is_float for tensor in old.tensors)
    whole = new.is_number and "float" not in new.types
    if not (floating or whole or (new.is_tensor and new.dtypes == old.dtypes)):
        raise NotApplicable(f"`{site.document.code(node)}` cuts off what is behind the point")


def _require_same_dtype(
    site: Site, target: cst.BaseExpression, value: cst.BaseExpression, node: cst.CSTNode
) -> None:
    """Raise NotApplicable unless `target` is a floating-point tensor, or `value` is an int.

    In other cases a `torch.where` of `value` could change the dtype of the result stored in
    `target`. `node` is the update, for messages.
    """
    old, new = infer(site, target), infer(site, value)
    if old is None and isinstance(target, cst.Subscript):
        old = infer(site, target.value)  # of the same dtype
    if new is None or old is None or not (new.is_tensor or new.is_number):
        raise NotApplicable(
            f"it is not known what the operands of `{site.document.code(node)}` are"
        )
    floating = all(tensor.is_float for tensor in old.tensors)
    if not old.is_tensor or not (floating or new.types == ("int",)):
        raise NotApplicable(
            f"`{site.document.code(node)}` is not an update of floating-point numbers"
        )

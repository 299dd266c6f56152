"""The condition of a branch as a 0-d boolean tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_definitions,
    infer,
    may_raise,
    side_effect_of,
    torch_name,
    walk,
)
from fullgraph.rewrites.source import build_expression, dotted_name, parenthesize, replace_nodes

Decision = cst.If | cst.IfExp | cst.While


@dataclass(frozen=True)
class Predicate:
    """Condition of a branch: a tensor, or `guard and tensor`, or `guard or tensor`."""

    tensor: cst.BaseExpression
    """Expression of a 0-d boolean tensor."""
    negated: bool = False
    """Whether the condition is negated as a whole: the branches swap."""
    guard: cst.BaseExpression | None = None
    """A condition that Python evaluates first."""
    disjunction: bool = False
    """Whether the guard alone suffices ("or")."""

    def truth_of(self, test: cst.BaseExpression) -> cst.BaseExpression:
        """Return `test`, which stands for the tensor, or `not test` if the condition is negated."""
        return cst.UnaryOperation(cst.Not(), test) if self.negated else test


@dataclass(frozen=True)
class Condition:
    """Condition of a branch, in which an assignment right before the branch may be inlined.

    `t.item() > 0` for `n = t.item(); if n > 0: …`.
    """

    find_conditional: Decision
    """The `if`, conditional expression or `while` with the condition."""
    expression: cst.BaseExpression
    """The condition, in which the name that `gone` assigns is replaced by its value."""
    gone: cst.SimpleStatementLine | None = None
    """The assignment right before the `if` of a name used only there; None if there is none."""


def find_conditional(site: Site) -> Decision | None:
    """Return the `if`, `while` or `a if t else b` at a site; None if there is none.

    That is the site's node itself, or the conditional whose condition is or contains that node.
    """
    inner = site.node
    if isinstance(inner, Decision):
        return inner
    for outer in site.document.ancestors(inner):
        if isinstance(outer, Decision):
            return outer if outer.test is inner else None
        if not isinstance(outer, _PARTS):
            return None
        inner = outer
    return None


def find_condition(site: Site) -> Condition | None:
    """Return the condition that tests the site's node, directly or through a name.

    `t.item() > 0` for `n = t.item(); if n > 0: …`, where the site's node is in either statement.
    None if the node is neither in a condition nor in such an assignment.
    """
    found = find_conditional(site)
    if found is not None:
        previous = _previous_statement(site, found)
        assign = previous.body[0] if previous is not None else None
        named = _condition_through_name(site, assign) if isinstance(assign, cst.Assign) else None
        return named or Condition(found, found.test)
    for outer in site.document.ancestors(site.node):
        if isinstance(outer, cst.Assign):
            return _condition_through_name(site, outer)
        if not isinstance(outer, _PARTS):
            return None
    return None


_PARTS = (
    cst.BooleanOperation
    | cst.UnaryOperation
    | cst.Comparison
    | cst.ComparisonTarget
    | cst.Call
    | cst.Arg
    | cst.Attribute
)


def _condition_through_name(site: Site, assign: cst.Assign) -> Condition | None:
    """Return the condition `t.item() > 0` for `n = t.item(); if n > 0: …`.

    `assign` is the assignment. None unless the `if` comes right after it, and no other code reads
    `n`.
    """
    known = find_definitions(site.document, assign)
    line = site.document.parent(assign)
    target = assign.targets[0].target
    if known is None or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    uses = known.uses(target)
    if len(assign.targets) > 1 or len(uses) != 1 or len(known.reaching[uses[0]]) > 1:
        return None
    for outer in site.document.ancestors(uses[0]):
        if isinstance(outer, cst.If) and _previous_statement(site, outer) is line:
            if not any(one is uses[0] for one in walk(outer.test)):
                return None
            if not any(_converts_to_number(site, one) for one in walk(assign.value)):
                return None
            value = parenthesize(assign.value)
            whole = outer.test is uses[0]
            condition = value if whole else replace_nodes(outer.test, {uses[0]: value})
            return Condition(outer, condition, line)
    return None


def _converts_to_number(site: Site, node: cst.CSTNode) -> bool:
    """Return whether a node is a call that turns tensors into a Python number or bool.

    `t.item()`, `torch.equal(a, b)`.
    """
    if not isinstance(node, cst.Call):
        return False
    return tensor_of(site, node) is not node or torch_name(site, node) in ("equal", "allclose")


def _previous_statement(site: Site, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """Return the simple statement right before `node` in the same block.

    None if `node` is the first statement, or if a compound statement is before it.
    """
    outer = site.document.parents.get(node)
    if not isinstance(outer, cst.IndentedBlock) or node not in outer.body:
        return None
    index = outer.body.index(node)
    found = outer.body[index - 1] if index else None
    return found if isinstance(found, cst.SimpleStatementLine) else None


def predicate_of(site: Site, condition: cst.BaseExpression) -> Predicate | None:
    """Return a condition as a tensor, perhaps with a Python guard; None if no tensor decides it.

    `n > 0 and t.any()` → tensor `t.any()` and guard `n > 0`. Raises NotApplicable if the condition
    cannot be split in this way.
    """
    if isinstance(condition, cst.UnaryOperation) and isinstance(condition.operator, cst.Not):
        inner = predicate_of(site, condition.expression)
        if inner is None:
            return None
        return replace(inner, negated=not inner.negated)
    if isinstance(condition, cst.BooleanOperation):
        return _join_predicates(site, condition)
    found = _as_bool_tensor(site, condition)
    return None if found is None else Predicate(found, guard=_same_shape(site, condition))


def _join_predicates(site: Site, condition: cst.BooleanOperation) -> Predicate | None:
    """Return the predicate of an `and` or `or`; an operand without tensors becomes its guard.

    None if no operand has a tensor. Raises NotApplicable if the operands cannot be combined.
    """
    left, right = predicate_of(site, condition.left), predicate_of(site, condition.right)
    disjunction = isinstance(condition.operator, cst.Or)
    if left is None and right is None:
        return None
    if left is not None and right is not None:
        if left.guard is not None or right.guard is not None:
            raise NotApplicable("its test mixes several tests of Python with several of tensors")
        if reason := side_effect_of(site, condition.right) or may_raise(site, condition.right):
            raise NotApplicable(f"the second test would always be evaluated, and {reason}")
        sides = [
            build_expression("~{t}", t=when.tensor) if when.negated else when.tensor
            for when in (left, right)
        ]
        operator = "|" if disjunction else "&"
        joined = build_expression(f"{{a}} {operator} {{b}}", a=sides[0], b=sides[1])
        return Predicate(joined)
    tensor = left or right
    guard = condition.right if left is not None else condition.left
    assert tensor is not None
    if tensor.guard is not None:
        raise NotApplicable("its test mixes several tests of Python with several of tensors")
    if left is not None and (reason := side_effect_of(site, guard) or may_raise(site, guard)):
        raise NotApplicable(f"a test of Python would come first, and {reason}")
    bare = build_expression("~{t}", t=tensor.tensor) if tensor.negated else tensor.tensor
    return Predicate(bare, False, guard, disjunction)


def _as_bool_tensor(site: Site, condition: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return a condition without `and`, `or`, `not` as a 0-d boolean tensor.

    None if no tensor decides it. Raises NotApplicable if the tensor may have several elements, and
    for `int(t)` of a float.
    """
    if isinstance(condition, cst.Call):
        if compared := _as_reduction(site, condition):
            return compared
        bare = tensor_of(site, condition)
        if bare is not condition:
            if site.document.code(condition).startswith("int("):
                raise NotApplicable("`int()` cuts off what is behind the point")
            return _as_bool_tensor(site, bare)
    if isinstance(condition, cst.Comparison):
        return _compare_in_graph(site, condition)
    seen = infer(site, condition)
    if seen is None or not seen.is_tensor:
        return None
    shaped = _zero_dimensional(site, condition, condition)
    return shaped if seen.dtypes == {"bool"} else build_expression("{t} != 0", t=shaped)


def _compare_in_graph(site: Site, condition: cst.Comparison) -> cst.BaseExpression | None:
    """Return a comparison as a tensor expression: `t > 0` for `t.item() > 0`.

    None if no operand is a tensor, and for `in` and `is`. Raises NotApplicable for long chains and
    for tensors of several elements.
    """
    sides = [condition.left, *(one.comparator for one in condition.comparisons)]
    operators = [one.operator for one in condition.comparisons]
    bare = [tensor_of(site, when) for when in sides]
    facts = [infer(site, when) for when in bare]
    if not any(fact is not None and fact.is_tensor for fact in facts):
        return None
    kinds = cst.In | cst.NotIn | cst.Is | cst.IsNot
    if any(isinstance(operator, kinds) for operator in operators):
        return None
    shaped = [
        _zero_dimensional(site, when, when) if fact is not None and fact.is_tensor else when
        for when, fact in zip(bare, facts, strict=True)
    ]
    exact = [  # an operand that was a tensor is compared in its own dtype as before
        new if tensor is old else _exact_operand(site, new, old, sides, bare)
        for new, tensor, old in zip(shaped, bare, sides, strict=True)
    ]
    parts = [
        cst.Comparison(left, [cst.ComparisonTarget(operator, right)])
        for left, operator, right in zip(exact, operators, exact[1:], strict=False)
    ]
    if len(parts) == 1:
        same = all(new is old for new, old in zip(exact, sides, strict=True))
        return condition if same else build_expression("{c}", c=parts[0])
    if len(parts) > 2 or side_effect_of(site, *sides):
        raise NotApplicable("its test is a long chain of comparisons")
    return build_expression("{a} & {b}", a=parts[0], b=parts[1])


def _exact_operand(
    site: Site,
    new: cst.BaseExpression,
    old: cst.BaseExpression,
    sides: list[cst.BaseExpression],
    bare: list[cst.BaseExpression],
) -> cst.BaseExpression:
    """Return `new`, or `new.double()` where torch might compare less exactly than Python.

    `new` is the tensor `t` that replaces the operand `old`, `t.item()`. Python compares in float64,
    torch in the dtype of `t`: `t.item() > 0.1` is not `t > 0.1`. `sides` are all operands of the
    comparison; `bare` are the same operands with `t` in place of each `t.item()`.
    """
    others = [infer(site, b) for s, b in zip(sides, bare, strict=True) if s is not old]
    seen = infer(site, tensor_of(site, old))
    numbers = [v for o in others if o is not None and o.is_number for v in o.values]
    tensors = [o for o in others if o is not None and o.is_tensor]
    whole = all(float(v) % 1 == 0 and abs(v) < 2**10 for v in numbers if isinstance(v, int | float))
    halves = all((float(v) * 8) % 1 == 0 for v in numbers if isinstance(v, int | float))
    floating = seen is not None and all(t.is_float for t in seen.tensors)
    literal = all(
        isinstance(s, cst.Integer | cst.Float | cst.UnaryOperation) or s is old or b is not s
        for s, b in zip(sides, bare, strict=True)
    )
    fine = all(seen is not None and t.dtypes == seen.dtypes for t in tensors)
    if fine and literal and (whole or (halves and floating)):
        return new
    return build_expression("{t}.double()", t=new)


def tensor_of(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `t` for `t.item()`, `float(t)` or `bool(t)`; other expressions unchanged.

    Also for `int(t)`, but only if `t` is an integer tensor.
    """
    if not isinstance(node, cst.Call):
        return node
    path = dotted_name(node.func)
    if isinstance(node.func, cst.Attribute) and not node.args:
        base = infer(site, node.func.value)
        if node.func.attr.value in ("item", "is_nonzero") and base is not None and base.is_tensor:
            return node.func.value
    if len(node.args) == 1 and node.args[0].keyword is None and not node.args[0].star:
        inner = tensor_of(site, node.args[0].value)
        seen = infer(site, inner)
        if seen is not None and seen.is_tensor:
            if path in ("float", "bool") or site.callee_name(node) == "torch.is_nonzero":
                return inner
            if path == "int" and not any(tensor.is_float for tensor in seen.tensors):
                return inner
    return node


def flag_name(test: cst.BaseExpression) -> str:
    """Return "was_ready" for `self.ready`, the name of its value before; "condition" for others."""
    match test:
        case cst.Call(func=cst.Attribute(value=flag, attr=cst.Name("reshape"))):
            test = flag
    stem = dotted_name(test).rpartition(".")[2].strip("_").removeprefix("is_")
    return f"was_{stem}" if stem else "condition"


def _as_reduction(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """Return `torch.equal(a, b)` as `(a == b).all()`; None for other calls.

    `torch.allclose(a, b)` becomes `torch.isclose(a, b).all()`. Raises NotApplicable if the call
    does not show both operands of `torch.equal`.
    """
    called = torch_name(site, call)
    if called not in ("equal", "allclose") or any(arg.star for arg in call.args):
        return None
    is_method = site.document.qualified_name(call.func) not in ("torch.equal", "torch.allclose")
    if called == "allclose":
        if is_method:
            assert isinstance(call.func, cst.Attribute)
            close = call.with_changes(func=call.func.with_changes(attr=cst.Name("isclose")))
        else:
            spelled = site.document.imported_name("torch.isclose") or "torch.isclose"
            close = call.with_changes(func=cst.parse_expression(spelled))
        return build_expression("{close}.all()", close=close)
    one, other = _comparison_operands(call, is_method)
    return build_expression("({a} == {b}).all()", a=one, b=other)


def _comparison_operands(
    call: cst.Call, is_method: bool
) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """Return the two operands of `torch.equal(a, b)` or, if `is_method`, of `a.equal(b)`.

    Raises NotApplicable if there are not exactly two.
    """
    values = [arg.value for arg in call.args]
    if is_method:
        assert isinstance(call.func, cst.Attribute)
        values.insert(0, call.func.value)
    if len(values) != 2:
        raise NotApplicable("the arguments of its comparison are not spelled out")
    return values[0], values[1]


def _same_shape(site: Site, condition: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `a.shape == b.shape` for `torch.equal(a, b)`; None for other conditions."""
    if not isinstance(condition, cst.Call) or torch_name(site, condition) != "equal":
        return None
    is_method = site.document.qualified_name(condition.func) != "torch.equal"
    one, other = _comparison_operands(condition, is_method)
    return build_expression("{a}.shape == {b}.shape", a=one, b=other)


def _zero_dimensional(
    site: Site, node: cst.BaseExpression, new: cst.BaseExpression
) -> cst.BaseExpression:
    """Return `new`, or `new.reshape(())` if that is needed to make it 0-d.

    `node` is the expression that `new` replaces, whose shape was observed. Raises NotApplicable if
    `node` is not known to have a single element.
    """
    seen = infer(site, node)
    shapes = seen.shapes if seen is not None else frozenset()
    if shapes == {()}:
        return new
    if shapes and all(set(shape) <= {1} for shape in shapes):
        return build_expression("{t}.reshape(())", t=new)
    raise NotApplicable(f"`{site.document.code(node)}` is not known to be a single element")

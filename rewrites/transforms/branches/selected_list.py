"""Lists to which only one branch appends, and that later code only adds up, averages or counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assigned_values,
    infer,
    names_bound,
    names_read,
    operation_of,
    side_effect_of,
    walk,
)
from fullgraph.rewrites.source import Replacement, build_expression, build_statement
from fullgraph.rewrites.transforms.branches.branches import Branches
from fullgraph.rewrites.transforms.branches.predicate import Predicate

_CONDITION = m.Comparison() | m.UnaryOperation(operator=m.Not()) | m.Call(func=m.Name("isinstance"))
_SOMETHING = "something is appended to `{name}`: of an empty list `torch.stack` is an error"
_SUMS = m.Call(func=m.Name("sum"), args=[m.Arg(star="")])
_SUM_METHOD = m.Attribute(attr=m.Name("sum"))
_MEAN_METHOD = m.Attribute(attr=m.Name("mean"))


@dataclass(frozen=True)
class SelectedList:
    """List that gets an element each time, a zero where nothing was appended before.

    A second list, if it is needed, holds which elements count.
    """

    kept: str
    """Name of the second list; "" if the elements are only added up."""
    edits: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    """Edits of the list's definition and of what reads it."""
    assumes: str = ""
    """What the edits assume; "" if nothing."""


def find_selected_list(
    site: Site, branches: Branches, name: str, value: cst.BaseExpression
) -> SelectedList:
    """Return how to write the list `name`, to which one of the branches appends `value`.

    Raises NotApplicable if anything needs the elements themselves.
    """
    function = site.document.function(branches.node)
    assert function is not None
    inside = {one for part in (branches.node, *branches.rest) for one in walk(part)}
    uses = [
        one
        for one in walk(function)
        if isinstance(one, cst.Name) and one.value == name and one not in inside
    ]
    made = [one for one in uses if isinstance(site.document.parent(one), cst.AssignTarget)]
    line = site.document.statement(made[0]) if len(made) == 1 else None
    empty = m.SimpleStatementLine([m.Assign([m.AssignTarget()], m.List([]))])
    if line is None or not m.matches(line, empty):
        raise NotApplicable(f"only one branch appends to `{name}`")
    kept = site.document.unused_local(branches.node, "kept")
    edits: dict[cst.CSTNode, Replacement] = {}
    for use in uses:
        if use is not made[0]:
            edits |= dict(_edits_of_use(site, use, kept))
    seen = infer(site, value)
    if edits and (seen is None or not seen.is_tensor or seen.dims != {0}):
        raise NotApplicable(f"what it appends to `{name}` is not known to have no dimension")
    if not edits:
        return SelectedList("")
    second = build_statement("{k} = []", k=kept)
    stacked = [one for one in edits if isinstance(one, cst.Call) and not _counts(one)]
    return SelectedList(
        kept,
        {**edits, line: cst.FlattenSentinel([line, second])},
        _SOMETHING.format(name=name) if stacked else "",
    )


def join_guard(
    site: Site, branches: Branches, condition: Predicate, assumes: dict[str, None]
) -> Predicate:
    """Return `t & guard` for `guard and t` where the guard alone decides on elements of a list.

    Under `if guard:` a copy of a branch would append them, and the second list would not count
    them. Otherwise return `condition`. Assumptions are added to `assumes`. Raises NotApplicable.
    """
    guard, tensor = condition.guard, condition.tensor
    taken = condition.disjunction is not condition.negated
    copied, other = (branches.one, branches.other)[:: 1 if taken else -1]
    if guard is None or not any(
        find_selected_list(site, branches, name, value).kept
        for name, value in _appended(copied).items()
        if name not in _appended(other)
    ):
        return condition
    if reason := side_effect_of(site, guard, tensor):
        raise NotApplicable(f"its test would always be evaluated, and {reason}")
    codes = [site.document.code(one) for one in (tensor, guard)]
    if (names_read(tensor) & names_read(guard)) - {"self", "torch"}:
        raise NotApplicable(f"`{codes[1]}` may decide whether `{codes[0]}` can be computed")
    names = [one for one in walk(tensor) if isinstance(one, cst.Name)]
    made = [value for name in names for value in assigned_values(site.document, name)]
    if not all(value is not None and operation_of(site, value) for value in made):
        assumes[f"`{codes[0]}` can be computed whatever `{codes[1]}` is"] = None
    bare = guard if m.matches(guard, _CONDITION) else build_expression("bool({g})", g=guard)
    operator = "|" if condition.disjunction else "&"
    joined = build_expression(f"{{t}} {operator} {{g}}", t=tensor, g=bare)
    return Predicate(joined, condition.negated)


def _appended(branch: Sequence[cst.CSTNode]) -> dict[str, cst.BaseExpression]:
    """Return what a branch appends to lists that it does not make, by the name of the list."""
    found = {}
    for line in branch:
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.Expr(
                        cst.Call(
                            func=cst.Attribute(cst.Name(name), cst.Name("append")),
                            args=[cst.Arg(value=value)],
                        )
                    )
                ]
            ):
                found[name] = value
    return {name: value for name, value in found.items() if name not in names_bound(*branch)}


def _edits_of_use(
    site: Site, use: cst.Name, kept: str
) -> Iterator[tuple[cst.CSTNode, Replacement]]:
    """Yield the edit of what reads the list; none if it adds the elements up.

    Raises NotApplicable for other uses.
    """
    document = site.document
    parent = document.parent(use)
    call = document.parents.get(parent)
    if isinstance(parent, cst.If | cst.IfExp) and parent.test is use:
        yield use, build_expression(f"sum({kept}) > 0")
        return
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        yield parent, build_expression(f"sum({kept}) == 0")
        return
    if isinstance(parent, cst.Arg) and isinstance(call, cst.Call):
        if m.matches(call, _SUMS):
            return
        if _counts(call):
            yield call, build_expression(f"sum({kept})")
            return
        stack = site.callee_name(call)
        if stack == "torch.stack" and len(call.args) == 1:
            whole, summed = _reduction_of(site, call)
            if whole is not None:
                if not summed:
                    yield (
                        whole,
                        build_expression(
                            f"{{s}}.sum() / {document.code(call.func)}({kept}).sum()", s=call
                        ),
                    )
                return
    code = document.code(document.statement(use)).strip().partition("\n")[0]
    raise NotApplicable(f"`{code}` needs the elements that are appended, and data decide how many")


def _reduction_of(site: Site, stack: cst.Call) -> tuple[cst.Call | None, bool]:
    """Return the sum or mean of `torch.stack(…)`, and whether it is a sum.

    (None, False) if the stack is used in another way.
    """
    parent = site.document.parent(stack)
    outer = site.document.parents.get(parent)
    if not isinstance(outer, cst.Call):
        return None, False
    if isinstance(parent, cst.Attribute) and outer.func is parent and not outer.args:
        summed = m.matches(parent, _SUM_METHOD)
        return (outer, summed) if summed or m.matches(parent, _MEAN_METHOD) else (None, False)
    name = site.callee_name(outer)
    if isinstance(parent, cst.Arg) and len(outer.args) == 1 and name in ("torch.mean", "torch.sum"):
        return outer, name == "torch.sum"
    return None, False


def _counts(call: cst.Call) -> bool:
    return m.matches(call, m.Call(func=m.Name("len")))

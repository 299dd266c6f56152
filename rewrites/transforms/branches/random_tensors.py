"""Random tensors that one branch draws, drawn only where that branch is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, draws_random_numbers, walk
from fullgraph.rewrites.source import Replacement, build_expression, replace_nodes
from fullgraph.rewrites.transforms.branches.branches import find_branches
from fullgraph.rewrites.transforms.branches.predicate import Predicate
from fullgraph.rewrites.transforms.branches.use_where import order_branches

_ZEROS = {"randn": "zeros", "rand": "zeros", "randn_like": "zeros_like", "rand_like": "zeros_like"}
_INNER = cst.BaseCompoundStatement | cst.IfExp | cst.BooleanOperation | cst.Lambda | cst.BaseComp


def branch_draws(
    site: Site, node: cst.If | cst.IfExp, condition: Predicate
) -> dict[cst.Call, cst.BaseExpression]:
    """Return for each random call in the branches a `torch.cond` that replaces it.

    The `torch.cond` draws only if the branch of the call is taken. Raises NotApplicable if a call
    cannot be written that way.
    """
    if isinstance(node, cst.IfExp):
        both: tuple[Sequence[cst.CSTNode], ...] = ([node.body], [node.orelse])
    else:
        found = find_branches(site, node)
        both = (found.one, found.other)
    made: dict[cst.Call, cst.BaseExpression] = {}
    for when, branch in zip((True, False), order_branches(condition, *both), strict=True):
        for call in _drawing_calls(site, branch):
            if any(isinstance(one, _INNER) for one in _nodes_between(site, call, node)):
                raise NotApplicable(
                    f"`{site.document.code(call)}` is drawn in a part of a branch only"
                )
            made[call] = _conditional_draw(site, call, condition.tensor, when)
    return made


def replace_calls(
    edits: Mapping[cst.CSTNode, Replacement], calls: Mapping[cst.Call, cst.BaseExpression]
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the random calls replaced.

    `calls` are the calls with their replacements. Raises NotApplicable if a call does not occur
    exactly once in the edits.
    """
    counts = dict.fromkeys(calls, 0)

    def replace_in(tree: cst.CSTNode) -> cst.CSTNode:
        """Replace the random calls in a tree, and count them."""
        inside: dict[cst.CSTNode, Replacement] = {}
        for call in walk(tree):
            for old, new in calls.items():
                if old.deep_equals(call):
                    inside[call] = new
                    counts[old] += 1
        return replace_nodes(tree, inside) if inside else tree

    made: dict[cst.CSTNode, Replacement] = {}
    for node, new in edits.items():
        if isinstance(new, cst.FlattenSentinel):
            made[node] = cst.FlattenSentinel([replace_in(part) for part in new])
        else:
            made[node] = replace_in(new) if isinstance(new, cst.CSTNode) else new
    if any(count != 1 for count in counts.values()):
        raise NotApplicable("what is drawn would not be drawn exactly once")
    return made


def _drawing_calls(site: Site, branch: Sequence[cst.CSTNode]) -> Iterator[cst.Call]:
    """Yield the calls in a branch that draw random numbers."""
    for line in branch:
        yield from (
            one
            for one in walk(line)
            if isinstance(one, cst.Call) and draws_random_numbers(site, one)
        )


def _nodes_between(site: Site, call: cst.Call, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the ancestors of `call` inside `node`, innermost first."""
    for one in site.document.ancestors(call):
        if one is node:
            return
        yield one


def _conditional_draw(
    site: Site, call: cst.Call, condition: cst.BaseExpression, when: bool
) -> cst.BaseExpression:
    """Return a `torch.cond` that draws if the condition equals `when`, and else gives zeros.

    `torch.cond(t, lambda: torch.randn(3), lambda: torch.zeros(3))` for `call` = `torch.randn(3)`.
    Raises NotApplicable for calls other than `rand`, `randn` and their `_like` forms.
    """
    torch = site.document.torch
    last = site.document.qualified_name(call.func).removeprefix("torch.")
    keywords = {arg.keyword.value for arg in call.args if arg.keyword}
    if last not in _ZEROS or keywords & {"generator", "out"} or any(a.star for a in call.args):
        raise NotApplicable(f"`{site.document.code(call)}` cannot be drawn by itself")
    zeros = cst.parse_expression(f"{torch}.{_ZEROS[last]}")
    if not last.endswith("_like"):
        branches = [
            build_expression("lambda: {c}", c=one) for one in (call, call.with_changes(func=zeros))
        ]
        one, other = branches if when else branches[::-1]
        return build_expression(f"{torch}.cond({{t}}, {{a}}, {{b}})", t=condition, a=one, b=other)
    if len(call.args) != 1:
        raise NotApplicable(f"`{site.document.code(call)}` cannot be drawn by itself")
    one, other = (call.func, zeros) if when else (zeros, call.func)
    template = f"{torch}.cond({{t}}, {{a}}, {{b}}, ({{x}}.detach(),))"  # else its backward draws
    return build_expression(template, t=condition, a=one, b=other, x=call.args[0].value)

"""`size_average=` and `reduce=` of losses are deprecated since torch 0.4, and break the graph.

Before:

    loss = nn.MSELoss(size_average=False)(x, y)
    each = F.l1_loss(x, y, reduce=False)

After:

    loss = nn.MSELoss(reduction="sum")(x, y)
    each = F.l1_loss(x, y, reduction="none")

`reduce=False` is "none" whatever `size_average` is; else `size_average=False` is "sum" and
everything else is "mean".

Refuses: values that are not written as `True`, `False` or `None`, and arguments given by position.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule

_OLD = ("size_average", "reduce")
_LITERALS = {"True": True, "False": False, "None": None}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    calls = [one for one in _calls_in(site.statement) if _deprecated_arguments(one)]
    if not calls:
        return None
    replacements: dict[cst.CSTNode, cst.CSTNode] = {}
    for call in calls:
        given = {}
        for arg in _deprecated_arguments(call):
            if not isinstance(arg.value, cst.Name) or arg.value.value not in _LITERALS:
                return Refusal("whether it is averaged is decided at run time")
            assert arg.keyword is not None
            given[arg.keyword.value] = _LITERALS[arg.value.value]
        if given.get("reduce") is False:
            reduction = "none"
        else:
            reduction = "sum" if given.get("size_average") is False else "mean"
        replacements[call] = _with_reduction(call, reduction)
    return Rewrite(replacements, "`reduction=` says the same, and is traced.")


def _calls_in(statement: cst.CSTNode) -> list[cst.Call]:
    """Return all calls in a statement."""

    class Find(cst.CSTVisitor):
        """Visitor that collects calls."""

        def __init__(self) -> None:
            super().__init__()
            self.found: list[cst.Call] = []

        def visit_Call(self, node: cst.Call) -> None:
            self.found.append(node)

    find = Find()
    statement.visit(find)
    return find.found


def _deprecated_arguments(call: cst.Call) -> list[cst.Arg]:
    """Return the arguments `size_average=` and `reduce=` of a call."""
    return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _OLD]


def _with_reduction(call: cst.Call, reduction: str) -> cst.Call:
    """Return `call` with `reduction=` in place of the deprecated arguments."""
    first, *others = _deprecated_arguments(call)
    args = []
    for arg in call.args:
        if arg is first:
            value = cst.SimpleString(f'"{reduction}"')
            args.append(arg.with_changes(keyword=cst.Name("reduction"), value=value))
        elif arg not in others:
            args.append(arg)
    last = args[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=[*args[:-1], last])


RULE = Rule("FG604", "use-reduction", frozenset({Category.LEGACY_ARGUMENT.value}), rewrite)

"""`size_average=` and `reduce=` of losses are deprecated since torch 0.4, and break the graph.

Before:

    loss = nn.MSELoss(size_average=False)(x, y)
    each = F.l1_loss(x, y, reduce=False)

After:

    loss = nn.MSELoss(reduction="sum")(x, y)
    each = F.l1_loss(x, y, reduction="none")

`reduce=False` is "none" whatever `size_average` is; else `size_average=False` is "sum" and
everything else is "mean". Both overrule a `reduction=` that stands beside them, unless they are
None.

Refuses: values that are not written as `True`, `False` or `None`, and arguments given by position.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement

_OLD = ("size_average", "reduce")
_LITERALS = {"True": True, "False": False, "None": None}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    replacements: dict[cst.CSTNode, Replacement] = {}
    for call in (one for one in walk(site.statement) if isinstance(one, cst.Call)):
        given = {}
        for arg in _deprecated_arguments(call):
            if not isinstance(arg.value, cst.Name) or arg.value.value not in _LITERALS:
                return Refusal("whether it is averaged is decided at run time")
            assert arg.keyword is not None
            given[arg.keyword.value] = _LITERALS[arg.value.value]
        if set(given.values()) <= {None}:
            continue
        if given.get("reduce") is False:
            reduction = "none"
        else:
            reduction = "sum" if given.get("size_average") is False else "mean"
        replacements[call] = _with_reduction(call, reduction)
    if not replacements:
        return None
    return Rewrite(replacements, "`reduction=` says the same, and is traced.")


def _deprecated_arguments(call: cst.Call) -> list[cst.Arg]:
    """Return the arguments `size_average=` and `reduce=` of a call."""
    return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _OLD]


def _with_reduction(call: cst.Call, reduction: str) -> cst.Call:
    """Return `call` with `reduction=` in place of the deprecated arguments, which overrule it."""
    first = _deprecated_arguments(call)[0]
    args = []
    for arg in call.args:
        if arg is first:
            value = cst.SimpleString(f'"{reduction}"')
            args.append(arg.with_changes(keyword=cst.Name("reduction"), value=value))
        elif arg.keyword is None or arg.keyword.value not in (*_OLD, "reduction"):
            args.append(arg)
    last = args[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=[*args[:-1], last])


RULE = Rule("FG604", "use-reduction", frozenset({Category.LEGACY_ARGUMENT.value}), rewrite)

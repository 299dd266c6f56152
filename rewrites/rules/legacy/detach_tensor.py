"""Setting `requires_grad` on a tensor made in the same graph is not traced.

Before:

    mask = (x > 0).float()
    mask.requires_grad = False

After:

    mask = (x > 0).float()

The line goes where the tensor asks for no gradient, as here; else it becomes `t = t.detach()`.

Unsafe unless the line goes, because it raises for a result that asks for a gradient; and where the
tensor has another name (that of an argument, a place in a list), which keeps its flag.

Refuses: `requires_grad = True`, which makes a new leaf, and what is not a local name.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import (
    Site,
    assigned_values,
    has_no_gradient,
    is_new_tensor,
    removable_line,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression

_CONVERTS = frozenset(
    {"to", "type", "float", "double", "half", "bfloat16", "bool", "int", "long", "contiguous"}
)
"""Methods that return a new tensor or their own."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    match site.statement:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            target=cst.Attribute(value=tensor, attr=cst.Name("requires_grad"))
                        )
                    ],
                    value=value,
                ) as assign
            ]
        ):
            pass
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(value=tensor, attr=cst.Name("requires_grad_")),
                        args=[cst.Arg(value=value)],
                    )
                ) as assign
            ]
        ):
            pass
        case _:
            return None
    if not isinstance(value, cst.Name) or value.value != "False":
        return Refusal("it makes the tensor a new leaf for autograd")
    if not isinstance(tensor, cst.Name):
        return Refusal("the tensor is not a local name, and what else holds it would not see it")
    line, alone = removable_line(site.document, assign), _has_one_name(site, tensor)
    if line is not None and alone and has_no_gradient(site, tensor):
        why = "The tensor requires no gradient, so the line changes nothing."
        return Rewrite({line: cst.RemoveFromParent()}, why)
    detached = build_expression("{tensor}.detach()", tensor=tensor)
    new = cst.Assign([cst.AssignTarget(tensor)], detached)
    assumes = [
        f"`{tensor.value}` asks for no gradient before: for a result that does, torch raises"
    ]
    if not alone:
        assumes.append("nobody needs the flag on another name of the tensor, or on the argument")
    return Rewrite(
        {assign: new},
        "`.detach()` gives the same tensor without a gradient, inside the graph.",
        Applicability.UNSAFE,
        tuple(assumes),
    )


def _has_one_name(site: Site, tensor: cst.Name) -> bool:
    """Return whether a tensor is new, and nothing else has got hold of it before the site."""
    document, function = site.document, site.document.function(tensor)
    values = assigned_values(document, tensor)
    if function is None or not values or not all(one and _is_fresh(site, one) for one in values):
        return False
    line = document.position(tensor).line
    names = (one for one in walk(function.body) if m.matches(one, m.Name(tensor.value)))
    reads = (one for one in names if not isinstance(document.parent(one), cst.AssignTarget))
    return all(document.position(one).line >= line for one in reads)


def _is_fresh(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression makes a new tensor, or converts one."""
    match node:
        case cst.Call(cst.Attribute(value=inner, attr=cst.Name(name))) if name in _CONVERTS:
            return _is_fresh(site, inner)
    return is_new_tensor(site, node)


RULE = Rule("FG602", "detach-tensor", frozenset({Category.REQUIRES_GRAD.value}), rewrite)

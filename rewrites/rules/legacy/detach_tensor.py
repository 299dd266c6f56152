"""Setting `requires_grad` on a tensor made in the same graph is not traced.

Before:

    mask = (x > 0).float()
    mask.requires_grad = False

After:

    mask = (x > 0).float()

The line goes where the tensor asks for no gradient, as here; else it becomes `t = t.detach()`.

Unsafe where the tensor may have other names, which would keep asking for a gradient, and where it
is not known whether it asks for one at all.

Refuses: `requires_grad = True`, which makes a new leaf, and what is not a local name.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, has_no_gradient, parameter_names, removable_line
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression


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
    line = removable_line(site.document, assign)
    if line is not None and has_no_gradient(site, tensor):
        why = "The tensor requires no gradient, so the line changes nothing."
        return Rewrite({line: cst.RemoveFromParent()}, why)
    detached = build_expression("{tensor}.detach()", tensor=tensor)
    new = cst.Assign([cst.AssignTarget(tensor)], detached)
    seen = site.observed(tensor)
    assumes = []
    if seen is None or seen.requires_grad:
        assumes.append("the tensor asks for no gradient before")
    function = site.document.function(site.node)
    if function is None or tensor.value in parameter_names(function):
        assumes.append("the caller does not need the flag on its own tensor")
    return Rewrite(
        {assign: new},
        "`.detach()` gives the same tensor without a gradient, inside the graph.",
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        tuple(assumes),
    )


RULE = Rule("FG602", "detach-tensor", frozenset({Category.REQUIRES_GRAD.value}), rewrite)

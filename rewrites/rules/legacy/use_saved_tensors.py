"""`ctx.saved_variables` is deprecated, and reading it in a compiled backward raises.

Before:

    x, = ctx.saved_variables

After:

    x, = ctx.saved_tensors

Both are the same tuple. The DeprecationWarning goes.

Refuses: nothing; an attribute of that name on something else than the first argument of a
`backward` is not this rule's business.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule


def rewrite(site: Site) -> Rewrite | Refusal | None:
    function = site.document.function(site.node)
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return None
    context = function.params.params[0].name.value
    old = m.Attribute(value=m.Name(context), attr=m.Name("saved_variables"))
    found = m.findall(function.body, old)
    if not found:
        return None
    return Rewrite(
        {one: cst.Attribute(cst.Name(context), cst.Name("saved_tensors")) for one in found},
        "`saved_tensors` is the same tuple.",
    )


RULE = Rule(
    "FG603",
    "use-saved-tensors",
    frozenset(
        {
            Category.SAVED_VARIABLES.value,
            Category.AUTOGRAD_FUNCTION.value,
            Category.EXCEPTION.value,
        }
    ),
    rewrite,
)

"""`ctx.saved_variables` is deprecated, and reading it in a compiled backward raises.

Before:

    x, = ctx.saved_variables

After:

    x, = ctx.saved_tensors

Both are the same tuple. The DeprecationWarning goes.

Assumes that what is saved is not overwritten before the backward pass, unless no function in the
file that applies the operator changes anything in place: there eager code raises, and compiled code
gives another gradient.

Refuses: nothing; an attribute of that name on something else than the first argument of a
`backward` is not this rule's business.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, find_all, names_mutated
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule

_KEPT = "what is saved is not overwritten before the backward pass: compiled, that raises no error"


def rewrite(site: Site) -> Rewrite | Refusal | None:
    function = site.document.function(site.node)
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return None
    context = function.params.params[0].name.value
    old = m.Attribute(value=m.Name(context), attr=m.Name("saved_variables"))
    found = find_all(function.body, old)
    if not found:
        return None
    return Rewrite(
        {one: cst.Attribute(cst.Name(context), cst.Name("saved_tensors")) for one in found},
        "`saved_tensors` is the same tuple.",
        assumes=(_KEPT,) if _may_be_overwritten(site) else (),
    )


def _may_be_overwritten(site: Site) -> bool:
    """Return whether a function that applies the operator, or one elsewhere, may write in place."""
    document = site.document
    operator = next(
        (one for one in document.ancestors(site.node) if isinstance(one, cst.ClassDef)), None
    )
    if operator is None:
        return True
    apply = m.Call(m.Attribute(m.Name(operator.name.value), m.Name("apply")))
    callers = [document.function(call) for call in find_all(document.module, apply)]
    return not callers or any(caller is None or names_mutated(caller) for caller in callers)


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

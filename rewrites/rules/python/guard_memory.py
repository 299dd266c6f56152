"""A question about a tensor's memory is for eager alone: a graph has no addresses.

Before:

    if x.data_ptr() % 16:
        x = x.clone()

After:

    if not torch.compiler.is_compiling() and x.data_ptr() % 16:
        x = x.clone()

Where the answer was true each time that eager asked, compiled code takes that branch:
`torch.compiler.is_compiling() or x.data_ptr() % 16 == 0`.

Always unsafe: compiled code does not ask. Inductor allocates and aligns the memory of a graph
itself, and copies inputs that are not aligned.

Refuses: answers that are used outside of a condition.
"""

from __future__ import annotations

import re

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, find_all
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.operands import find_operand
from fullgraph.rewrites.transforms.eager_only import decide_compiled

_MEMORY = re.compile(r"(data_ptr|storage|untyped_storage|is_set_to|_is_view|is_alias_of|nbytes)$")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_operand(site)
    asked = site.node if found is None else found.operand
    if not any(_reads_memory(one) for one in find_all(asked, m.Call(func=m.Attribute()))):
        return None
    if found is None:
        return Refusal("what memory a tensor has decides more than a branch")
    seen = site.observed(found.operand)
    answers = {bool(value) for value in seen.values} if seen is not None else set()
    true = answers == {True} or (not answers and isinstance(found.branch, cst.Assert))
    document = site.document
    code = document.code(found.operand)
    return Rewrite(
        decide_compiled(document, found.operand, found.path, true),
        f"Compiled code takes it that `{code}` is {'true' if true else 'false'}.",
        Applicability.UNSAFE,
        (f"`{code}` decides nothing that the compiled result depends on",),
        imports=("torch",),
    )


def _reads_memory(call: cst.CSTNode) -> bool:
    func = call.func if isinstance(call, cst.Call) else None
    return isinstance(func, cst.Attribute) and bool(_MEMORY.match(func.attr.value))


_CATEGORIES = {
    Category.INTROSPECTION, Category.NON_TENSOR, Category.CALL, Category.OTHER, Category.BRANCH,
    Category.OPERATOR_ERROR, Category.C_EXTENSION, Category.GUARD, Category.SKIPPED,
    Category.BUILTIN,
}  # fmt: skip
RULE = Rule("FG815", "guard-memory", frozenset(c.value for c in _CATEGORIES), rewrite)

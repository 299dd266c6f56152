"""Where no edit of the source is right, a setting of the compiler may be.

Before:

    y = rnn(x)[0]
    z = x[mask]

After:

    torch._dynamo.config.allow_rnn = True
    torch._dynamo.config.capture_dynamic_output_shape_ops = True

`fix` tries each setting on the program as it is: whether the cause goes away, and whether the
results stay. These are ideas all the same, because a setting holds for the whole process and has
its traps, which the suggestion names. Other ideas of this rule: a `torch.library.custom_op` with a
fake kernel, and `@torch.compiler.disable` on the smallest function around a call.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

import ast

from fullgraph.diagnose.taxonomy import SWITCHES, Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule
from fullgraph.rewrites.transforms.ideas import idea_for

_IDEAS = frozenset(
    {
        Category.C_EXTENSION,
        Category.FAKE,
        Category.SPARSE,
        Category.RECOMPILE_LIMIT,
        Category.SKIPPED,
        Category.OPAQUE,
        Category.CALL,
    }
)
"""Categories without a setting, for which the rule offers an idea."""


def rewrite(site: Site) -> Rewrite | None:
    category = Category(site.category)
    for fix in SWITCHES.get(category, ()):
        text = fix.advice.text.partition("`")[2].partition("`")[0]
        name, _, value = text.partition(" = ")
        if name and value[:1] != "{":
            why = f"set `{text}`, for the whole process. Caveat: {fix.advice.trap.rstrip('.')}"
            settings = {name: ast.literal_eval(value)}
            return Rewrite({}, why, Applicability.DISPLAY, settings=settings)
    return idea_for(site) if category in _IDEAS else None


RULE = Rule(
    "FG901",
    "set-config",
    frozenset(category.value for category in (*SWITCHES, *_IDEAS)),
    rewrite,
)

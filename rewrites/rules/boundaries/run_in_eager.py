"""A helper with several causes leaves the graph as a whole, by one break.

Where nothing else helps, `torch.compiler.disable` makes one break of all that lie in a helper. It
runs in eager, and what is around it is compiled in fewer, larger graphs.

Before:

    def _match(self, cost):
        rows = cost.argmin(1).tolist()
        return torch.tensor(sorted(set(rows))), cost.min().item()

After:

    @torch.compiler.disable
    def _match(self, cost):
        rows = cost.argmin(1).tolist()
        return torch.tensor(sorted(set(rows))), cost.min().item()

Always unsafe: one break stays at each call, so `fullgraph=True` goes on failing, and nothing in the
helper is compiled.

Refuses: helpers that hold one cause only, those that return before the first cause under a
condition that needs no tensor (`if p == 0: return x`), code in `forward` itself, nested functions,
generators, functions that look at the frames around them (`inspect.stack()`) or have decorators
other than `staticmethod`, `torch.no_grad` and `torch.inference_mode`, and in a file that uses
`torch.jit` functions that read other names of the file: `torch.jit.script` does not find these
through the decorator.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.boundaries import decorate, find_early_exit, find_helper

_NOT = frozenset(
    {
        Category.PRINT,
        Category.WARNING,
        Category.DISABLED,
        Category.EXPLICIT,
        Category.BACKEND,
        Category.RECOMPILE_LIMIT,
    }
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    helper = find_helper(site)
    if not isinstance(helper, cst.FunctionDef):
        return helper
    name, span = helper.name.value, site.document.position(helper)
    inside = [one for one in site.causes if one.file == span.file and one.line in span.lines]
    if len(inside) < 2:
        return Refusal(f"it is the only cause in `{name}`, and a boundary breaks the graph as well")
    first = min(inside, key=lambda place: place.line)
    if (early := find_early_exit(site, helper, first)) is not None:
        return Refusal(
            f"`{name}` leaves early under `{site.document.code(early)}` without a break, and as a "
            "boundary it would always break: move what follows to a function of its own, and "
            "disable that",
            advises=True,
        )
    try:
        edits, assumes = decorate(site, helper, "torch.compiler.disable")
    except NotApplicable as escape:
        return Refusal(str(escape))
    return Rewrite(
        edits,
        f"`{name}` runs in eager: one break at its call instead of {len(inside)} causes inside it.",
        Applicability.UNSAFE,
        (
            f"one break for each call of `{name}`, and its running in eager, cost less than these",
            *assumes,
        ),
        imports=("torch",),
    )


RULE = Rule(
    "FG905",
    "run-in-eager",
    frozenset(category.value for category in Category if category not in _NOT),
    rewrite,
    boundary=3,
)

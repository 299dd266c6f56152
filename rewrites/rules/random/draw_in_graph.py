"""A branch on `random.randrange` or `randint`, which are traced, chooses with a tensor.

Before:

    keep = random.randrange(1, self.levels)
    if level > keep:
        y = y + noise

After:

    keep = torch.full((), random.randrange(1, self.levels), dtype=torch.int64)
    y = torch.where(level > keep, y + noise, y)

or `torch.cond`, where a branch may not be computed without need. The number comes from the same
stream and is drawn exactly when it was.

Unsafe where `torch.where` is (see FG301).

Refuses: numbers that are used as sizes, indices, keys or text; branches that leave a loop;
functions in which other random numbers of Python are drawn, because traced ones are drawn before
the graph runs (FG702 draws the others by an operator).
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources
from fullgraph.rewrites.transforms.random import draw_of, find_random_calls

_DECIDES = "The random number is a tensor that chooses, so the graph goes on."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    draw = next((one for call in find_scalar_sources(site) if (one := draw_of(site, call))), None)
    if draw is None or not draw.stays_traced:
        return None
    if _draws_untraced(site):
        return Refusal("numbers that are not traced are drawn in the same function")
    torch = site.document.torch
    tensor = build_expression(
        "{torch}.full((), {number}, dtype={torch}.{dtype})",
        torch=torch,
        number=draw.call,
        dtype=draw.dtype,
    )
    numbers = Numbers(site, {draw.call: tensor})
    try:
        numbers.follow(draw.call, draw.dtype)
        edits = numbers.edits() if numbers.decisions else {}
    except NotApplicable as escape:
        return Refusal(str(escape))
    if not edits:
        return None
    return rewrite_assuming(
        site.document,
        edits,
        _DECIDES,
        numbers.assumes,
        numbers.tests,
        numbers=False,
        has_shortcut=numbers.has_shortcut,
    )


def _draws_untraced(site: Site) -> bool:
    """Return whether the site's function has a call of the module `random` that cannot stay.

    Such a call draws a float, or Dynamo does not trace it. `random.randint(0, 9)` can stay.
    """
    calls = find_random_calls(site, site.document.function(site.node))
    draw = [draw_of(site, call) for call in calls if site.callee_name(call).startswith("random.")]
    return any(one is None or not one.stays_traced for one in draw)


RULE = Rule(
    "FG701",
    "draw-in-graph",
    frozenset({Category.RANDOM.value, Category.BRANCH.value}),
    rewrite,
)

"""`random.random()` always breaks the graph; `random.uniform` is traced, its value an unknown.

`random.uniform(0.0, 1.0)` draws exactly what `random.random()` draws, from the same stream. Where
a branch hangs on the number, it becomes a tensor that chooses between both ways, with
`torch.where`, or with `torch.cond` where a way may not be computed without need.

Before:

    x = x * random.random()
    if self.training and random.random() < self.p:
        y = y + noise

After:

    x = x * random.uniform(0.0, 1.0)
    if self.training:
        y = torch.where(
            torch.full((), random.uniform(0.0, 1.0), dtype=torch.float64) < self.p, y + noise, y
        )

It fixes what `random.random`, `uniform`, `randint` and `randrange` decide, drawn in the test or
before it; the number is drawn exactly when it was.

Unsafe where `torch.where` is (see FG301). Inductor of torch 2.13 computes garbage from a traced
`random.uniform`, whose float64 it reads as float32; the proof under Inductor rejects the edit then,
and `explain` does not offer it.

Refuses: numbers that are used as sizes, indices, keys or text; ways that leave a loop; functions in
which other random numbers of Python are drawn, because traced ones are drawn before the graph runs
(FG702 draws them all in their turn).
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.branches.predicate import find_conditional
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources
from fullgraph.rewrites.transforms.random import (
    RandomDraw,
    draw_of,
    find_random_calls,
    import_uniform,
)

_DRAWS = "`uniform` draws the same number from the same stream, and is traced."
_DECIDES = "The random number is a tensor that chooses, so the graph goes on."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    draw = next((one for call in find_scalar_sources(site) if (one := draw_of(site, call))), None)
    if draw is None or draw.traced is None:
        return None
    if _draws_untraced(site):
        return Refusal("numbers that are not traced are drawn in the same function")
    torch = site.document.imported_name("torch") or "torch"
    tensor = build_expression(
        "{torch}.full((), {number}, dtype={torch}.{dtype})",
        torch=torch,
        number=draw.traced,
        dtype=draw.dtype,
    )
    numbers = Numbers(site, {draw.call: tensor})
    try:
        numbers.follow(draw.call, draw.dtype)
        if not numbers.decisions:
            return _replace_call(site, draw)
        edits = numbers.edits()
    except NotApplicable as escape:
        plain = _replace_call(site, draw) if find_conditional(site) is None else None
        return plain or Refusal(str(escape))
    return Rewrite(
        edits | import_uniform(site),
        _DECIDES,
        Applicability.UNSAFE if numbers.assumes else Applicability.SAFE,
        tuple(numbers.assumes),
        ("torch",),
        tuple(numbers.tests),
    )


def _replace_call(site: Site, draw: RandomDraw) -> Rewrite | None:
    """Return the rewrite to a random call that Dynamo traces; None if there is none."""
    if draw.traced is draw.call or draw.traced is None:
        return None
    return Rewrite({draw.call: draw.traced, **import_uniform(site)}, _DRAWS)


def _draws_untraced(site: Site) -> bool:
    """Whether the function draws from Python's stream by calls that are not traced."""
    calls = find_random_calls(site, site.document.function(site.node))
    draw = [draw_of(site, call) for call in calls if site.callee_name(call).startswith("random.")]
    return any(one is None or one.traced is None for one in draw)


RULE = Rule(
    "FG701",
    "draw-in-graph",
    frozenset({Category.RANDOM.value, Category.BRANCH.value}),
    rewrite,
)

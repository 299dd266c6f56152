"""Numbers of `np.random`, `random.gauss` and others are drawn by an operator, from the same stream.

TorchDynamo traces four of Python's generators (FG701); of NumPy's, it breaks or draws from another
stream. An operator (`torch.library.custom_op`) draws when its turn comes, as eager code does.

Before:

    lam = np.random.beta(self.alpha, self.alpha)
    mixed = lam * x + (1 - lam) * x[order]

After:

    lam = _draw_forward(self.alpha, self.alpha)
    mixed = lam * x + (1 - lam) * x[order]

with

    @drawing_op(torch.float64)
    def _draw_forward(alpha: float) -> torch.Tensor:
        return torch.tensor(np.random.beta(alpha, alpha), dtype=torch.float64)

and a decorator `drawing_op` that registers it. The number is a tensor without dimensions; branches
on it become `torch.where` or `torch.cond`, as in FG301 and FG302.

Unsafe where `torch.where` is (see FG301).

Refuses: numbers that are used as sizes, indices, keys or text, or next to integer tensors, where a
tensor would change the dtype; functions that draw traced numbers too, because these would be drawn
first; arguments that are no numbers.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources
from fullgraph.rewrites.transforms.random import (
    add_definitions,
    define_draw_operator,
    draw_of,
    find_random_calls,
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    draw = next((one for call in find_scalar_sources(site) if (one := draw_of(site, call))), None)
    if draw is None:
        return None
    calls = find_random_calls(site, site.document.function(site.node))
    found = [one for call in calls if (one := draw_of(site, call)) and one.stream == draw.stream]
    if all(one.traced is not None for one in found):
        return None
    if any(one.traced is one.call for one in found):
        return Refusal("numbers that are traced, and so drawn first, come from the same stream")
    try:
        tensor, definitions = define_draw_operator(site, draw)
        numbers = Numbers(site, {draw.call: tensor})
        numbers.follow(draw.call, draw.dtype)
        edits = add_definitions(site.document, numbers.edits(), definitions)
    except NotApplicable as escape:
        return Refusal(str(escape))
    return Rewrite(
        edits,
        "An operator draws the same number in its turn, and the graph goes on.",
        Applicability.UNSAFE if numbers.assumes else Applicability.SAFE,
        tuple(numbers.assumes),
        ("torch",),
        tuple(numbers.tests),
    )


RULE = Rule(
    "FG702",
    "draw-in-operator",
    frozenset({Category.RANDOM.value, Category.BRANCH.value, Category.NUMPY.value}),
    rewrite,
)

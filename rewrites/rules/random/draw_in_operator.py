"""Numbers of `random`, `np.random` and others are drawn by an operator, from the same stream.

TorchDynamo breaks at `random.random()` and at most generators of NumPy; Inductor of torch 2.13
reads a traced `random.uniform` as garbage. An operator (`torch.library.custom_op`) draws when its
turn comes, as eager code does.

Before:

    lam = np.random.beta(self.alpha, self.alpha)
    mixed = lam * x + (1 - lam) * x[order]

After:

    lam = _draw_lam(self.alpha)
    mixed = lam * x + (1 - lam) * x[order]

with

    @torch.library.custom_op("model::draw_lam", mutates_args=())
    def _draw_lam(alpha: float) -> torch.Tensor:
        return torch.tensor(np.random.beta(alpha, alpha), dtype=torch.float64)


    _draw_lam.register_fake(lambda *args: torch.empty((), dtype=torch.float64))
    if hasattr(_draw_lam, "register_effect"):  # torch 2.10
        _draw_lam.register_effect(torch.library.EffectType.ORDERED)

The number is a tensor without dimensions; branches on it become `torch.where` or `torch.cond`, as
in FG301 and FG302.

The tensor is of float32 where the number meets a tensor of float32 without dimensions, such as a
loss, which a number of float64 would promote.

Unsafe where `torch.where` is (see FG301), where the number is of float32, and where it meets an
argument that may be of an integer dtype: a Python float makes it one of the default dtype, and the
operator's number float64.

Refuses: numbers that are used as sizes, indices, keys or text, or next to integer tensors, where a
tensor would change the dtype; functions that also draw by `random.randint` and `randrange`, which
are traced and would be drawn first (see FG701); arguments that are no numbers.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site, infer
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.branches.agreement import rewrite_assuming
from fullgraph.rewrites.transforms.branches.scalars import Numbers, find_scalar_sources
from fullgraph.rewrites.transforms.random import (
    RandomDraw,
    add_definitions,
    define_draw_operator,
    draw_of,
    find_random_calls,
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    draw = next((one for call in find_scalar_sources(site) if (one := draw_of(site, call))), None)
    if draw is None or draw.stays_traced:
        return None
    calls = find_random_calls(site, site.document.function(site.node))
    found = [one for call in calls if (one := draw_of(site, call)) and one.stream == draw.stream]
    if any(one.traced and one.call is not draw.call for one in found):
        return Refusal("numbers that are traced, and so drawn first, come from the same stream")
    try:
        numbers = _follow(site, draw)
        tensor, definitions = define_draw_operator(site, draw, numbers.dtype)
        numbers.tensors = {draw.call: tensor}
        edits = add_definitions(site.document, numbers.edits(), definitions)
    except NotApplicable as escape:
        return Refusal(str(escape))
    return rewrite_assuming(
        site.document,
        edits,
        "An operator draws the same number in its turn, and the graph goes on.",
        numbers.assumes,
        numbers.tests,
        numbers=False,
        has_shortcut=numbers.has_shortcut,
    )


def _follow(site: Site, draw: RandomDraw) -> Numbers:
    """Return the uses of a drawn number, as a tensor of the dtype that keeps those of the results.

    float32 where it meets a tensor without dimensions, which float64 would promote. Raises
    NotApplicable.
    """
    numbers = Numbers(site, {})
    numbers.follow(draw.call, draw.dtype)
    seen = [infer(site, one) for one in numbers.operands]
    is_float32 = all(one is not None and one.dtypes == {"float32"} for one in seen)
    if numbers.decisions or not numbers.zero_dim_operands or not is_float32:
        return numbers
    narrow = Numbers(site, {})
    narrow.follow(draw.call, "float32")
    code = dict.fromkeys(f"`{site.document.code(one)}`" for one in narrow.operands)
    narrow.assumes[f"{', '.join(code)}: of float32 on all inputs, as the number is"] = None
    return narrow


RULE = Rule(
    "FG702",
    "draw-in-operator",
    frozenset({Category.RANDOM.value, Category.BRANCH.value, Category.NUMPY.value}),
    rewrite,
)

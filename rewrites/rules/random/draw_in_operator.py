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
in FG301 and FG302. An index gets a dimension, and slices become positions or masks, as in FG201; a
draw with the number as an argument is an operator, too:

    t = random.randint(1, 10)
    start = random.randint(0, x.shape[1] - t)
    x[:, start : start + t] = 0

becomes

    t = _draw_t()
    start = _draw_start(x.shape[1], t)
    positions = torch.arange(x.shape[1], device=x.device)
    inside = (positions >= start) & (positions < start + t)
    x.masked_fill_(inside, 0)

The tensor is of float32 where the number meets a tensor of float32 without dimensions, such as a
loss, which a number of float64 would promote.

Unsafe where `torch.where` is (see FG301), where the number is of float32, and where it meets an
argument that may be of an integer dtype: a Python float makes it one of the default dtype, and the
operator's number float64. Also where a slice might be cut short, or have a negative bound.

Refuses: numbers that are used as sizes, keys or text, or next to integer tensors, where a
tensor would change the dtype; functions that also draw by `random.randint` and `randrange`, which
are traced and would be drawn first (see FG701); arguments that are no numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import torch

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
from fullgraph.rewrites.transforms.scalars.positions import name_positions
from fullgraph.rewrites.transforms.scalars.scalar import Number
from fullgraph.rewrites.transforms.scalars.uses import Uses


def rewrite(site: Site) -> Rewrite | Refusal | None:
    draw = next((one for call in find_scalar_sources(site) if (one := draw_of(site, call))), None)
    if draw is None:
        return None
    reason = None
    for attempt in (_select,) if draw.stays_traced else (_decide, _select):
        try:
            return attempt(site, draw)
        except NotApplicable as escape:
            reason = reason or escape
    return None if draw.stays_traced else Refusal(str(reason))


def _decide(site: Site, draw: RandomDraw) -> Rewrite:
    """Return the rewrite by which a number that decides, or is computed with, is a tensor.

    Raises NotApplicable.
    """
    _check_order(site, [draw])
    numbers = _follow(site, draw)
    tensor, definitions = define_draw_operator(site, draw, numbers.dtype)
    numbers.tensors = {draw.value: tensor}
    edits = add_definitions(site.document, numbers.edits(), definitions)
    return rewrite_assuming(
        site.document,
        edits,
        _WHY,
        numbers.assumes,
        numbers.tests,
        numbers=False,
        has_shortcut=numbers.has_shortcut,
    )


def _select(site: Site, draw: RandomDraw) -> Rewrite:
    """Return the rewrite by which a number that is an index, or a bound of a slice, is a tensor.

    Draws with that number as an argument are operators, too. Raises NotApplicable.
    """
    uses, draws = Uses(site), [draw]
    definitions: list[cst.BaseStatement] = []
    for one in draws:
        kind = float if one.dtype == "float64" else int
        tensor, new = define_draw_operator(site, one, one.dtype, uses.tensors)
        definitions += new
        uses.write(one.value, tensor)
        uses.propagate(one.value, Number(kind, getattr(torch, one.dtype)))
        draws += [more for more in uses.draws if more not in draws]
    _check_order(site, draws)
    if not uses.selects or uses.decides:
        raise NotApplicable("the number is no index and no bound of a slice")
    return Rewrite(
        add_definitions(site.document, name_positions(uses), definitions),
        _WHY,
        assumes=tuple(uses.assumes),
        imports=tuple(dict.fromkeys(uses.imports)),
    )


def _check_order(site: Site, draws: Sequence[RandomDraw]) -> None:
    """Raise NotApplicable if Dynamo would draw another number of the same stream first."""
    calls, streams = [one.call for one in draws], {one.stream for one in draws}
    for call in find_random_calls(site, site.document.function(site.node)):
        other = draw_of(site, call)
        if other and other.stream in streams and other.traced and call not in calls:
            raise NotApplicable(
                "numbers that are traced, and so drawn first, come from the same stream"
            )


def _follow(site: Site, draw: RandomDraw) -> Numbers:
    """Return the uses of a drawn number, as a tensor of the dtype that keeps those of the results.

    float32 where it meets a tensor without dimensions, which float64 would promote. Raises
    NotApplicable.
    """
    numbers = Numbers(site, {})
    numbers.follow(draw.value, draw.dtype)
    seen = [infer(site, one) for one in numbers.operands]
    is_float32 = all(one is not None and one.dtypes == {"float32"} for one in seen)
    if numbers.decisions or not numbers.zero_dim_operands or not is_float32:
        return numbers
    narrow = Numbers(site, {})
    narrow.follow(draw.value, "float32")
    code = dict.fromkeys(f"`{site.document.code(one)}`" for one in narrow.operands)
    narrow.assumes[f"{', '.join(code)}: of float32 on all inputs, as the number is"] = None
    return narrow


_CATEGORIES = frozenset(
    one.value
    for one in (
        Category.RANDOM,
        Category.BRANCH,
        Category.NUMPY,
        Category.BUILTIN,
        Category.SYMBOLIC_SHAPE,
    )
)
_WHY = "An operator draws the same number in its turn, and the graph goes on."

RULE = Rule(
    "FG702",
    "draw-in-operator",
    _CATEGORIES,
    rewrite,
)

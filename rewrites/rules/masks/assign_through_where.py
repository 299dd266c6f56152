"""`x[m] = f(x[m])` reads as many elements as the mask selects, only to put them back.

TorchDynamo cannot give the `x[m]` on the right a shape in its default mode and breaks the graph
there. `torch.where` chooses for each element instead.

Before:

    x[x > 0.5] = torch.sqrt(x[x > 0.5]) * 2
    y[m] += bias[m]

After:

    mask = x > 0.5
    x = torch.where(mask, torch.sqrt(torch.where(mask, x, 1)) * 2, x)
    y += torch.where(m, bias, 0)

A new tensor that is only filled needs no line of its own: `z = torch.zeros_like(x)`, `z[m] = x[m]`
and `z[~m] = f(x[~m])` become `z = torch.where(m, x, f(torch.where(~m, x, 0)))`. Likewise a clone:
`z = x.clone()` and `z[m] = f(z[m])` become `z = torch.where(m, f(torch.where(m, x, 0)), x)`.

The inner `where` keeps a function away from elements at which it, or its gradient, would be inf or
NaN. The original changes the tensor that `x` is, for all who hold it: the name gets a new tensor
only where it was made in this function and given to nobody; else it is `x.copy_(…)`.

A mask on the CPU may index a CUDA tensor, and `torch.where` takes none: `torch.rand(n) < p` becomes
`(torch.rand(n) < p).to(x.device)`.

Where a layer multiplies the selected rows, as `y[m] = self.fc(x[m])`, the new line stands under
`if torch.compiler.is_compiling()` and the old one under `else`: eager code costs what it did.

Unsafe where shapes are not known, and where a function makes floats of integers (`sqrt`) and the
tensor may hold these: the original refuses them.

Refuses: other masks on both sides, selected elements that are needed elsewhere too, functions that
are not elementwise, and random numbers for the selected elements. `x[m] = 0` alone is no break.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.transforms.masks.filled_stores import fill_through_where
from fullgraph.rewrites.transforms.masks.flow import find_flow
from fullgraph.rewrites.transforms.masks.rewriting import find_sinks, rewrite_flow
from fullgraph.rewrites.transforms.masks.sinks import StoreSink

_WHY = "`torch.where` chooses for each element, at a fixed shape."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = find_flow(site)
    if found is None:
        return None
    if isinstance(found, NotApplicable):
        own = site.category == Category.MASKED_ASSIGNMENT.value
        return Refusal(str(found)) if own else None
    if not any(isinstance(end, StoreSink) for end in find_sinks(found)):
        return None
    return fill_through_where(found, _WHY) or rewrite_flow(found, _WHY)


RULE = Rule(
    "FG403",
    "assign-through-where",
    frozenset({Category.MASK.value, Category.MASKED_ASSIGNMENT.value}),
    rewrite,
)

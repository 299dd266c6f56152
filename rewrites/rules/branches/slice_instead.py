"""An index that the length of a selection chooses is a branch: the last one of a slice is none.

How many rows `x.nonzero()` finds is known only at run time, so TorchDynamo cannot decide the
branch: under `fullgraph=True` that is an error.

Before:

    indices = (schedule == timestep).nonzero()
    pos = 1 if len(indices) > 1 else 0
    return indices[pos].item()

After:

    indices = (schedule == timestep).nonzero()
    return indices[:2][-1].item()

The slice ends where the tensor does, so its last element is the second one or, if there is only
one, the first. Of none both are an IndexError. `x[2] if len(x) > 2 else x[-1]` becomes `x[:3][-1]`
in the same way, and `x[2] if len(x) > 2 else x[1]` becomes `x[1:3][-1]`. The length may also be
`x.shape[0]`, `x.size(0)` or the `x.numel()` of one dimension, and the choice an `if` with an
`else`.

In its default mode TorchDynamo still breaks the graph where the selection is made.

Unsafe where it is an argument that nothing calls a tensor: a deque has no slices.

Refuses nothing: positions that are used otherwise, too, are left to other rules.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Rewrite, Rule
from fullgraph.rewrites.transforms.branches.predicate import find_conditional
from fullgraph.rewrites.transforms.length_choice import Conditional, find_length_choice

_WHY = "The last element of a slice is the same one, and no branch depends on the length."


def rewrite(site: Site) -> Rewrite | None:
    node = find_conditional(site)
    found = find_length_choice(site, node) if isinstance(node, Conditional) else None
    if found is None:
        return None
    edits, assumes = found
    return Rewrite(edits, _WHY, assumes=assumes)


RULE = Rule("FG308", "slice-instead", frozenset({Category.GUARD.value}), rewrite)

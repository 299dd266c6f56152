"""NumPy functions without a traced twin need another form of the computation.

Before:

    scale = np.vectorize(curve)(x.numpy())
    table = np.interp(grid, xs, ys)

After:

    scale = curve(x)
    self.register_buffer("table", torch.from_numpy(np.interp(grid, xs, ys)))

What does not depend on the inputs is computed once, in `__init__`, and kept as a buffer; a function
of single elements is written for whole tensors. These are ideas: which one is right, a person must
say. Mind that NumPy computes in float64 where torch computes in float32.

Refuses: nothing; it never edits.
"""

from __future__ import annotations

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Rewrite, Rule
from fullgraph.rewrites.transforms.ideas import idea_for


def rewrite(site: Site) -> Rewrite | None:
    return idea_for(site)


RULE = Rule(
    "FG239",
    "replace-numpy",
    frozenset({Category.NUMPY.value, Category.NUMPY_LOOP.value}),
    rewrite,
)

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
from fullgraph.rewrites.analysis import Site, walk
from fullgraph.rewrites.rule import Applicability, Rewrite, Rule

_IDEAS = {
    "vectorize": "call the function with the whole tensor: torch's operations are vectorized",
    "apply_along_axis": "call the function with the whole tensor and `dim=`, or use `torch.vmap`",
    "apply_over_axes": "call torch's function with `dim=` once for each dimension",
    "frompyfunc": "write the function with torch's operations, on the whole tensor",
    "isscalar": "ask `isinstance(x, (int, float))`, or `x.ndim == 0` of a tensor",
    "interp": "use `torch.searchsorted` and `torch.lerp`, or compute the table in `__init__`",
    "digitize": "use `torch.bucketize(x, bins, right=True)`",
    "isin": "use `torch.isin`",
    "intersect1d": "use `torch.isin` with a mask: how much both have in common depends on the data",
    "setdiff1d": "use `~torch.isin` as a mask: how much is left over depends on the data",
    "union1d": "compute it before the compiled region: its size depends on the data",
    "nanmean": "use `torch.nanmean`",
    "nanmedian": "use `torch.nanquantile(x, 0.5)`",
    "nanquantile": "use `torch.nanquantile`",
    "pad": "use `torch.nn.functional.pad`",
    "piecewise": "use `torch.where`, once for each piece",
    "trapezoid": "use `torch.trapezoid`",
    "unravel_index": "use `torch.unravel_index`",
}
_OTHER = "compute it in `__init__` if no input is needed, else write it with torch's operations"


def rewrite(site: Site) -> Rewrite | None:
    names = (site.calls(one).removeprefix("numpy.") for one in walk(site.node))
    idea = next((_IDEAS[name] for name in names if name in _IDEAS), _OTHER)
    return Rewrite({}, idea, Applicability.DISPLAY)


RULE = Rule(
    "FG239",
    "replace-numpy",
    frozenset({Category.NUMPY.value, Category.NUMPY_LOOP.value}),
    rewrite,
)

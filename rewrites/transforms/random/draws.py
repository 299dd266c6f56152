"""Calls that draw a random number, and the traced call that draws the same number."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site, walk, word_set
from fullgraph.rewrites.source import build_expression, dotted_name

_FLOATS = word_set("random uniform")
_INTEGERS = word_set("randint randrange")
_DRAWS = word_set(
    """
    beta betavariate binomial choice chisquare exponential expovariate gamma gammavariate gauss
    geometric getrandbits gumbel integers laplace logistic lognormal lognormvariate normal
    normalvariate paretovariate poisson power rand randint randn random random_integers
    random_sample randrange ranf rayleigh sample standard_normal triangular uniform
    vonmisesvariate weibull weibullvariate
    """
)


@dataclass(frozen=True)
class RandomDraw:
    """Call that draws one random number."""

    call: cst.Call
    is_float: bool
    traced: cst.BaseExpression | None
    """Call that draws the same number and that Dynamo traces, or None."""
    stream: str = "random"
    """Module whose random stream it draws from: "random" or "numpy.random"."""

    @property
    def dtype(self) -> str:
        """Dtype that holds the number exactly."""
        return "float64" if self.is_float else "int64"


def draw_of(site: Site, node: cst.CSTNode) -> RandomDraw | None:
    """Return the draw of a call that draws one number; None for any other node."""
    if not isinstance(node, cst.Call):
        return None
    name = site.callee_name(node).replace("random.Random.", "random.")
    owner, _, last = name.rpartition(".")
    if owner == "random" and last in _FLOATS | _INTEGERS:
        return RandomDraw(node, last in _FLOATS, _traced_call(site, node, last))
    owners = ("random", "numpy.random", "numpy.random.mtrand.RandomState")
    if owner not in owners or last not in _DRAWS:
        return None
    seen = site.observed(node)
    if seen is None or len(seen.types) != 1:
        return None
    kind = seen.types[0].removeprefix("numpy.")
    stream = owner.removesuffix(".mtrand.RandomState")
    if kind in ("float", "float64"):
        return RandomDraw(node, True, None, stream)
    return RandomDraw(node, False, None, stream) if kind in ("int", "int64") else None


def find_random_calls(site: Site, node: cst.CSTNode | None) -> list[cst.Call]:
    """Return the calls inside a node that draw from Python's or NumPy's streams, in order."""
    calls = [one for one in walk(node) if isinstance(one, cst.Call)] if node is not None else []
    return [
        one
        for one in calls
        if (name := site.callee_name(one)).startswith(("random.", "numpy.random."))
        and not name.endswith("seed")
    ]


def import_uniform(site: Site) -> dict[cst.CSTNode, cst.CSTNode]:
    """Return the edit that imports `uniform` where the file imports `random` from `random`."""
    document = site.document
    if (
        document.imported_name("random.random") is None
        or document.imports.get("random") == "random"
    ):
        return {}
    if document.imported_name("random.uniform") is not None:
        return {}
    for one in document.ranges:
        if isinstance(one, cst.ImportFrom) and dotted_name(one.module or one) == "random":
            assert not isinstance(one.names, cst.ImportStar)
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            *first, last = one.names
            names = [*first, last.with_changes(comma=comma), cst.ImportAlias(cst.Name("uniform"))]
            return {one: one.with_changes(names=names)}
    return {}


def _traced_call(site: Site, call: cst.Call, last: str) -> cst.BaseExpression:
    """Return `random.uniform(0.0, 1.0)`, the same number, for `random.random()`."""
    if last != "random":
        return call
    if isinstance(call.func, cst.Attribute):
        return build_expression("{owner}.uniform(0.0, 1.0)", owner=call.func.value)
    uniform = site.document.imported_name("random.uniform") or "uniform"
    return build_expression("{uniform}(0.0, 1.0)", uniform=uniform)

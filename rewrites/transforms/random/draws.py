"""Which calls draw a random number, and how a graph can draw the same from the same stream."""

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
class Draw:
    """A call that draws one number."""

    call: cst.Call
    is_float: bool
    traced: cst.BaseExpression | None
    """A call that draws the same number and is traced; None if there is none."""
    stream: str = "random"
    """The module whose stream it draws from: "random" or "numpy.random"."""

    @property
    def dtype(self) -> str:
        """The dtype that holds the number exactly."""
        return "float64" if self.is_float else "int64"


def draw_of(site: Site, node: cst.CSTNode) -> Draw | None:
    """What a node draws; None if it is no call that draws one number."""
    if not isinstance(node, cst.Call):
        return None
    name = site.calls(node).replace("random.Random.", "random.")
    owner, _, last = name.rpartition(".")
    if owner == "random" and last in _FLOATS | _INTEGERS:
        return Draw(node, last in _FLOATS, _traced(site, node, last))
    owners = ("random", "numpy.random", "numpy.random.mtrand.RandomState")
    if owner not in owners or last not in _DRAWS:
        return None
    seen = site.seen(node)
    if seen is None or len(seen.types) != 1:
        return None
    kind = seen.types[0].removeprefix("numpy.")
    stream = owner.removesuffix(".mtrand.RandomState")
    if kind in ("float", "float64"):
        return Draw(node, True, None, stream)
    return Draw(node, False, None, stream) if kind in ("int", "int64") else None


def drawing(site: Site, node: cst.CSTNode | None) -> list[cst.Call]:
    """The calls inside a node that draw from Python's or NumPy's streams, in order."""
    calls = [one for one in walk(node) if isinstance(one, cst.Call)] if node is not None else []
    return [
        one
        for one in calls
        if (name := site.calls(one)).startswith(("random.", "numpy.random."))
        and not name.endswith("seed")
    ]


def imported(site: Site) -> dict[cst.CSTNode, cst.CSTNode]:
    """The edit that imports `uniform` where the file has `random` from `random`; else nothing."""
    document = site.document
    if document.spelling("random.random") is None or document.imports.get("random") == "random":
        return {}
    if document.spelling("random.uniform") is not None:
        return {}
    for one in document.ranges:
        if isinstance(one, cst.ImportFrom) and dotted_name(one.module or one) == "random":
            assert not isinstance(one.names, cst.ImportStar)
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            *first, last = one.names
            names = [*first, last.with_changes(comma=comma), cst.ImportAlias(cst.Name("uniform"))]
            return {one: one.with_changes(names=names)}
    return {}


def _traced(site: Site, call: cst.Call, last: str) -> cst.BaseExpression:
    """`random.uniform(0.0, 1.0)` for `random.random()`: 0.0 + (1.0 - 0.0) * random()."""
    if last != "random":
        return call
    if isinstance(call.func, cst.Attribute):
        return build_expression("{owner}.uniform(0.0, 1.0)", owner=call.func.value)
    uniform = site.document.spelling("random.uniform") or "uniform"
    return build_expression("{uniform}(0.0, 1.0)", uniform=uniform)

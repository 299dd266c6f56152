"""Calls that draw random numbers."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import Site, walk, word_set

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
    """Call that draws one random number, or several integers."""

    call: cst.Call
    is_float: bool
    """Whether the call draws a float, also where `whole` makes an int of it."""

    stream: str = "random"
    """Module whose random stream it draws from: "random" or "numpy.random"."""

    traced: bool = False
    """Whether Dynamo traces the call; the number is then drawn before the graph runs."""

    whole: cst.Call | None = None
    """The `int(random.random() * n)` around the call."""

    count: cst.BaseExpression | None = None
    """How many integers it draws: `k` of `random.sample(range(n), k)`. None for one number."""

    @property
    def value(self) -> cst.Call:
        """What a tensor replaces: the call, or the `int(…)` around it."""
        return self.whole or self.call

    @property
    def stays_traced(self) -> bool:
        """Whether the call can stay as it is, for Dynamo to trace.

        Not if it draws a float: Inductor of torch 2.13 reads a float64 as float32.
        """
        return self.traced and not self.is_float

    @property
    def dtype(self) -> str:
        """Dtype that holds the number exactly."""
        return "float64" if self.is_float and self.whole is None else "int64"


def draw_of(site: Site, node: cst.CSTNode) -> RandomDraw | None:
    """Return `node` as a RandomDraw; None unless it is a call that draws one number."""
    if not isinstance(node, cst.Call):
        return None
    name = site.callee_name(node).replace("random.Random.", "random.")
    owner, _, last = name.rpartition(".")
    if owner == "random" and last in _FLOATS | _INTEGERS:
        whole = int_around(site, node)
        return RandomDraw(node, last in _FLOATS, traced=last != "random", whole=whole)
    owners = ("random", "numpy.random", "numpy.random.mtrand.RandomState")
    if owner not in owners or last not in _DRAWS:
        return None
    seen = site.observed(node)
    if seen is None or len(seen.types) != 1:
        return None
    kind = seen.types[0].removeprefix("numpy.")
    if kind not in ("float", "float64", "int", "int64"):
        return None
    stream = owner.removesuffix(".mtrand.RandomState")
    return RandomDraw(node, kind.startswith("float"), stream, whole=int_around(site, node))


def int_around(site: Site, call: cst.Call) -> cst.Call | None:
    """Return the `int(…)` around a call and arithmetic on it: `int(random.random() * n)`."""
    for around in site.document.ancestors(call):
        if isinstance(around, cst.Call) and site.callee_name(around) == "int":
            return around
        if not isinstance(around, cst.Arg | cst.BinaryOperation | cst.UnaryOperation):
            break
    return None


def draw_of_indices(site: Site, node: cst.CSTNode) -> RandomDraw | None:
    """Return `node` as a RandomDraw; None unless it draws several integers below a bound."""
    count = _count_of(site, node) if isinstance(node, cst.Call) else None
    return RandomDraw(node, False, count=count) if isinstance(node, cst.Call) and count else None


def _count_of(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """Return how many integers below a bound a call draws; None for other calls."""
    name = site.document.qualified_name(call.func)
    given = {
        one.keyword.value if one.keyword else at: one.value for at, one in enumerate(call.args)
    }
    first = given.get(0)
    if first is None or any(one.star for one in call.args):
        return None
    if name == "random.sample":
        is_range = isinstance(first, cst.Call) and site.callee_name(first) == "range"
        return given.get("k", given.get(1)) if is_range else None
    if not _is_int(site, first):
        return None
    if name == "numpy.random.permutation":
        return first
    if name == "numpy.random.choice" and not {"p", 3} & set(given):
        size = given.get("size", given.get(1))
        return size if size is not None and _is_int(site, size) else None
    return None


def _is_int(site: Site, node: cst.BaseExpression) -> bool:
    seen = site.observed(node)
    return isinstance(node, cst.Integer) or (seen is not None and seen.types == ("int",))


def find_random_calls(site: Site, node: cst.CSTNode | None) -> list[cst.Call]:
    """Return the calls inside a node that draw from Python's or NumPy's streams, in order.

    [] if `node` is None.
    """
    calls = [one for one in walk(node) if isinstance(one, cst.Call)] if node is not None else []
    return [
        one
        for one in calls
        if (name := site.callee_name(one)).startswith(("random.", "numpy.random."))
        and not name.endswith(("seed", "random.Random"))
    ]

"""NumPy functions of sizes make NumPy scalars, which TorchDynamo cannot keep as numbers.

`math` does the same on Python numbers, and the graph sees plain integers.

Before:

    rows = int(np.prod(x.shape[:-1]))
    half = int(np.ceil(x.shape[1] / 2))
    scale = 1 / np.sqrt(x.shape[-1])

After:

    rows = math.prod(x.shape[:-1])
    half = math.ceil(x.shape[1] / 2)
    scale = 1 / math.sqrt(x.shape[-1])

Assumes nothing where the arguments were seen to be numbers; where nothing was seen, that they are.

Refuses: arguments that are arrays or tensors, and calls with `dtype=`, `axis=` or `out=`.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.build import expression
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_TO_INT = {"ceil": "ceil", "floor": "floor", "trunc": "trunc", "fix": "trunc"}
_TO_FLOAT = {
    name: name
    for name in ("sqrt", "exp", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh")
} | {"abs": "fabs", "power": "pow", "arctan": "atan", "arctan2": "atan2"}
_CONVERSIONS = ("int", "float")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    found = _numpy_call(site, site.node)
    if found is None:
        return None
    call, name, whole = found
    if any(arg.keyword is not None or arg.star for arg in call.args):
        return Refusal("it takes more than a number")
    known = [_is_number(site, arg.value, name) for arg in call.args]
    if False in known:
        return Refusal("its argument is not a Python number or a shape")
    values = {f"a{n}": arg.value for n, arg in enumerate(call.args)}
    arguments = ", ".join(f"{{{key}}}" for key in values)
    text = f"math.{_math(name)}({arguments})"
    if name in _TO_INT and not _wants_int(site, whole):
        text = f"float({text})"
    return Rewrite(
        {whole: expression(text, **values)},
        "`math` works on Python numbers, which stay numbers in the graph.",
        Applicability.SAFE if None not in known else Applicability.UNSAFE,
        () if None not in known else ("its argument is a Python number",),
        ("math",),
    )


def _math(name: str) -> str:
    return "prod" if name in ("prod", "product") else _TO_INT.get(name) or _TO_FLOAT[name]


def _numpy_call(site: Site, node: cst.CSTNode) -> tuple[cst.Call, str, cst.BaseExpression] | None:
    """The NumPy call in or around `node`, its name, and with the conversions around it."""
    for one in (node, *_inside(node)):
        if isinstance(one, cst.Call):
            name = site.calls(one).removeprefix("numpy.")
            plain = name in ("prod", "product") or name in _TO_INT or name in _TO_FLOAT
            if plain and site.calls(one).startswith("numpy."):
                return one, name, _with_conversions(site, one)
    return None


def _inside(node: cst.CSTNode) -> list[cst.CSTNode]:
    """What `int(…)`, `….item()`, `….astype(int)` and a statement convert."""
    found: list[cst.CSTNode] = []
    while True:
        match node:
            case cst.Call(func=cst.Name(value="int" | "float"), args=[arg]):
                node = arg.value
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item" | "astype"))):
                node = inner
            case _:
                return found
        found.append(node)


def _with_conversions(site: Site, call: cst.Call) -> cst.BaseExpression:
    """`call` with the `int(…)`, `.astype(int)` and `.item()` right around it."""
    whole: cst.BaseExpression = call
    for around in site.document.around(call):
        if isinstance(around, cst.Arg | cst.Attribute):
            continue
        if not isinstance(around, cst.Call) or not _converts(around):
            break
        whole = around
    return whole


def _converts(call: cst.Call) -> bool:
    to_int = m.Call(func=m.Name("int"), args=[m.Arg()])
    item = m.Call(func=m.Attribute(attr=m.Name("item")), args=[])
    cast = m.Call(func=m.Attribute(attr=m.Name("astype")), args=[m.Arg(m.Name("int"))])
    return m.matches(call, to_int | item | cast)


def _wants_int(site: Site, whole: cst.BaseExpression) -> bool:
    return any(
        m.matches(one, m.Call(func=m.Name("int"))) or m.matches(one, m.Arg(value=m.Name("int")))
        for one in (whole, *_arguments(whole))
    )


def _arguments(whole: cst.BaseExpression) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    node: cst.CSTNode = whole
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        found += node.args
        node = node.func.value
    return found


def _is_number(site: Site, node: cst.BaseExpression, name: str) -> bool | None:
    """Whether an argument is what `math` takes; None if nothing is known."""
    if m.matches(node, m.Integer() | m.Float()):
        return True
    seen = site.seen(node)
    if seen is None:
        sizes = m.Attribute(attr=m.Name("shape")) | m.Call(func=m.Attribute(attr=m.Name("size")))
        return True if name == "prod" and m.matches(node, sizes) else None
    if name in ("prod", "product"):
        return set(seen.types) <= {"torch.Size", "tuple", "list"} and set(seen.items) <= {"int"}
    return seen.is_number


RULE = Rule(
    "FG221",
    "use-math",
    frozenset({Category.NUMPY_SCALAR.value, Category.NUMPY.value, Category.SCALAR.value}),
    rewrite,
)

"""NumPy functions of sizes make NumPy scalars, which TorchDynamo cannot keep as numbers.

`math` does the same on Python numbers, and the graph sees plain integers.

Before:

    rows = int(np.prod(x.shape[:-1]))
    half = int(np.ceil(x.shape[1] / 2))
    scale = 1 / np.sqrt(x.shape[-1])
    h, w = np.array(x.shape[-2:]) * self.ratio
    for i in np.arange(0, n, 2): ...

After:

    rows = math.prod(x.shape[:-1])
    half = math.ceil(x.shape[1] / 2)
    scale = 1 / math.sqrt(x.shape[-1])
    h, w = [size * self.ratio for size in x.shape[-2:]]
    for i in range(0, n, 2): ...

Where the NumPy number has a name, the assignment changes with its use. Assumes nothing where the
arguments were seen to be numbers; where nothing was seen, that they are.

Refuses: arguments that are arrays or tensors, and calls with `dtype=`, `axis=` or `out=`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import Site, called_function, walk
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement, build_expression, children_of
from fullgraph.rewrites.transforms.numpy import PythonNumber, PythonNumberConverter


def rewrite(site: Site) -> Rewrite | Refusal | None:
    numbers = PythonNumberConverter(site)
    found = dict(_numpy_expressions(site, _with_conversions(site, site.node), numbers))
    if not found and not numbers.replacements:
        calls = [one for one in walk(site.node) if site.callee_name(one).startswith("numpy.")]
        return Refusal("its argument is not a Python number or a shape") if calls else None
    edits: dict[cst.CSTNode, Replacement] = {node: made.node for node, made in found.items()}
    replacements = {**numbers.replacements, **_rewrite_constructors(site), **edits}
    new = [one for one in replacements.values() if isinstance(one, cst.CSTNode)]
    text = "".join(map(site.document.module.code_for_node, new))
    return Rewrite(
        replacements,
        "Python's own numbers stay numbers in the graph.",
        assumes=("its argument is a Python number",) if numbers.unknown else (),
        imports=("math",) if "math." in text else (),
    )


def _numpy_expressions(
    site: Site, node: cst.CSTNode, numbers: PythonNumberConverter, depth: int = 2
) -> Iterator[tuple[cst.BaseExpression, PythonNumber]]:
    """Yield each number that `node` computes with NumPy, and the same in plain Python.

    For `np.prod(x.shape)` the new code is `math.prod(x.shape)`. Functions of this file that `node`
    calls are searched too, up to `depth` calls deep. Of nested expressions, the outermost counts.
    """
    if isinstance(node, cst.BaseExpression) and (made := _python_number(site, node, numbers)):
        yield node, made
        return
    for child in children_of(node):
        yield from _numpy_expressions(site, child, numbers, depth)
    function = called_function(site, node) if isinstance(node, cst.Call) and depth else None
    if function is not None:
        yield from _numpy_expressions(site, function.body, numbers, depth - 1)


def _rewrite_constructors(site: Site) -> dict[cst.CSTNode, Replacement]:
    """Return the edits of the legacy constructors, in the site's function, with a NumPy array.

    `torch.FloatTensor(array)` becomes `torch.from_numpy(array).float()`.
    """
    function = site.document.function(site.node)
    found: dict[cst.CSTNode, Replacement] = {}
    for call in walk(function) if function is not None else ():
        made = _CONSTRUCTORS.get(site.callee_name(call))
        if made is None or not isinstance(call, cst.Call) or len(call.args) != 1:
            continue
        array = call.args[0].value
        if (seen := site.observed(array)) is not None and seen.types == ("numpy.ndarray",):
            text = f"{site.document.torch}.from_numpy({{array}}).{made}()"
            found[call] = build_expression(text, array=array)
    return found


_CONSTRUCTORS = {
    "torch.FloatTensor": "float",
    "torch.DoubleTensor": "double",
    "torch.LongTensor": "long",
}


def _python_number(
    site: Site, node: cst.BaseExpression, numbers: PythonNumberConverter
) -> PythonNumber | None:
    """Return `node` without NumPy: `math.prod(s)` for `np.prod(s)`.

    None if it does not use NumPy, or cannot be written without. Otherwise the replacements made
    inside `node` are also added to `numbers`.
    """
    trial = PythonNumberConverter(site)
    match node:
        case cst.Call(func=cst.Attribute(value=array, attr=cst.Name("tolist")), args=[]):
            made = trial.each(array)
        case cst.Call(func=cst.Name("tuple" | "list" as kind), args=[cst.Arg(value=array)]):
            made = trial.each(array)
            if made is not None and kind == "tuple":
                made = PythonNumber(
                    build_expression("tuple({all})", all=made.node), made.kind, None, True
                )
        case _:
            made = trial.number(node)
            if trial.sequence is not None:
                return None  # an array, not a number
    if made is None or trial.failed:
        return None
    numbers.unknown |= trial.unknown
    numbers.replacements |= trial.replacements
    return made if made.changed else None


def _with_conversions(site: Site, node: cst.CSTNode) -> cst.CSTNode:
    """Return `node` with the conversions directly around it: `int(np.prod(s))` for `np.prod(s)`.

    Conversions are `int(…)`, `.astype(int)` and `.item()`. Without any, `node` is returned.
    """
    whole = node
    for around in site.document.ancestors(node) if isinstance(node, cst.Call) else ():
        if isinstance(around, cst.Arg | cst.Attribute):
            continue
        if not isinstance(around, cst.Call) or not m.matches(around, _CONVERTS):
            break
        whole = around
    return whole


_CONVERTS = (
    m.Call(func=m.Name("int") | m.Name("float"), args=[m.Arg()])
    | m.Call(func=m.Attribute(attr=m.Name("item")), args=[])
    | m.Call(func=m.Attribute(attr=m.Name("astype")), args=[m.Arg()])
)


RULE = Rule(
    "FG221",
    "use-math",
    frozenset(
        {
            Category.NUMPY_SCALAR.value,
            Category.NUMPY.value,
            Category.SCALAR.value,
            Category.FAKE.value,
        }
    ),
    rewrite,
)

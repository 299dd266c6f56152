"""Side effects, aliases and exceptions of expressions.

The answers also hold for code that did not run. An unknown callee counts as impure.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis.classes import (
    called_function,
    class_of,
    constructor_call,
    method_of_class,
)
from fullgraph.rewrites.analysis.flow import assignment_targets
from fullgraph.rewrites.analysis.inferred import infer, is_tensor
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import (
    EFFECTS,
    INDEXING,
    OWNERS,
    PURE_CALLS,
    RAISING,
    RANDOM,
    STATEFUL,
    VIEWS,
)
from fullgraph.rewrites.source import integer_literal, walk

_SIZED_BY_DATA = ("argwhere", "masked_select", "nonzero", "unique", "unique_consecutive")


def side_effect_of(site: Site, *nodes: cst.CSTNode, random: bool = False) -> str:
    """Return a side effect of the code as a clause: "`x.add_(1)` changes a tensor in place".

    Return "" if there is none. Assigning to a local name is not a side effect; assigning to
    attributes and items is. With `random`, drawing random numbers does not count as one.
    """
    found = _side_effects(site, nodes, frozenset())
    return next((one for one in found if not (random and one.endswith("random numbers"))), "")


def draws_random_numbers(site: Site, call: cst.Call) -> bool:
    """Return whether a call itself, without its arguments, may draw random numbers."""
    return _call_effect(site, call, frozenset()).endswith("random numbers")


def is_new_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression makes a new tensor: `x + 1` does, the view `x.t()` does not."""
    match node:
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
            return True
        case cst.IfExp():
            return is_new_tensor(site, node.body) and is_new_tensor(site, node.orelse)
        case cst.Call():
            called = torch_name(site, node)
            if called:
                return called not in VIEWS
            kind = class_of(site, node.func)
            last = kind.rpartition(".")[2]
            return kind.startswith("torch.nn.") and last not in VIEWS
    return False


def may_raise(site: Site, *nodes: cst.CSTNode, indices: bool = True) -> str:
    """Return the source code of an operation that may raise for some data; "" if there is none.

    Errors in shapes and types do not count. Without `indices`, an index that is out of range does
    not count either.
    """
    raising = RAISING | INDEXING if indices else RAISING
    for node in nodes:
        for one in walk(node):
            if isinstance(one, cst.Subscript) and (
                not _selects_safely(site, one) or (indices and _has_computed_index(site, one))
            ):
                return site.document.code(one)
            if isinstance(one, cst.Call):
                called = torch_name(site, one)
                if called == "item" and _is_single(site, one):
                    continue
                if called in raising:
                    return site.document.code(one)
            if isinstance(one, cst.BinaryOperation) and isinstance(
                one.operator, cst.Divide | cst.FloorDivide | cst.Modulo
            ):
                numbers = (cst.Integer, cst.Float)
                known = isinstance(one.right, numbers) and float(one.right.evaluated_value) != 0
                known |= _is_nonzero_size(site, one.right)
                if not known and not (is_tensor(site, one.left) or is_tensor(site, one.right)):
                    return site.document.code(one)
    return ""


def _is_nonzero_size(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a size, `x.shape[0]` or `len(x)`, and was never 0."""
    seen = site.observed(node)
    if seen is None or not seen.is_number or not all(seen.values):
        return False
    match node:
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name("size" | "numel" | "dim"))):
            return True
    return isinstance(node, cst.Call) and site.callee_name(node) in ("len", "builtins.len")


def _selects_safely(site: Site, node: cst.Subscript) -> bool:
    """Return whether a subscript does not raise depending on data.

    That is so for a subscript of a tensor, for a slice of a sequence, and for a literal index into
    a shape or tuple that is long enough.
    """
    seen, value = infer(site, node.value), node.value
    if seen is not None and seen.is_tensor:
        return not (_is_sized_by_data(site, value) and _has_literal_index(node))
    if (index := _literal_index(node)) is not None:
        if isinstance(value, cst.Attribute) and value.attr.value == "shape":
            tensor = infer(site, value.value)
            lengths = tensor.dims if tensor is not None and tensor.is_tensor else frozenset()
        elif seen is not None and seen.types == ("tuple",):
            lengths = frozenset({len(seen.items)})
        else:
            return False
        return bool(lengths) and all(-length <= index < length for length in lengths)
    if not all(isinstance(one.slice, cst.Slice) for one in node.slice) or len(node.slice) > 1:
        return False
    if isinstance(value, cst.Attribute) and value.attr.value == "shape":
        return bool(is_tensor(site, value.value))
    return seen is not None and set(seen.types) <= {"tuple", "list", "str", "torch.Size"}


def _is_sized_by_data(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether data decide the size of a tensor, which may be empty: `mask.nonzero()`."""
    return isinstance(node, cst.Call) and torch_name(site, node) in _SIZED_BY_DATA


def _has_computed_index(site: Site, node: cst.Subscript) -> bool:
    """Return whether one of several indices is a tensor without dimensions: `x[:, i]`."""
    parts = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
    seen = [infer(site, one) for one in parts] if len(node.slice) > 1 else []
    return any(one is not None and one.is_tensor and one.dims == {0} for one in seen)


def _has_literal_index(node: cst.Subscript) -> bool:
    """Return whether a subscript selects one element or row, by a literal: `x[0, 0]`."""
    parts = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
    return any(integer_literal(one) is not None for one in parts)


def _literal_index(node: cst.Subscript) -> int | None:
    """Return the index of `x[0]` or `x[-1]`; None for other subscripts."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=index))]:
            return integer_literal(index)
    return None


def _is_single(site: Site, call: cst.Call) -> bool:
    """Return whether a call is a method call on a 0-d tensor, such as `x.sum().item()`."""
    seen = infer(site, call.func.value) if isinstance(call.func, cst.Attribute) else None
    return seen is not None and seen.dims == {0}


def _side_effects(
    site: Site, nodes: tuple[cst.CSTNode, ...], within: frozenset[str]
) -> Iterator[str]:
    """Yield each side effect of the nodes as a clause: "`x.add_(1)` changes a tensor in place".

    `within` are the names of the functions that are being examined; a recursive call of one of them
    counts as a side effect.
    """
    for node in nodes:
        for one in walk(node):
            match one:
                case cst.Call():
                    if reason := _call_effect(site, one, within):
                        yield reason
                case cst.Yield() | cst.Await():
                    yield f"`{site.document.code(one)}` hands control to other code"
                case cst.Assign() | cst.AugAssign() | cst.AnnAssign() | cst.For() | cst.With():
                    for target in assignment_targets(one):
                        if not isinstance(target, cst.Name):
                            yield f"it changes `{site.document.code(target)}`"
                    if isinstance(one, cst.AugAssign) and is_tensor(site, one.target) is not False:
                        yield f"`{site.document.code(one)}` changes a tensor in place"
                    if isinstance(one, cst.With):
                        yield f"`with {site.document.code(one.items[0])}` may have an effect"
                case cst.Global() | cst.Nonlocal() | cst.Del() | cst.Import() | cst.ImportFrom():
                    yield f"`{site.document.code(one)}` reaches beyond it"
                case cst.Raise() | cst.Assert():
                    yield "it raises"


def _call_effect(site: Site, call: cst.Call, within: frozenset[str]) -> str:
    """Return the side effect of a call as a clause, "`x.add_(1)` changes a tensor in place".

    Effects of the arguments do not count; "" if there is no effect. `within` are the names of
    functions being examined; a recursive call of one of them counts as an effect.
    """
    text = site.document.code(call)
    text = text if len(text) <= 40 else f"{site.document.code(call.func)}(…)"
    if any(arg.keyword and arg.keyword.value in ("out", "inplace") for arg in call.args):
        return f"`{text}` changes a tensor in place"
    called = torch_name(site, call)
    if called:
        if called.endswith("_") and not called.endswith("__"):
            return f"`{text}` changes a tensor in place"
        if called in RANDOM and not _not_training(call):
            return f"`{text}` draws random numbers"
        return f"`{text}` has an effect" if called in EFFECTS else ""
    qualified = site.callee_name(call)
    if qualified in PURE_CALLS:
        return ""
    kind = class_of(site, call.func)
    if kind.startswith("torch.nn.modules.") or kind.startswith("torch.nn."):
        return _layer_effect(site, call, kind, text)
    function = called_function(site, call) or (
        method_of_class(site, kind, "forward") if kind else None
    )
    if function is None:
        return f"it is not known what `{text}` changes"
    if function.name.value in within or function.decorators:
        return f"it is not known what `{text}` changes"
    inner = next(_side_effects(site, (function.body,), within | {function.name.value}), "")
    return f"in `{text}` {inner}" if inner else ""


def _layer_effect(site: Site, call: cst.Call, kind: str, text: str) -> str:
    """Return the side effect of calling a layer of torch.nn, as a clause; "" if it has none.

    `kind` is the class of the layer, "torch.nn.Dropout"; `text` is the code of the call, to be
    quoted.
    """
    last = kind.rpartition(".")[2]
    if last == "Sequential":
        inside = list(_layer_classes(site, call.func))
        if not inside:
            return f"it is not known what is in `{site.document.code(call.func)}`"
        effects = (_layer_effect(site, call, one, text) for one in inside)
        return next((one for one in effects if one), "")
    if last in STATEFUL | RANDOM:
        what = "running statistics" if last in STATEFUL else "random numbers"
        return f"`{text}` may use {what}"
    return "" if last != "ModuleList" else f"it is not known what `{text}` changes"


def _layer_classes(site: Site, node: cst.BaseExpression) -> Iterator[str]:
    """Yield the class of each layer of the `Sequential` that `node` holds: "torch.nn.Linear".

    Yield nothing unless each layer is written as a call, as in `Sequential(Linear(2, 3), ReLU())`.
    """
    made = constructor_call(site, node)
    args = made.args if made is not None else ()
    layers = [arg.value for arg in args if isinstance(arg.value, cst.Call) and not arg.star]
    if len(layers) == len(args):
        yield from (site.document.qualified_name(layer.func) for layer in layers)


def _not_training(call: cst.Call) -> bool:
    """Return whether a call has the argument `training=False`."""
    return any(
        arg.keyword
        and arg.keyword.value == "training"
        and isinstance(arg.value, cst.Name)
        and arg.value.value == "False"
        for arg in call.args
    )


def torch_name(site: Site, call: cst.Call) -> str:
    """Return "add" for a call of `torch.add` or of a tensor's method `add`; "" for other calls."""
    owner, _, last = site.callee_name(call).rpartition(".")
    if owner in OWNERS:
        return last
    if isinstance(call.func, cst.Attribute) and is_tensor(site, call.func.value):
        return call.func.attr.value
    return ""

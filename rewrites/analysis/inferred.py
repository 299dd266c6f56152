"""Facts of expressions that did not run, such as those of a branch that was not taken.

They are evaluated on meta tensors, from the observed facts of the names in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst
import torch

from fullgraph.compiler.observe import TensorSummary, ValueSummary
from fullgraph.rewrites.analysis.classes import buffer_value, numeric_attribute
from fullgraph.rewrites.analysis.definitions import Bindings, Definitions, find_definitions
from fullgraph.rewrites.analysis.flow import walk
from fullgraph.rewrites.analysis.operators import BINARY, UNARY
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import word_set
from fullgraph.rewrites.source import dotted_name

_ATTRIBUTES = word_set(
    """
    T data device dtype eps imag mT max min ndim real shape smallest_normal tiny
    """
)
_FUNCTIONS = ("torch.", "torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.")
DEPTH = 12
"""Depth to which definitions and expressions are followed."""


class UnknownValue(Exception):
    """The value cannot be inferred."""


def infer(site: Site, node: cst.CSTNode) -> ValueSummary | None:
    """Return the observed facts of an expression, else facts inferred from other expressions."""
    if (seen := site.observed(node)) is not None:
        return seen
    if isinstance(node, cst.Name) and (known := find_definitions(site.document, node)) is not None:
        seen = _facts_of_use(site, known, known.reaching.get(node, frozenset()))
    return seen or _facts_of(lambda: _value_of(site, node, 0))


def _facts_elsewhere(site: Site, node: cst.Attribute) -> ValueSummary | None:
    """Return the facts of another use of an attribute path that the function does not bind."""
    document, path = site.document, dotted_name(node)
    function = document.function(node)
    found = [one for one in walk(function or node) if path and dotted_name(one) == path]
    bound = [one for one in found if isinstance(document.parents.get(one), cst.AssignTarget)]
    return None if bound else next(filter(None, map(site.observed, found)), None)


def infer_variable(site: Site, variable: str, statement: cst.CSTNode) -> ValueSummary | None:
    """Return the facts of a local name at the start of a statement."""
    known = find_definitions(site.document, statement)
    if known is None:
        return None
    bindings = known.before.get(statement, {}).get(variable, frozenset())
    used = _facts_of_use(site, known, bindings)
    return used or _facts_of(lambda: _value_of_definitions(site, known, bindings, 0))


def _facts_of(evaluate: Callable[[], object]) -> ValueSummary | None:
    """Evaluate on meta tensors, and return the result as facts."""
    try:
        value = evaluate()
    except Exception:  # torch rejects these operands: unknown
        return None
    if isinstance(value, torch.Tensor):
        return ValueSummary(("torch.Tensor",), 0, (_describe_tensor(value),))
    builtin = type(value).__module__ == "builtins"
    if value is None or (builtin and isinstance(value, int | float | str)):
        return ValueSummary((type(value).__name__,), 0, (), (value,))
    return None


def is_tensor(site: Site, node: cst.CSTNode) -> bool | None:
    """Return whether an expression is a tensor; None if unknown."""
    seen = infer(site, node)
    return None if seen is None else seen.is_tensor


def same_kind(one: ValueSummary, other: ValueSummary) -> bool:
    """Return whether two expressions were tensors of the same dtype and shape at each
    evaluation."""
    return (
        one.is_tensor
        and other.is_tensor
        and len(one.dtypes) == len(one.shapes) == 1
        and one.dtypes == other.dtypes
        and one.shapes == other.shapes
    )


def _describe_tensor(value: torch.Tensor) -> TensorSummary:
    dtype = str(value.dtype).removeprefix("torch.")
    shape = tuple(value.shape)
    return TensorSummary(dtype, shape, "meta", value.requires_grad, value.is_leaf)


def _value_of(site: Site, node: cst.CSTNode, depth: int) -> Any:
    """Return the value on meta tensors. Raises UnknownValue, or what torch raises."""
    if depth > DEPTH:
        raise UnknownValue
    seen = site.observed(node)
    if seen is not None:
        return _make_value(seen)
    again = depth + 1
    match node:
        case cst.Integer() | cst.Float() | cst.SimpleString():
            return node.evaluated_value
        case cst.Name(value="True" | "False" | "None"):
            return {"True": True, "False": False, "None": None}[node.value]
        case cst.Name() | cst.Attribute() if site.document.qualified_name(node).startswith(
            "torch."
        ):
            return _torch_constant(site.document.qualified_name(node))
        case cst.Name():
            return _value_of_variable(site, node, again)
        case cst.Attribute() if node.attr.value in _ATTRIBUTES:
            base = _value_of(site, node.value, again)
            if isinstance(base, torch.finfo | torch.iinfo):
                return getattr(base, node.attr.value)
            if not isinstance(base, torch.Tensor):
                raise UnknownValue
            return (
                torch.device("meta") if node.attr.value == "device" else _get_attribute(base, node)
            )
        case cst.Attribute() if (elsewhere := _facts_elsewhere(site, node)) is not None:
            return _make_value(elsewhere)
        case cst.Attribute() if given := buffer_value(site, node) or numeric_attribute(site, node):
            return _value_of(site, given, again)
        case cst.BinaryOperation():
            left, right = (_value_of(site, part, again) for part in (node.left, node.right))
            return BINARY[type(node.operator)](left, right)
        case cst.Comparison(comparisons=[comparison]):
            left = _value_of(site, node.left, again)
            right = _value_of(site, comparison.comparator, again)
            return BINARY[type(comparison.operator)](left, right)
        case cst.UnaryOperation():
            return UNARY[type(node.operator)](_value_of(site, node.expression, again))
        case cst.Tuple() | cst.List():
            return [_value_of(site, element.value, again) for element in node.elements]
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            return _value_of(site, node.value, again)[_value_of(site, index, again)]
        case cst.Call():
            return _value_of_call(site, node, again)
    raise UnknownValue


def _make_value(seen: ValueSummary) -> object:
    """Return a value with these facts. Raises UnknownValue if they vary."""
    if seen.is_tensor and len(seen.dtypes) == len(seen.shapes) == 1:
        tensor = seen.tensors[0]
        if tensor.layout == "strided":
            dtype = getattr(torch, tensor.dtype)
            made = torch.empty(tensor.shape, dtype=dtype, device="meta")
            return made.requires_grad_(seen.requires_grad)
    if not seen.tensors and len(seen.values) == 1 and len(seen.types) == 1:
        return seen.values[0]
    raise UnknownValue


def _torch_constant(qualified: str) -> torch.dtype | float:
    """Return a dtype or constant of torch."""
    value = getattr(torch, qualified.removeprefix("torch."), None)
    if not isinstance(value, torch.dtype | float):
        raise UnknownValue
    return value


def _value_of_variable(site: Site, use: cst.Name, depth: int) -> object:
    """Return a local name's value, from another use of its binding or from the assignment."""
    known = find_definitions(site.document, use)
    if known is None:
        raise UnknownValue
    return _value_of_definitions(site, known, known.reaching.get(use, frozenset()), depth)


def _value_of_definitions(site: Site, known: Definitions, bindings: Bindings, depth: int) -> object:
    """Return the value that the definitions give a variable; raise UnknownValue."""
    if (seen := _facts_of_use(site, known, bindings)) is not None:
        return _make_value(seen)
    for binding in bindings:
        parent = site.document.parents.get(binding)
        if isinstance(parent, cst.AugAssign) and isinstance(binding, cst.Name) and depth < DEPTH:
            return _value_of_definitions(
                site, known, known.reaching.get(binding, frozenset()), depth + 1
            )
        assign = site.document.parents.get(parent) if parent is not None else None
        if isinstance(parent, cst.AssignTarget) and isinstance(assign, cst.Assign):
            return _value_of(site, assign.value, depth)
    raise UnknownValue


def _facts_of_use(site: Site, known: Definitions, bindings: Bindings) -> ValueSummary | None:
    """Return the facts of a use of bindings, preferably one that no other binding reaches."""
    uses = [use for binding in bindings for use in known.uses(binding)]
    uses.sort(key=lambda use: not known.reaching[use] <= bindings)
    return next((seen for use in uses if (seen := site.observed(use)) is not None), None)


def _value_of_call(site: Site, call: cst.Call, depth: int) -> object:
    """Return the result of a call of a torch function on meta tensors; raise UnknownValue."""
    if any(arg.star for arg in call.args):
        raise UnknownValue
    args = [_value_of(site, arg.value, depth) for arg in call.args if arg.keyword is None]
    kwargs = {
        arg.keyword.value: _value_of(site, arg.value, depth)
        for arg in call.args
        if arg.keyword is not None
    }
    qualified = site.document.qualified_name(call.func)
    last = qualified.rpartition(".")[2]
    if last.endswith("_") or "out" in kwargs:
        raise UnknownValue
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        if qualified.rpartition(".")[0] + "." in _FUNCTIONS:
            function: Any = torch
            for part in qualified.split(".")[1:]:
                function = getattr(function, part)
            if "device" in kwargs:
                kwargs["device"] = "meta"
            return function(*args, **kwargs)
        if isinstance(call.func, cst.Attribute):
            base = _value_of(site, call.func.value, depth)
            if isinstance(base, torch.Tensor):
                return getattr(base, call.func.attr.value)(*args, **kwargs)
    raise UnknownValue


def _get_attribute(base: torch.Tensor, node: cst.Attribute) -> object:
    return getattr(base, node.attr.value)

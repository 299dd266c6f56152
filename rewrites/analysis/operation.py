"""Operations, the same for operators, functions, methods and layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis.classes import class_of
from fullgraph.rewrites.analysis.inferred import is_tensor
from fullgraph.rewrites.analysis.operators import BINARY, UNARY
from fullgraph.rewrites.analysis.purity import torch_name
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import word_set


def _pairs(text: str) -> dict[str, str]:
    """Return {"Add": "add", "Divide": "div"} for the text "Add:add Divide:div"."""
    return {key: value for key, _, value in (one.partition(":") for one in word_set(text))}


_ALIASES = _pairs(
    """
    absolute:abs and_:bitwise_and divide:div floordiv:floor_divide greater:gt greater_equal:ge
    invert:bitwise_not less:lt less_equal:le mod:remainder multiply:mul negative:neg not_equal:ne
    or_:bitwise_or pos:positive power:pow subtract:sub true_divide:div truediv:div xor:bitwise_xor
    """
)
"""The name in `Operation.name` for each alias in torch or function of Python's `operator`."""
_LAYERS = _pairs(
    """
    ELU:elu GELU:gelu Hardtanh:hardtanh LeakyReLU:leaky_relu Mish:mish ReLU:relu ReLU6:relu6
    SELU:selu SiLU:silu Sigmoid:sigmoid Softplus:softplus Tanh:tanh
    """
)
"""The torch function that each layer without parameters applies."""


@dataclass(frozen=True, eq=False)
class Operation:
    """Operation with its operands: `a + b`, `torch.add(a, b)`, `a.add_(b)`, `nn.ReLU()(a)`."""

    name: str
    """Name of the torch function, without aliases: "add", "div", "relu"."""
    operands: tuple[cst.BaseExpression, ...]
    """The tensor that a method is called on, and the positional arguments; `*args` is one."""
    keywords: Mapping[str, cst.BaseExpression]
    in_place: bool
    node: cst.CSTNode


def operation_of(site: Site, node: cst.CSTNode) -> Operation | None:
    """Return the operation that a node performs; None if it performs none."""
    match node:
        case cst.BinaryOperation():
            operands = [node.left, node.right]
        case cst.AugAssign():
            operands = [node.target, node.value]
        case cst.Comparison(comparisons=[one]):
            operands = [node.left, one.comparator]
        case cst.UnaryOperation():
            operands = [node.expression]
        case cst.Call():
            return _operation_of_call(site, node)
        case _:
            return None
    operator = one.operator if isinstance(node, cst.Comparison) else node.operator
    in_place = isinstance(node, cst.AugAssign)
    kind = (
        getattr(cst, type(operator).__name__.removesuffix("Assign")) if in_place else type(operator)
    )
    function = BINARY.get(kind) or UNARY.get(kind)
    if function is None:
        return None
    name = _ALIASES.get(function.__name__, function.__name__)
    return Operation(name, tuple(operands), {}, in_place, node)


def _operation_of_call(site: Site, call: cst.Call) -> Operation | None:
    """Return the operation of a call of torch, NumPy, a method or a layer.

    None for any other call.
    """
    operands = [arg.value for arg in call.args if arg.keyword is None]
    keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    module, _, last = site.callee_name(call).rpartition(".")
    called = torch_name(site, call) or (last if module == "numpy" else "")
    if called and isinstance(call.func, cst.Attribute) and is_tensor(site, call.func.value):
        operands.insert(0, call.func.value)
    if not called:
        module, _, layer = class_of(site, call.func).rpartition(".")
        called = _LAYERS.get(layer, "") if module.startswith("torch.nn") else ""
    name = called if called.endswith("__") else called.removesuffix("_")
    in_place = name != called or "out" in keywords
    found = Operation(_ALIASES.get(name, name), tuple(operands), keywords, in_place, call)
    return found if called else None

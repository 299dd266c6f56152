"""Table of tensor operators by their effect on elements that a mask selects."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites import analysis
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.source import dotted_name, integer_literal

SAME = frozenset(
    {"float", "double", "half", "bfloat16", "to", "type", "type_as", "contiguous", "clone"}
)
"""Operators that keep the values, perhaps in another dtype."""
CONSTANT = frozenset(
    {"detach", "long", "int", "bool", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isfinite"}
    | {"isinf", "sign", "round", "floor", "ceil", "trunc", "logical_not", "logical_and"}
    | {"logical_or", "logical_xor", "zeros_like", "ones_like"}
)
"""Operators that pass no gradient."""
LINEAR = frozenset({"add", "sub", "subtract", "neg", "negative"})
SCALED = frozenset({"mul", "multiply", "div", "divide", "true_divide"})
"""Operators that are linear if the other factor is a number."""
PIECEWISE_LINEAR = frozenset(
    {"abs", "absolute", "clamp", "clamp_max", "clamp_min", "clip", "hardtanh", "leaky_relu"}
    | {"maximum", "minimum", "relu", "relu6", "where"}
)
"""Operators whose gradient is finite for all values, also for inf and NaN."""
CURVED = analysis.ELEMENTWISE - SAME - CONSTANT - LINEAR - SCALED
ELEMENTWISE = SAME | CONSTANT | LINEAR | SCALED | CURVED
FLATTENING = frozenset({"view", "reshape", "flatten", "ravel"})
ROWWISE = frozenset(
    {"softmax", "log_softmax", "normalize", "cosine_similarity", "cumsum", "argmax", "argmin"}
)
"""Operators that work on each row separately, given a dimension of the row."""
RESHAPED = frozenset({"unsqueeze", "squeeze"})
"""Operators that add or remove a dimension of each row."""
GATHERING = frozenset({"gather", "take_along_dim"})
"""Operators that choose elements of each row by another tensor."""
BUILTIN = {"abs": "torch.abs", "pow": "torch.pow"}
"""Builtin functions of Python, each with the torch function that can be traced."""

NEUTRAL = {
    "sum": "0",
    "nansum": "0",
    "mean": "0",
    "count_nonzero": "0",
    "norm": "0",
    "prod": "1",
    "any": "False",
    "all": "True",
    "max": "-inf",
    "amax": "-inf",
    "logsumexp": "-inf",
    "min": "inf",
    "amin": "inf",
    "nanmean": "nan",
    "nanmedian": "nan",
    "median": "nan",
    "quantile": "nan",
    "nanquantile": "nan",
    "std": "",
    "var": "",
}
"""For each reduction its neutral element; "" where there is none."""

ZERO_LOSSES = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div"}
)
"""Losses that are 0 where both arguments are 0."""
TARGET_LOSSES = frozenset({"cross_entropy", "nll_loss"})
LOGITS_LOSS = "binary_cross_entropy_with_logits"
LOSSES = ZERO_LOSSES | TARGET_LOSSES | {LOGITS_LOSS}
LOSS_MODULES = {
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
    "BCELoss": "binary_cross_entropy",
    "KLDivLoss": "kl_div",
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "BCEWithLogitsLoss": LOGITS_LOSS,
}

_LAYERS = {
    "torch.nn.modules.linear.Linear": "linear",
    "torch.nn.modules.normalization.LayerNorm": "linear",
    "torch.nn.modules.linear.Identity": "clone",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.SiLU": "silu",
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.Softplus": "softplus",
    "torch.nn.modules.activation.LeakyReLU": "leaky_relu",
}
"""Layers that work on each row or element separately, each with a similar function."""
_FUNCTIONS = ("torch", "torch.nn.functional", "torch.special", "torch.linalg")


@dataclass(frozen=True, eq=False)
class Operation:
    """Call of a tensor operation, as a function or as a method."""

    call: cst.Call
    name: str
    """The function's or method's name, without the underscore of an in-place method."""
    operands: tuple[cst.BaseExpression, ...]
    """The tensor of a method, and all arguments."""
    method: bool = False
    in_place: bool = False

    @property
    def tensor(self) -> cst.BaseExpression:
        """First operand."""
        return self.operands[0]

    @property
    def options(self) -> tuple[cst.Arg, ...]:
        """Return the arguments after the tensor."""
        return tuple(self.call.args) if self.method else tuple(self.call.args[1:])

    def argument(self, name: str, place: int) -> cst.BaseExpression | None:
        """Return the option with keyword `name` or at position `place`; None if there is none.

        Positions are counted after the tensor.
        """
        for i, arg in enumerate(self.options):
            if (arg.keyword is None and i == place) or (arg.keyword and arg.keyword.value == name):
                return arg.value
        return None


def parse_operation(site: Site, call: cst.Call) -> Operation | None:
    """Return the operation of a call of a torch function or tensor method; None for other calls."""
    if any(arg.star for arg in call.args):
        return None
    values = tuple(arg.value for arg in call.args)
    module, _, name = site.callee_name(call).rpartition(".")
    seen = site.observed(call.func)
    if seen is not None and len(seen.types) == 1 and seen.types[0] in _LAYERS:
        return Operation(call, _LAYERS[seen.types[0]], values) if values else None
    if module in _FUNCTIONS or (not module and name in BUILTIN):
        return Operation(call, name, values) if values else None
    if not isinstance(call.func, cst.Attribute):
        return None
    owner = dotted_name(call.func.value).partition(".")[0]
    if owner in site.document.imports:
        return None
    name = call.func.attr.value
    bare = name.rstrip("_")
    return Operation(call, bare, (call.func.value, *values), True, bare != name)


def is_normalization(site: Site, made: Operation) -> bool:
    """Return whether an operation is a normalization layer, such as `nn.LayerNorm`."""
    seen = site.observed(made.call.func)
    return seen is not None and any(".normalization." in name for name in seen.types)


def gather_index(made: Operation) -> cst.BaseExpression | None:
    """Return the tensor of indices of a call of `gather` or `take_along_dim`.

    None if the call does not show it.
    """
    return made.argument("index", 1) if made.name == "gather" else made.argument("indices", 0)


def is_number(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a Python number."""
    inner = node.expression if isinstance(node, cst.UnaryOperation) else node
    negated = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    if isinstance(inner, cst.Integer | cst.Float) and not negated:
        return True
    seen = site.observed(node)
    return seen is not None and seen.is_number


def is_option(made: Operation, operand: cst.BaseExpression) -> bool:
    """Return whether an operand is not a tensor: a dtype, a device, a flag."""
    if made.name in ("to", "type", "type_as", "clone", "contiguous"):
        return operand is not made.tensor
    for arg in made.options:
        if arg.value is operand:
            known = arg.keyword is not None and arg.keyword.value not in ("other", "exponent")
            return known or isinstance(operand, cst.SimpleString)
    return False


def integer_literals(node: cst.BaseExpression | None) -> tuple[int, ...] | None:
    """Return the values of an integer literal, or of a tuple or list of them; else None."""
    if isinstance(node, cst.Tuple | cst.List):
        found = [integer_literal(element.value) for element in node.elements]
        return None if None in found else tuple(one for one in found if one is not None)
    one = integer_literal(node)
    return None if one is None else (one,)

"""Results of torch and NumPy functions, tensor methods, attributes and operators."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.analysis.torch_names import IN_PLACE, VIEWS, names_with
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    INT,
    PLAIN,
    SIZE,
    UNKNOWN,
    Data,
    External,
    Literal,
    Plain,
    Sequence,
    Tensor,
    Value,
    is_proved,
    is_tensor,
    join,
    make_sequence,
    sequence_of,
)

GIVES_TENSOR = names_with("gives-tensor")
GIVES_TENSORS = names_with("gives-tensors")
GIVES_LIST = names_with("gives-list")
GIVES_VALUE = names_with("gives-value")
GIVES_BOOL = names_with("gives-bool-tensor")
DYNAMIC = names_with("dynamic-shape") - {"where"}
ELEMENTWISE = names_with("elementwise")
LAYERS = names_with("layer")
CONTAINERS = frozenset({"ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict"})
RNNS = frozenset({"RNN", "LSTM", "GRU"})
CELLS = frozenset({"LSTMCell"})

TORCH_MODULES = ("torch.", "torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.")
TENSOR_ATTRIBUTES = word_set("T mT H mH real imag data grad")
PLAIN_ATTRIBUTES: Mapping[str, Value] = {
    **dict.fromkeys(("ndim", "itemsize", "nbytes", "output_nr", "_version"), INT),
    **dict.fromkeys(
        word_set("requires_grad is_leaf is_cuda is_sparse is_quantized is_nested is_mps"), BOOL
    ),
    "shape": SIZE,
    "dtype": (Plain("dtype"),),
    "device": (Plain("device"),),
    "layout": PLAIN,
}
SIZE_METHODS = word_set("size dim numel nelement ndimension stride storage_offset element_size")
FLOATS = word_set("float half double bfloat16")
INTS = word_set("long int short char byte argmax argmin argsort numel bincount")
KEEP_DTYPE = VIEWS | word_set(
    """
    abs clone contiguous cumsum flip gather index_select masked_fill masked_select pad repeat
    repeat_interleave roll rot90 scatter stack cat concat tile tril triu sort unique where max min
    amax amin fill clamp relu
    """
)
TENSOR_ONLY = word_set(
    """
        eq ne lt le gt ge
        size unsqueeze permute softmax log_softmax sigmoid masked_fill masked_fill_ view contiguous
        expand expand_as narrow index_select scatter scatter_ scatter_add gather detach cpu cuda
        to half bfloat16 double long float numel dim requires_grad backward is_contiguous bmm mm
        matmul addmm type_as new_zeros new_ones new_full new_tensor new_empty view_as chunk unbind
        unfold triu tril erf relu tanh norm topk unsqueeze_ requires_grad_ register_hook is_cuda
        is_floating_point grad_fn item add_ mul_ sub_ div_ copy_ zero_ fill_ clamp_
        repeat_interleave masked_select nonzero logsumexp movedim flatten index_add index_copy
        index_fill
        """
) | frozenset({"device"})
"""Attributes that identify a tensor among the usual arguments of a model."""
ONLY_TENSOR_METHODS = word_set(
    """
    unsqueeze permute softmax log_softmax sigmoid masked_fill expand_as index_select scatter
    scatter_add gather isnan isinf isfinite logsumexp amin amax masked_select nonzero topk
    any all sum mean abs argmax argmin max min
    bool float long half int eq ne lt gt le ge isclose logical_not view contiguous flatten clamp
    unbind chunk squeeze transpose
    """
)
"""Methods that make an unknown receiver count as a tensor."""
NUMERIC_ONLY = word_set(
    """
    T all any abs argmax argmin argsort clamp clip cos cumsum dtype exp log max mean min mT ndim
    pow prod reshape round shape sin sort split sqrt squeeze std sum swapaxes transpose unique var
    """
)
"""Attributes that tensors share with NumPy arrays."""


def tensor_attribute(tensor: Tensor, name: str) -> Value | None:
    """Return the abstract value of `tensor.name`: for `x.T` a tensor, for `x.ndim` an int.

    None if `name` is a method, or not a known attribute.
    """
    if tensor.dynamic and name == "shape":
        return (Data(tensor.proved, "size"),)
    if name in PLAIN_ATTRIBUTES:
        return PLAIN_ATTRIBUTES[name]
    if name in TENSOR_ATTRIBUTES:
        return (tensor,)
    return None


def function_name(qualified: str) -> str:
    """Return "where" for "torch.where"; "" if the name is not that of a function of torch."""
    module, _, last = qualified.rpartition(".")
    if f"{module}." in TORCH_MODULES or module in ("torch.functional", "torch.Tensor"):
        return last
    return ""


_OF_NUMBERS = word_set("add sub mul div true_divide floor_divide remainder pow maximum minimum")
"""Functions that give a constant tensor for two numbers."""


def torch_result(name: str, operands: list[Value], keywords: Mapping[str, Value]) -> Value:
    """Return the abstract value of the result of a torch function or tensor method.

    `name` is "where" for `torch.where`. `operands` are the positional arguments, with `self` first.
    The result is unknown for a function that the interpreter has no data on.
    """
    values = [*operands, *keywords.values()]
    tensors = list(_tensors(values))
    proved = True  # the call raises for anything but tensors
    dynamic = name in DYNAMIC or any(one.dynamic for one in tensors)
    base = name.removesuffix("_") if name in IN_PLACE else name
    kept = tensors[0].dtype if base != name and tensors else ""
    made = Tensor(proved, kept or _dtype_of(base, operands, keywords, tensors), dynamic)
    if name in _OF_NUMBERS and operands and all(map(_is_plain, operands)):
        return PLAIN  # Dynamo knows its value
    if name in SIZE_METHODS:
        if len(operands) > 1 and is_later_dimension(operands[1]):
            return INT
        if dynamic and name in ("size", "numel", "nelement"):
            return (Data(proved, "size" if name == "size" and len(operands) < 2 else "int"),)
        return SIZE if name == "size" and len(operands) < 2 else INT
    if name in ("tolist", "item", "equal", "allclose", "is_nonzero"):
        kind = {"tolist": "list", "item": ""}.get(name, "bool")
        return (Data(proved, kind),)
    if name == "where" and len(operands) + len(keywords) == 1:
        indices = (Tensor(proved, "int", True),)
        return (Sequence("tuple", None, indices),)
    if name == "nonzero":
        indices = (Tensor(proved, "int", True),)
        return (Sequence("tuple", None, indices),) if "as_tuple" in keywords else indices
    if name in ("unique", "unique_consecutive"):
        flags = word_set("return_inverse return_counts")
        if flags & keywords.keys() or len(operands) > 2:
            return sequence_of((made,), "tuple")
        return (made,)
    if name == "repeat_interleave" and not is_dynamic_repeat(operands, keywords):
        return (Tensor(proved, made.dtype, any(one.dynamic for one in tensors)),)
    if name in GIVES_TENSORS and (name not in GIVES_TENSOR or _has_dim(operands, keywords)):
        if name in ("max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax"):
            indices = (Tensor(proved, "int", dynamic),)
            return make_sequence("tuple", [(made,), indices])
        return sequence_of((made,), "tuple")
    if name in GIVES_LIST:
        return sequence_of((made,), "tuple")
    if name in GIVES_TENSOR or base in GIVES_TENSOR or name in IN_PLACE:
        return (made,)
    if name in GIVES_VALUE:
        return PLAIN
    return UNKNOWN


def is_later_dimension(index: Value) -> bool:
    """Return whether an index is a number other than 0: a mask selects along dimension 0."""
    return bool(index) and all(isinstance(one, Literal) and one.value != 0 for one in index)


def _is_plain(value: Value) -> bool:
    """Return whether a value is surely a number that depends on no tensor's elements."""
    return bool(value) and all(
        isinstance(one, Plain | Literal) and one.kind in ("int", "float", "bool") for one in value
    )


def is_dynamic_repeat(operands: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Return whether `repeat_interleave` repeats by a tensor and has no `output_size`."""
    counts = operands[1] if len(operands) > 1 else keywords.get("repeats", ())
    given = "output_size" in keywords
    return not given and any(isinstance(one, Tensor) for one in counts)


def _has_dim(operands: list[Value], keywords: Mapping[str, Value]) -> bool:
    """Return whether a call such as `x.max(dim=1)` has a dimension, and so returns indices too.

    In `x.max(y)` the second operand is a tensor, not a dimension.
    """
    if "dim" in keywords or "keepdim" in keywords or "axis" in keywords:
        return True
    second = operands[1] if len(operands) > 1 else ()
    return bool(second) and not any(isinstance(one, Tensor) for one in second)


def _tensors(values: Iterable[Value]) -> Iterable[Tensor]:
    for value in values:
        for one in value:
            if isinstance(one, Tensor):
                yield one
            elif isinstance(one, Sequence):
                yield from (inner for inner in one.element if isinstance(inner, Tensor))


def _dtype_of(
    name: str, operands: list[Value], keywords: Mapping[str, Value], tensors: list[Tensor]
) -> str:
    """Return the kind of dtype that a torch function returns: "bool", "int" or "float".

    "" if unknown. `name` is "where" for `torch.where`. `tensors` are the tensors among all its
    arguments.
    """
    if name in GIVES_BOOL or name in ("bool", "logical_not", "logical_and", "logical_or"):
        return "bool"
    if name in ("to", "type", "type_as", "zeros", "ones", "full", "tensor", "as_tensor", "empty"):
        given = dtype_named(keywords.get("dtype", ()))
        for operand in operands[1 if name in ("to", "type") else 0 :]:
            given = given or dtype_named(operand)
        if given or "dtype" in keywords:
            return given
    if name in FLOATS:
        return "float"
    if name in INTS:
        return "int"
    if "dtype" in keywords:
        return dtype_named(keywords["dtype"])
    if name in ("rand", "randn", "softmax", "sigmoid", "mean", "sqrt", "exp", "log", "linear"):
        return "float"
    if name == "arange":
        return "int" if all(is_int(one) for one in operands) else ""
    if name in ("zeros_like", "ones_like", "full_like", "empty_like"):
        return tensors[0].dtype if tensors else ""
    if name in ("and", "or", "xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"):
        kinds = {one.dtype for one in tensors}
        return kinds.pop() if len(kinds) == 1 else ""
    if name in KEEP_DTYPE:
        if name == "where" and len(tensors) > 1:
            kinds = {one.dtype for one in tensors[1:]}
            return kinds.pop() if len(kinds) == 1 else ""
        return tensors[0].dtype if tensors else ""
    if name in ELEMENTWISE:
        kinds = {one.dtype for one in tensors}
        return "float" if kinds == {"float"} else ""
    return ""


_DTYPES = {
    "torch.bool": "bool",
    "numpy.bool_": "bool",
    "torch.BoolTensor": "bool",
    **dict.fromkeys(
        word_set("torch.long torch.int torch.int64 torch.int32 torch.uint8 torch.int16 torch.int8"),
        "int",
    ),
    **dict.fromkeys(
        word_set("torch.float torch.float32 torch.float16 torch.bfloat16 torch.half torch.float64"),
        "float",
    ),
}


def dtype_named(value: Value) -> str:
    """Return the kind of dtype that `value` stands for: "float" for `torch.float16`.

    The kinds are "bool", "int" and "float". "" if `value` is not a known dtype.
    """
    for one in value:
        if isinstance(one, External):
            return _DTYPES.get(one.name, "")
    return ""


def is_int(value: Value) -> bool:
    """Return whether an abstract value is certainly a Python int.

    It may be a known constant, such as 3, or depend on data, such as `x.argmax().item()`.
    """
    return bool(value) and all(
        isinstance(one, Plain | Literal | Data) and one.kind == "int" for one in value
    )


COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv, ast.Pow, ast.MatMult)
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert)


def operator_result(operator: ast.AST, values: list[Value]) -> Value | None:
    """Return the result of an operator; None if no operand is a tensor or depends on data."""
    found: Value = ()
    tensors = [one for value in values for one in value if isinstance(one, Tensor)]
    if tensors:
        whole = any(
            bool(value) and all(isinstance(one, Tensor) for one in value) for value in values
        )
        made = Tensor(
            any(is_tensor(value) and is_proved(value) for value in values),
            _operator_dtype(operator, tensors, values),
            any(one.dynamic for one in tensors),
            all(one.array for one in tensors),
        )
        return (made,) if whole else join((made,), UNKNOWN)
    data = [one for value in values for one in value if isinstance(one, Data)]
    if data:
        whole = any(bool(value) and all(isinstance(o, Data) for o in value) for value in values)
        kind = "bool" if isinstance(operator, COMPARISONS) else ""
        sure = any(bool(value) and is_proved(value) for value in values)
        found = (Data(sure, kind, all(one.random for one in data)),)
        return found if whole else join(found, UNKNOWN)
    return None


def _operator_dtype(operator: ast.AST, tensors: list[Tensor], values: list[Value]) -> str:
    if isinstance(operator, COMPARISONS):
        return "bool"
    kinds = {one.dtype for one in tensors}
    if isinstance(operator, _BITWISE):
        return kinds.pop() if len(kinds) == 1 else ""
    if "float" in kinds or isinstance(operator, ast.Div):
        return "float"
    if isinstance(operator, (*_ARITHMETIC, ast.USub, ast.UAdd)) and kinds == {"int"}:
        others = [value for value in values if not any(isinstance(o, Tensor) for o in value)]
        return "int" if all(is_int(value) for value in others) else ""
    return ""

"""Convert type annotations to abstract values."""

from __future__ import annotations

import ast

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    PLAIN,
    STR,
    UNKNOWN,
    Instance,
    Mapping,
    Object,
    Plain,
    Tensor,
    Value,
    join,
    join_all,
    make_sequence,
    sequence_of,
)
from fullgraph.rewrites.check.project import ClassDefinition, Module
from fullgraph.rewrites.check.syntax import dotted

_PLAIN = {
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "bytes": PLAIN,
    "None": NONE,
    "torch.dtype": (Plain("dtype"),),
    "torch.device": (Plain("device"),),
    "torch.Size": (Plain("size"),),
}
_SEQUENCES = {
    **dict.fromkeys(word_set("list List typing.List Sequence typing.Sequence Iterable"), "list"),
    **dict.fromkeys(word_set("typing.Iterable collections.abc.Sequence"), "list"),
    **dict.fromkeys(word_set("collections.abc.Iterable set Set typing.Set frozenset"), "list"),
}
_DICTS = word_set(
    """
    dict Dict typing.Dict Mapping typing.Mapping collections.abc.Mapping collections.OrderedDict
    """
)
_BOOL_TENSORS = word_set("torch.BoolTensor torch.cuda.BoolTensor jaxtyping.Bool")
_INT_TENSORS = word_set("torch.LongTensor torch.IntTensor jaxtyping.Int jaxtyping.Integer")
_FLOAT_TENSORS = word_set("torch.FloatTensor torch.HalfTensor jaxtyping.Float")
_JAXTYPING = word_set(
    """
    Float Int Integer Bool Num Shaped Complex Inexact Real UInt Float32 Float16 Int64 Int32 BFloat16
    """
)


def value_of_annotation(node: ast.expr | None, module: Module, depth: int = 0) -> Value:
    """Return the abstract value that an annotation describes: for `Tensor`, a tensor.

    Unknown if `node` is None. `depth` is the number of annotations around this one: 1 for the `int`
    in `list[int]`.
    """
    if node is None or depth > 6:
        return UNKNOWN
    match node:
        case ast.Constant(value=None):
            return NONE
        case ast.Constant(value=str(text)):
            return _value_of_text(text, module, depth)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return join(
                value_of_annotation(left, module, depth + 1),
                value_of_annotation(right, module, depth + 1),
            )
        case ast.Subscript(value=base, slice=inner):
            return _value_of_subscript(base, inner, module, depth)
    return _value_of_name(dotted(node), module)


def _value_of_text(text: str, module: Module, depth: int) -> Value:
    try:
        return value_of_annotation(ast.parse(text, mode="eval").body, module, depth + 1)
    except (SyntaxError, ValueError, RecursionError):
        return UNKNOWN


def _qualified(name: str, module: Module) -> str:
    return module.qualified(name) or name


def _value_of_name(name: str, module: Module) -> Value:
    """Return the value that an annotation without brackets describes, such as `Tensor`."""
    qualified = _qualified(name, module)
    if qualified in _PLAIN:
        return _PLAIN[qualified]
    if (tensor := _tensor_named(qualified)) is not None:
        return (tensor,)
    known = module.find(name)
    if isinstance(known, ClassDefinition):
        return (Instance(known),)
    if isinstance(known, str) and known.startswith("torch.nn.") and name != "torch.nn.Module":
        return UNKNOWN
    if qualified in ("dict", "typing.Dict"):
        return (Mapping((), UNKNOWN),)
    if qualified in ("list", "tuple", "typing.List", "typing.Tuple"):
        return sequence_of(UNKNOWN)
    if isinstance(known, str) and not known.startswith(("typing.", "torch.")) and "." in known:
        return UNKNOWN
    return (Object(qualified),) if qualified in ("logging.Logger", "random.Random") else UNKNOWN


def _tensor_named(qualified: str) -> Tensor | None:
    """Return the tensor that a class stands for in an annotation: bool for "torch.BoolTensor".

    `qualified` is the name of the class. None if it is not a class of tensors or NumPy arrays.
    """
    last = qualified.rpartition(".")[2]
    if qualified in _BOOL_TENSORS:
        return Tensor(dtype="bool")
    if qualified in _INT_TENSORS:
        return Tensor(dtype="int")
    if qualified in _FLOAT_TENSORS:
        return Tensor(dtype="float")
    if last in ("Tensor", "TensorType") or qualified.endswith("torch.nn.Parameter"):
        return Tensor()
    if qualified.startswith("torch.") and last.endswith("Tensor"):
        return Tensor()
    return Tensor(array=True) if qualified in ("numpy.ndarray", "numpy.typing.NDArray") else None


def _value_of_subscript(base: ast.expr, inner: ast.expr, module: Module, depth: int) -> Value:
    """Return the abstract value of a generic annotation: `list[int]`, `Float[Tensor, "b c"]`.

    `base` is the node before the brackets, `inner` the one inside. `depth` is the number of
    annotations that this one is nested in.
    """
    qualified = _qualified(dotted(base), module)
    last = qualified.rpartition(".")[2]
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    values = [value_of_annotation(one, module, depth + 1) for one in parts if _is_type(one)]
    if last in ("Optional",):
        return join(values[0], NONE) if values else UNKNOWN
    if last in ("Union",):
        return join_all(values) or UNKNOWN
    if last in ("Annotated", "Final", "Required", "NotRequired", "Unpack") and values:
        return values[0]
    if last in _JAXTYPING and values and isinstance(values[0][0], Tensor):
        kind = "bool" if last == "Bool" else "int" if "Int" in last else ""
        return (Tensor(dtype=kind or ("float" if "Float" in last else "")),)
    if qualified in ("tuple", "Tuple", "typing.Tuple"):
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis:
            return sequence_of(values[0] if values else UNKNOWN, "tuple")
        return make_sequence("tuple", values)
    if qualified in _SEQUENCES:
        return sequence_of(values[0] if values else UNKNOWN)
    if qualified in _DICTS:
        return (Mapping((), values[1] if len(values) > 1 else UNKNOWN),)
    if (tensor := _tensor_named(qualified)) is not None:
        return (tensor,)
    return UNKNOWN


def _is_type(node: ast.expr) -> bool:
    """Return whether `node`, one of the arguments in `tuple[int, ...]`, is a type and not `...`."""
    return not (isinstance(node, ast.Constant) and node.value is Ellipsis)

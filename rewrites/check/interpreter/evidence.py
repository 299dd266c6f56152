"""Evidence, from its uses, whether a parameter without annotation is a tensor."""

from __future__ import annotations

import ast
from enum import Enum

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.analysis.torch_names import names_with
from fullgraph.rewrites.check.interpreter.operations import NUMERIC_ONLY, TENSOR_ONLY
from fullgraph.rewrites.check.project import FunctionDefinition, Module
from fullgraph.rewrites.check.syntax import dotted

_FIRST_OPERAND = names_with("gives-tensor") - word_set(
    "arange as_tensor asarray empty eye full linspace ones rand randint randn randperm tensor zeros"
    " from_numpy stack cat concat where"
)
_CONTAINER_METHODS = word_set(
    "append get items keys values pop extend update join strip startswith endswith lower"
)


class Evidence(Enum):
    """What the uses of a parameter show of its type."""

    TENSOR = "tensor"
    """It is a tensor: a use needs a tensor or array."""
    OTHER = "other"
    """It is not a tensor: a use is one that tensors do not support."""
    NONE = "none"
    """Its uses do not show whether it is a tensor."""


def evidence_for(function: FunctionDefinition, name: str) -> Evidence:
    """Return what the uses of the parameter `name` show of its type: whether it is a tensor.

    Only uses up to the first assignment to the name count.
    """
    module = function.module
    nodes = [node for node in function.nodes if hasattr(node, "lineno")]
    bound = min(
        (
            node.end_lineno or node.lineno
            for node in nodes
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ),
        default=1 << 30,
    )
    found = Evidence.NONE
    for node in nodes:
        if node.lineno > bound:
            continue
        seen = _evidence_of(node, name, module)
        if seen is Evidence.OTHER:
            return seen
        if seen is Evidence.TENSOR:
            found = seen
    return found


def _evidence_of(node: ast.AST, name: str, module: Module) -> Evidence:
    """Return what `node` shows of the variable `name`: it is a tensor, it is not, or nothing.

    `x.shape` and `x @ y` show that `x` is a tensor; `isinstance(x, …)` and `*x` that it is not.
    """
    match node:
        case ast.Attribute(value=ast.Name(id=used), attr=attribute) if used == name:
            if attribute in TENSOR_ONLY or attribute in NUMERIC_ONLY:
                return Evidence.TENSOR
            if attribute in _TENSOR_API:
                return Evidence.NONE
            return Evidence.OTHER
        case ast.Subscript(value=ast.Name(id=used), slice=index) if used == name:
            match index:
                case ast.Constant(value=str()):
                    return Evidence.OTHER
                case ast.Tuple(elts=elements) if any(
                    isinstance(one, ast.Slice)
                    or (isinstance(one, ast.Constant) and one.value in (None, Ellipsis))
                    for one in elements
                ):
                    return Evidence.TENSOR
        case ast.Call(func=function, args=[ast.Name(id=used), *_]) if used == name:
            return _evidence_of_call(dotted(function), module)
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            if any(isinstance(one, ast.Name) and one.id == name for one in (left, right)):
                return Evidence.TENSOR
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=used), _]) if used == name:
            return Evidence.OTHER
        case ast.Starred(value=ast.Name(id=used)) if used == name:
            return Evidence.OTHER
    return Evidence.NONE


def _evidence_of_call(path: str, module: Module) -> Evidence:
    """Return what a call of `path` shows of its first argument: whether it is a tensor.

    `torch.relu(x)` shows that `x` is a tensor, `isinstance(x, …)` that it is not.
    """
    qualified = module.qualified(path)
    if path == "isinstance":
        return Evidence.OTHER
    owner, _, last = qualified.rpartition(".")
    if owner in ("torch", "torch.nn.functional", "torch.linalg", "torch.special"):
        return Evidence.TENSOR if last in _FIRST_OPERAND else Evidence.NONE
    return Evidence.NONE


_TENSOR_API = (
    names_with("gives-tensor")
    | names_with("gives-value")
    | names_with("in-place")
    | names_with("gives-tensors")
    | names_with("view")
    | names_with("gives-list")
    | word_set("grad grad_fn is_leaf layout names numpy tolist data names type copy")
) - _CONTAINER_METHODS

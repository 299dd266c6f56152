"""Parameters and sizes that likely differ from call to call, so that guards fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fullgraph.rewrites.check.interpreter.machine import Env
from fullgraph.rewrites.check.interpreter.recompiles import kind_of_plain
from fullgraph.rewrites.check.interpreter.values import Tensor
from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition
from fullgraph.rewrites.check.syntax import dotted, statements_of, walk

_SETTING = re.compile(
    r"(num|n|max|min|use|with|is|has|total)_.*|.*_(dim|size|heads|dims|eps|id|token)|dim|axis|eps|"
    r"reduction|mode|dtype|device|groups|heads"
)
"""Names of parameters that are settings: the same in all calls."""


@dataclass(frozen=True)
class Input:
    """A parameter, or the size of one, that likely differs from call to call."""

    node: ast.expr | ast.arg
    construct: str
    constant: bool
    """Whether Dynamo takes it as a constant, so that each other value recompiles."""


def changing_inputs(function: FunctionDefinition, env: Env) -> Iterator[Input]:
    """Yield the parameters and sizes that likely differ from call to call.

    `env` holds the values of the parameters.
    """
    parameters = function.node.args
    every = [*parameters.posonlyargs, *parameters.args]
    for one in every[: len(every) - len(parameters.defaults)]:
        kind = kind_of_plain(env.get(one.arg, ()))
        if kind in ("int", "float") and not _SETTING.fullmatch(one.arg):
            constant = is_constant_in_graph(function, one.arg)
            number = "int_range" if kind == "int" and constant else kind
            yield Input(one, f"recompile.{number}_argument", constant)
    tensors = {n for n, v in env.items() if any(isinstance(o, Tensor) for o in v)}
    body = function.node.body if isinstance(function.node.body, list) else ()
    for node in statements_of(body):
        if isinstance(node, ast.For) and (size := _size_in_range(node.iter, tensors)) is not None:
            yield Input(size, "recompile.loop_over_size", False)


def is_constant_in_graph(function: FunctionDefinition, name: str) -> bool:
    """Return whether a number decides how often a loop runs, takes a layer, or drops out."""
    for node in function.nodes:
        match node:
            case ast.Call(func=ast.Name(id="range"), args=args):
                if any(isinstance(o, ast.Name) and o.id == name for a in args for o in walk(a)):
                    return True
            case ast.Call(func=called, args=[_, ast.Name(id=rate), *_]) if rate == name:
                if dotted(called).endswith("dropout"):
                    return True
            case ast.Subscript(value=ast.Attribute(), slice=ast.Name(id=index)) if index == name:
                return True
    return False


def _size_in_range(node: ast.expr, tensors: set[str]) -> ast.expr | None:
    """Return `x.shape[0]` of `range(x.shape[0])`, for example, if `x` is one of the tensors."""
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[*_, bound]):
            for one in walk(bound):
                match one:
                    case (
                        ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"))
                        | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"))
                        | ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)])
                    ) if name in tensors:
                        return one
    return None


def set_from_outside(kind: ClassDefinition) -> frozenset[str]:
    """Return the attributes of `self` that methods of a class itself set to a parameter.

    `__init__` and `forward` do not count.
    """
    found: set[str] = set()
    for name, method in kind.own_methods.items():
        body = method.node.body
        if name in ("__init__", "forward", "__call__") or not isinstance(body, list):
            continue
        names = {arg.arg for arg in method.node.args.args[1:]}
        found |= {
            target.attr
            for node in statements_of(body)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Name)
            and node.value.id in names
            for target in node.targets
            if isinstance(target, ast.Attribute) and dotted(target.value) == "self"
        }
    return frozenset(found)

"""Write NumPy calls that Dynamo traced as tensor operations as NumPy calls again."""

from __future__ import annotations

import ast

import torch
from torch import fx

from fullgraph.compiler.private import NumpyCall, numpy_call
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.node_writer import NodeWriter


def write_numpy_call(node: fx.Node, call: NumpyCall, writer: NodeWriter) -> ast.expr:
    """Return the NumPy call that Dynamo traced as `node`, such as `np.sum(x.numpy())`.

    `call` is the function, method, operator or attribute of NumPy that is used.
    """
    args = [_array_expression(arg, writer) for arg in node.args]
    kwargs = {key: _array_expression(arg, writer) for key, arg in node.kwargs.items()}
    if call.kind == "attribute":
        return ast.Attribute(args[0], str(node.args[1]), ast.Load())
    if call.kind == "operator" and call.operator is not None:
        made = syntax.operation(call.operator, args)
        if made is not None:
            return made
    if call.kind == "method":
        return syntax.call(ast.Attribute(args[0], call.name, ast.Load()), args[1:], kwargs)
    writer.shared.imports.add("import numpy as np")
    return syntax.call(syntax.path(f"np.{call.name}"), args, kwargs)


def is_to_numpy(node: fx.Node) -> bool:
    """Return whether `node` is the `view_as` call that Dynamo traces for `x.numpy()`."""
    same = node.target == "view_as" and len(node.args) == 2 and node.args[0] is node.args[1]
    return same and all(numpy_call(user.target) for user in node.users)


def _array_expression(thing: object, writer: NodeWriter) -> ast.expr:
    """Return an argument of a NumPy call as an expression: `x.numpy()` for a tensor `x`."""
    made = writer.value(thing)
    if not isinstance(thing, fx.Node) or numpy_call(thing.target) is not None:
        return made
    value = writer.knowledge.of(thing)
    if value is not None and not isinstance(value, torch.Tensor):
        return made
    return syntax.call(ast.Attribute(made, "numpy", ast.Load()), [], {})

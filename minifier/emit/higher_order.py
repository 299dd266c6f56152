"""Write higher-order operators as the public functions that created them."""

from __future__ import annotations

import ast
from typing import Any

from torch import fx

from fullgraph.compiler.private import public_name, triton_constants, triton_function, triton_kernel
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.node_writer import NodeWriter
from fullgraph.minifier.emit.operator_definitions import collect_kernel_sources
from fullgraph.minifier.emit.program_text import Unwritable


def write_higher_order(node: fx.Node, writer: NodeWriter) -> ast.expr | None:
    """Return a higher-order operator's call as users write it, such as `checkpoint(f, x)`.

    `node` calls the operator. None if there is no such form; then the operator itself is to be
    called. Raises Unwritable if the form cannot express the arguments.
    """
    title = (public_name(node.target) or "").rpartition(".")[2]
    make = _WRITERS.get(title)
    return None if make is None else make(node, writer)


def _write_cond(node: fx.Node, writer: NodeWriter) -> ast.expr:
    return syntax.call(syntax.path("torch.cond"), [writer.value(arg) for arg in node.args], {})


def _write_checkpoint(node: fx.Node, writer: NodeWriter) -> ast.expr:
    """Return the call `torch.utils.checkpoint.checkpoint(…)` with the arguments of `node`."""
    args = [writer.value(arg) for arg in node.args]
    kwargs = {key: writer.value(arg) for key, arg in node.kwargs.items()}
    return syntax.call(syntax.path("torch.utils.checkpoint.checkpoint"), args, kwargs)


def _write_region(node: fx.Node, writer: NodeWriter) -> ast.expr:
    """Return a call of a nested compile region; add the region's function to the script."""
    body, _, *operands = node.args
    module = writer.submodule(body)
    if module is None:
        raise Unwritable("This call of a nested compile region cannot be written.")
    assert isinstance(body, fx.Node)
    name = f"region_{str(body.target).rpartition('_')[2]}"  # subgraph_0 is a name of Dynamo's
    if name not in writer.shared.definitions:
        text = syntax.text(writer.standalone_function(module, name))
        writer.shared.definitions[name] = f"@torch.compiler.nested_compile_region\n{text}"
    return syntax.call(syntax.name(name), [writer.value(operand) for operand in operands], {})


def _write_kernel(node: fx.Node, writer: NodeWriter) -> ast.expr:
    """Return the launch of a Triton kernel; add the kernel's source to the script."""
    told: dict[str, Any] = dict(node.kwargs)
    grids = told["grid"]
    if told.get("tma_descriptor_metadata") or any(grid != grids[0] for grid in grids):
        raise Unwritable("This launch of a Triton kernel cannot be written as Python source.")
    function = triton_function(triton_kernel(told["kernel_idx"]))
    if function is None:
        raise Unwritable("The source of a Triton kernel cannot be found.")
    texts, imports = collect_kernel_sources(function)
    writer.shared.definitions.update(texts)
    writer.shared.imports.update(imports)
    arguments = {**told["kwargs"], **triton_constants(told["constant_args_idx"])}
    launched = ast.Subscript(syntax.name(function.__name__), writer.value(tuple(grids[0])))
    return syntax.call(launched, [], {key: writer.value(arg) for key, arg in arguments.items()})


def _write_autograd_function(node: fx.Node, writer: NodeWriter) -> ast.expr:
    """Define a `torch.autograd.Function` of two graphs, and return the call of its `apply`."""
    told = {"non_differentiable_idx", "saved_for_backward_idx", "dirty_idx"}
    if set(node.kwargs) - told or node.kwargs.get("dirty_idx"):
        raise Unwritable("This call of a torch.autograd.Function cannot be written.")
    forward, backward = (writer.submodule(arg) for arg in node.args[:2])
    if forward is None or backward is None:
        raise Unwritable("This call of a torch.autograd.Function cannot be written.")
    name = writer.names.other("Function")
    kept = set(node.kwargs["saved_for_backward_idx"])  # type: ignore[arg-type]
    constant = list(node.kwargs["non_differentiable_idx"])  # type: ignore[arg-type]
    methods = [
        writer.standalone_function(forward, "forward"),
        writer.standalone_function(backward, "backward"),
    ]
    _rewrite_forward(methods[0], kept, constant)
    _rewrite_backward(methods[1], len(_saved_values(forward)), kept)
    made = ast.parse(f"class {name}(torch.autograd.Function): pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.body = [*methods]
    writer.define(made)
    return syntax.call(
        syntax.path(f"{name}.apply"), [writer.value(arg) for arg in node.args[2:]], {}
    )


def _saved_values(forward: fx.GraphModule) -> Any:
    """Return the nodes whose values a forward graph saves for its backward graph."""
    return forward.graph.output_node().args[0][1]  # type: ignore[index]


def _rewrite_forward(forward: ast.FunctionDef, kept: set[int], constant: list[int]) -> None:
    """Replace `return outs, saved` by statements that save `saved` in `ctx`, and `return outs`.

    `kept` are the positions in `saved` of the tensors for `ctx.save_for_backward`; the others
    become attributes. `constant` are the positions of the outputs that are not differentiable.
    """
    _make_static(forward)
    last = forward.body.pop()
    assert isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)
    outs, saved = last.value.elts
    assert isinstance(outs, ast.Tuple) and isinstance(saved, ast.Tuple)
    tensors = [item for place, item in enumerate(saved.elts) if place in kept]
    if tensors:
        forward.body.append(_call_statement("ctx.save_for_backward", tensors))
    for place, item in enumerate(saved.elts):
        if place not in kept:
            target = ast.Attribute(syntax.name("ctx"), f"saved_{place}", ast.Store())
            forward.body.append(ast.Assign([target], item))
    if constant:
        forward.body.append(
            _call_statement("ctx.mark_non_differentiable", [outs.elts[place] for place in constant])
        )
    forward.body.append(ast.Return(outs))


def _rewrite_backward(backward: ast.FunctionDef, count: int, kept: set[int]) -> None:
    """Replace the last `count` parameters of `backward`, the saved values, by reads of `ctx`.

    `kept` are the positions of the tensors that `ctx.save_for_backward` saved; the others are
    attributes of `ctx`.
    """
    arguments = backward.args.args
    saved = arguments[len(arguments) - count :] if count else []
    del arguments[len(arguments) - count :]
    _make_static(backward)
    lines: list[ast.stmt] = []
    tensors = [ast.Name(arg.arg, ast.Store()) for i, arg in enumerate(saved) if i in kept]
    if tensors:
        target = ast.Tuple([*tensors], ast.Store())
        lines.append(ast.Assign([target], syntax.path("ctx.saved_tensors")))
    for place, arg in enumerate(saved):
        if place not in kept:
            name = ast.Name(arg.arg, ast.Store())
            lines.append(ast.Assign([name], syntax.path(f"ctx.saved_{place}")))
    backward.body[:0] = lines
    last = backward.body[-1]
    if (
        isinstance(last, ast.Return)
        and isinstance(last.value, ast.Tuple)
        and not last.value.elts[1:]
    ):
        last.value = last.value.elts[0]


def _make_static(method: ast.FunctionDef) -> None:
    """Make a function a static method with `ctx` as its first parameter."""
    method.args.args.insert(0, ast.arg("ctx"))
    method.decorator_list.append(syntax.name("staticmethod"))


def _call_statement(name: str, args: list[ast.expr]) -> ast.Expr:
    return ast.Expr(syntax.call(syntax.path(name), args, {}))


_WRITERS: dict[str, Any] = {
    "cond": _write_cond,
    "tag_activation_checkpoint": _write_checkpoint,
    "invoke_subgraph": _write_region,
    "autograd_function_apply": _write_autograd_function,
    "triton_kernel_wrapper_mutation": _write_kernel,
}

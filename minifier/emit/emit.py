"""Write a graph with its inputs as Python source."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from fullgraph.compiler.isolation import group_statements, groups_of_graph
from fullgraph.compiler.numerics import Tolerance, tolerance_of
from fullgraph.compiler.private import tree_leaves
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.graph_writer import Writer
from fullgraph.minifier.emit.input_statements import assign_inputs
from fullgraph.minifier.emit.literals import imports
from fullgraph.minifier.emit.node_writer import Shared
from fullgraph.minifier.emit.program_text import ProgramText
from fullgraph.minifier.graphs import KnownValues, draws_random, find_known_values, nested_nodes


def source(graph: fx.GraphModule, inputs: Sequence[object], *, name: str = "f") -> ProgramText:
    """Return the source of `graph` as a function called `name`, and of its `inputs`.

    Raises Unwritable if the graph or an input has a value that no source reproduces.
    """
    knowledge = find_known_values(graph, inputs)
    writer = Writer(Shared(), knowledge)
    function = syntax.text(writer.function(graph, name, inputs))
    shared = writer.shared
    values = {**writer.arguments, **shared.constants}
    statements = assign_inputs(values)
    returned = _known_outputs(graph, knowledge)
    return ProgramText(
        "\n\n\n".join((*shared.definitions.values(), function)),
        statements,
        target=name,
        arguments=tuple(values),
        imports=tuple(sorted({*shared.imports, *imports(statements + function)})),
        prelude=group_statements(groups_of_graph(graph)) if shared.collective else "",
        under=active_modes_source(),
        outputs=writer.outputs,
        loss=_loss_expression(returned, writer.outputs),
        mutates=knowledge.mutates,
        random=any(draws_random(node) for node in nested_nodes(graph)),
        places=writer.places,
        tolerance=_tightest_tolerance(returned),
    )


def _known_outputs(graph: fx.GraphModule, knowledge: KnownValues) -> list[object]:
    """Return the values or fake tensors that a graph returns, in a list; None where unknown."""
    found = tree_leaves(graph.graph.output_node().args[0])
    return [knowledge.of(node) if isinstance(node, fx.Node) else node for node in found]


def _loss_expression(returned: Sequence[object], outputs: int | None) -> str:
    """Return the source of a scalar to call `backward` on; its `{}` is the result: "{}.sum()".

    `returned` are the tensors and other values in the result. `outputs` is 1 if the result is a
    tensor, its length if it is a tuple, None for anything else. "" if no tensor requires grad.
    """
    tensors = [value for value in returned if isinstance(value, torch.Tensor)]
    if len(tensors) == len(returned) and not any(value.requires_grad for value in tensors):
        return ""
    if outputs != 1 or len(tensors) != 1:
        return "sum(y.sum() for y in {} if y.requires_grad)"
    if tensors[0].is_complex():
        return "torch.view_as_real({}).sum()"
    return "{}.sum()" if tensors[0].dim() else "{}"


def _tightest_tolerance(returned: Sequence[object]) -> Tolerance:
    """Return the tightest of the default tolerances for the dtypes of the tensors in `returned`.

    If none of them is floating-point, the default of `ProgramText`.
    """
    dtypes = {value.dtype for value in returned if isinstance(value, torch.Tensor)}
    floating = [tolerance_of(each) for each in dtypes if each.is_floating_point or each.is_complex]
    return min(floating, key=lambda each: each.rtol, default=ProgramText.tolerance)


def active_modes_source() -> tuple[str, ...]:
    """Return the modes that are on in this thread, as context managers: ("torch.no_grad()",)."""
    found = []
    if torch.is_inference_mode_enabled():
        found.append("torch.inference_mode()")
    elif not torch.is_grad_enabled():
        found.append("torch.no_grad()")
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            found.append(f'torch.autocast("{device}", dtype={torch.get_autocast_dtype(device)})')
    return tuple(found)

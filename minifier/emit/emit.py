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

    Raises Unwritable.
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
    """Return the known values of a graph's outputs, flattened."""
    found = tree_leaves(graph.graph.output_node().args[0])
    return [knowledge.of(node) if isinstance(node, fx.Node) else node for node in found]


def _loss_expression(returned: Sequence[object], outputs: int | None) -> str:
    """Return the expression on which `backward` is called, with `{}` for the result: "{}.sum()".

    `returned` are the values that the graph returns. `outputs` is 1 if it returns a tensor, the
    length of a tuple, None for anything else. "" if no returned value requires grad.
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
    """Return the tightest of the tolerances for the dtypes of the results."""
    dtypes = {value.dtype for value in returned if isinstance(value, torch.Tensor)}
    floating = [tolerance_of(each) for each in dtypes if each.is_floating_point or each.is_complex]
    return min(floating, key=lambda each: each.rtol, default=ProgramText.tolerance)


def active_modes_source() -> tuple[str, ...]:
    """Return the modes that are on in this thread, as source: "torch.no_grad()"."""
    found = []
    if torch.is_inference_mode_enabled():
        found.append("torch.inference_mode()")
    elif not torch.is_grad_enabled():
        found.append("torch.no_grad()")
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            found.append(f'torch.autocast("{device}", dtype={torch.get_autocast_dtype(device)})')
    return tuple(found)

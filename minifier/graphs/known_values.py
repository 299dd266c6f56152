"""Values of graph nodes that are known from an eager run or from tracing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fullgraph.compiler.private import captures_scalars
from fullgraph.minifier.graphs.node_values import evaluate_nodes
from fullgraph.minifier.graphs.purity import nested_nodes, writes_arguments


@dataclass(frozen=True, eq=False)
class KnownValues:
    """Values of a graph's nodes, for the nodes whose values are known."""

    results: Mapping[fx.Node, object] = field(default_factory=dict)
    mutates: bool = False
    """Whether the graph writes to one of its inputs."""

    def of(self, node: Any) -> object:
        """Return the value of a node, else its fake tensor; None if neither is known."""
        if node in self.results:
            return self.results[node]
        return node.meta.get("example_value", node.meta.get("val"))


def find_known_values(graph: fx.GraphModule, inputs: Sequence[object]) -> KnownValues:
    """Run a graph in eager on `inputs`, and return the values of its nodes.

    If the graph cannot run in this process, no values are known; whether it writes to its inputs is
    then judged from the names of its operators.
    """
    placeholders = graph.graph.find_nodes(op="placeholder")
    try:
        found = evaluate_nodes(graph, inputs)
    except Exception:  # a process group that is not there
        return KnownValues({}, any(writes_arguments(node) for node in nested_nodes(graph)))
    into = {place for node in placeholders for place in found.storages(node)}
    return KnownValues(found.results, any(places & into for places in found.writes.values()))


def find_size_inputs(
    nodes: Sequence[fx.Node], inputs: Sequence[object]
) -> Iterator[tuple[fx.Node, tuple[fx.Node, int]]]:
    """Yield (input, (tensor, axis)) for each integer input that is the size of a tensor input.

    `nodes` are the placeholders. The integer can be read from the tensor: `x.shape[0]`.
    """
    for node, value in zip(nodes, inputs, strict=True):
        symbol = node.meta.get("example_value", node.meta.get("val"))
        free = isinstance(symbol, torch.SymInt) or node.name.strip("s").isdigit()
        if not isinstance(value, int | torch.SymInt) or isinstance(value, bool) or not free:
            continue
        for other, tensor in zip(nodes, inputs, strict=True):
            fake = other.meta.get("example_value", other.meta.get("val"))
            like = fake if isinstance(fake, torch.Tensor) else tensor
            wanted = str(symbol) if like is fake else str(value)
            if isinstance(like, torch.Tensor) and like.layout is torch.strided:
                axes = [axis for axis, size in enumerate(like.shape) if str(size) == wanted]
                if axes:
                    yield node, (other, axes[0])
                    break


def is_python_float(node: fx.Node, value: object) -> bool:
    """Return whether an input is a Python float that Dynamo passes as a tensor."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float64 or value.dim():
        return False
    read = bool(node.users) and all(user.target == "item" for user in node.users)
    return read and not captures_scalars()

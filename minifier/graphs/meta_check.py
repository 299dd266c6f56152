"""Check whether a candidate graph runs on meta tensors."""

from __future__ import annotations

import copy
from functools import cached_property

import torch
from torch.fx import Node

from fullgraph.compiler.private import tree_map
from fullgraph.minifier.graphs.bound_graph import BoundGraph
from fullgraph.minifier.graphs.interpreter import RegionInterpreter


class MetaCheck:
    """Predicate that rejects graphs that fail on the meta device, where they run quickly.

    If even the graph from which it was constructed fails there, it accepts every graph.
    """

    def __init__(self, known: BoundGraph) -> None:
        """`known` is a graph that is known to run on the program's device."""
        self._start = known

    def __call__(self, graph: BoundGraph) -> bool:
        return not self._is_informative or _runs_on_meta(graph)

    @cached_property
    def _is_informative(self) -> bool:
        return _runs_on_meta(self._start)


def _runs_on_meta(graph: BoundGraph) -> bool:
    """Return whether a graph runs on meta tensors."""
    try:
        _MetaInterpreter(graph.module).run_inputs(tree_map(_to_meta, graph.inputs))
    except Exception:
        return False
    return True


class _MetaInterpreter(RegionInterpreter):
    """FX interpreter that runs calls, constants and modules on the meta device."""

    def run_node(self, n: Node) -> object:
        if n.op == "call_module":
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return copy.deepcopy(self.fetch_attr(str(n.target))).to("meta")(*args, **kwargs)
        value = super().run_node(n)
        return _to_meta(value) if n.op == "get_attr" else value


def _to_meta(value: object) -> object:
    """Return a tensor on the meta device, with the same strides and autograd state.

    Other values are returned unchanged.
    """
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        if value.layout is not torch.strided or value.is_quantized:
            return value.detach().to("meta")
        twin = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        if value.requires_grad:
            twin.requires_grad_()
    return twin if value.is_leaf else twin.clone()

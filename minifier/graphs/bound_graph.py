"""FX graph bound to its inputs, and the smaller graphs that can be cut from it."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.private import (
    find_redundant_switches,
    is_functorch_wrapped,
    is_mode_switch,
    tree_leaves,
)
from fullgraph.minifier.graphs.fingerprint import fingerprint
from fullgraph.minifier.graphs.node_values import NodeValues, evaluate_nodes

_LITERALS = (
    *(bool, int, float, complex, str, type(None), type(...), range),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "custom")
"""Keys of node metadata that remain true when a node is copied to another graph."""


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


class Inseparable(Exception):
    """Raised if a part of a graph needs an input that no tensor can be, such as a vmap tensor."""


@dataclass(frozen=True, eq=False)
class BoundGraph:
    """An FX graph with one value for each placeholder.

    Constants and the bodies of higher-order operators are attributes of the module.
    """

    module: GraphModule
    inputs: tuple[Any, ...]

    def __post_init__(self) -> None:
        assert len(self.placeholders) == len(self.inputs), "one value a placeholder"

    @cached_property
    def key(self) -> str:
        """Hash that is equal in every process for equal graphs with equal inputs."""
        return fingerprint(self.module, self.inputs)

    @cached_property
    def placeholders(self) -> tuple[Node, ...]:
        """The placeholder nodes, in the order of `inputs`."""
        return tuple(node for node in self.module.graph.nodes if node.op == "placeholder")

    @cached_property
    def calls(self) -> tuple[Node, ...]:
        """The call nodes, in order."""
        return tuple(node for node in self.module.graph.nodes if node.op.startswith("call_"))

    @cached_property
    def constants(self) -> tuple[Node, ...]:
        """The `get_attr` nodes: constant tensors, and the bodies of higher-order operators."""
        return tuple(node for node in self.module.graph.nodes if node.op == "get_attr")

    @cached_property
    def outputs(self) -> tuple[Node, ...]:
        """The returned nodes, in order; a node that is returned twice appears twice."""
        returned = tree_leaves(self.module.graph.output_node().args[0])
        return tuple(node for node in returned if isinstance(node, Node))

    @property
    def ops(self) -> int:
        """The number of calls, including those in bodies of higher-order operators."""
        inner = (m for m in self.module.modules() if isinstance(m, GraphModule))
        return sum(node.op.startswith("call_") for m in inner for node in m.graph.nodes)

    def values(self) -> NodeValues:
        """Return the value of every node in an eager run. Raises what a call raises."""
        return self._values

    @cached_property
    def _values(self) -> NodeValues:
        return evaluate_nodes(self.module, self.inputs)

    @cached_property
    def dependents(self) -> nx.DiGraph[Node]:
        """Graph with an edge from each node to the nodes that read its value or what it writes."""
        found: nx.DiGraph[Node] = nx.DiGraph()
        found.add_nodes_from(self.module.graph.nodes)
        for node in self.module.graph.nodes:
            for used in node.all_input_nodes:
                found.add_edge(used, node)
                if node.op != "output":
                    found.add_edges_from((w, node) for w in self.values().writers(used, node))
        return found

    def cone(self, *nodes: Node) -> set[Node]:
        """Return the calls on which the calls `nodes` depend, and `nodes` themselves."""
        every = set(nodes).union(*(nx.ancestors(self.dependents, node) for node in nodes))
        return {node for node in every if node.op.startswith("call_")}

    def subgraph(
        self,
        keep: Collection[Node],
        *,
        outputs: Sequence[Node] | None = None,
        replacements: Mapping[Node, object] | None = None,
        arguments: Mapping[Node, Arguments] | None = None,
        connected: bool = True,
        constants: bool = True,
    ) -> BoundGraph:
        """Return the subgraph of the calls `keep`.

        It returns `outputs`; if None, every result that the rest of this graph uses. If a kept call
        uses the value of a removed call, that value becomes an input, or a literal if it is no
        tensor. Mode switches stay where they have an effect, unless they are replaced. Unused calls
        and inputs are removed.

        `replacements` maps a node to the node or literal that its users get instead. `arguments`
        overrides the arguments of calls. With `connected=False`, no call gets the result of another
        one: each gets its values in the eager run as inputs. With `constants=False`, constant
        tensors become inputs. Raises Inseparable.
        """
        builder = _PartBuilder(
            self, set(keep), replacements or {}, arguments or {}, connected, constants
        )
        return builder.build_part(outputs)


class _PartBuilder:
    """Builder of a `BoundGraph` that keeps some of the calls of another one."""

    def __init__(
        self,
        old: BoundGraph,
        keep: set[Node],
        replacements: Mapping[Node, Any],
        arguments: Mapping[Node, Arguments],
        connected: bool,
        constants: bool,
    ) -> None:
        self._old, self._replacements, self._arguments = old, replacements, arguments
        self._connected, self._constants = connected, constants
        self._keep = (
            keep | {node for node in old.calls if is_mode_switch(node)} - replacements.keys()
        )
        self._values = old.values()
        self._graph = torch.fx.Graph()
        self._copies: dict[Node, Any] = {}
        self._inputs: dict[Node, object] = {}
        self._input_nodes: dict[int, Node] = {}
        self._bound = dict(zip(old.placeholders, old.inputs, strict=True))

    def build_part(self, outputs: Sequence[Node] | None) -> BoundGraph:
        """Return the subgraph of the kept calls, which returns `outputs`."""
        if outputs is None:
            outputs = list(self._used_elsewhere())
        for node in self._old.module.graph.nodes:
            if node.op == "placeholder":
                self._copies[node] = self._add_placeholder(node.name, self._bound[node], node.type)
            elif node.op == "get_attr" or node in self._keep:
                self._copy_node(node)
        self._graph.output(tuple(self._argument(node, None) for node in outputs))
        self._erase_unused()
        module = GraphModule(self._old.module, self._graph)
        return BoundGraph(module, tuple(self._inputs[node] for node in self._new_placeholders()))

    def _used_elsewhere(self) -> Iterator[Node]:
        """Yield the kept results that removed nodes use or that the old graph returns.

        Also yields inputs and constants that the old graph returns.
        """
        times = Counter(self._old.outputs)
        for node in self._old.module.graph.nodes:
            if node in self._keep and not is_mode_switch(node):
                beyond = any(not self._connected or user not in self._keep for user in node.users)
                if is_returnable(self._values[node]):
                    yield from [node] * max(times[node], int(beyond))
            elif self._connected and not node.op.startswith("call_"):
                yield from [node] * times[node]

    def _copy_node(self, node: Node) -> None:
        """Copy a node with its new arguments.

        A `getitem` of a tuple whose items are known becomes that item instead.
        """
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, Node) and node.op == "call_function":
            found = self._argument(source, node)
            if isinstance(found, list | tuple | dict) and not isinstance(node.args[1], Node):
                self._copies[node] = found[node.args[1]]  # type: ignore[index]
                return
        args, kwargs = torch.fx.node.map_arg(
            self._arguments.get(node, (node.args, node.kwargs)),
            lambda used: self._argument(used, node),
        )
        new = self._graph.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = {name: node.meta[name] for name in _META if name in node.meta}
        self._copies[node] = new

    def _argument(self, node: Node, user: Node | None) -> Any:
        """Return what `user` gets in place of `node` in the new graph; None is the output."""
        while node in self._replacements:
            node = self._replacements[node]
            if not isinstance(node, Node):
                return node
        if self._has_same_value(node, user):
            return self._copies[node]
        met = self._values[node] if user is None else self._values.seen_by(node, user)
        return self._as_arguments(met, node)

    def _has_same_value(self, node: Node, user: Node | None) -> bool:
        """Return whether `user` would read the same value from the copy of `node`."""
        if is_mode_switch(node):
            return True
        if node.op == "get_attr" and not self._constants:
            return not isinstance(self._values[node], torch.Tensor)
        if node not in self._copies or (
            node in self._keep and not self._connected and user is not None
        ):
            return False
        writers = [w for w in self._values.writers(node, user) if w not in self._replacements]
        if not self._connected:
            return not writers
        return not writers or any(writer in self._keep for writer in writers)

    def _as_arguments(self, value: Any, node: Node) -> object:
        """Return a value of `node` as an argument in the new graph; tensors become inputs."""
        if isinstance(value, torch.Tensor):
            return self._input_of(value, node)
        if isinstance(value, list | tuple):
            items = [self._as_arguments(item, node) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._as_arguments(item, node) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(
                *(self._as_arguments(e, node) for e in (value.start, value.stop, value.step))
            )
        if isinstance(value, _LITERALS) and not isinstance(value, torch.SymInt):
            return value
        raise Inseparable(f"{node.name} gives a {type(value).__name__}")

    def _input_of(self, value: torch.Tensor, node: Node) -> Node:
        """Return the placeholder for `value`, a value of `node`; add it if there is none."""
        if id(value) not in self._input_nodes:
            if is_functorch_wrapped(value):
                raise Inseparable(f"{node.name} is inside of a transform")
            writes = (self._values.writes.get(call, frozenset()) for call in self._keep)
            written = any(places & self._values.storages(node) for places in writes)
            last = next(iter(reversed(self._new_placeholders())), None)
            with self._graph.inserting_after(last):
                new = self._add_placeholder(node.name, _as_input(value, written), None)
            self._input_nodes[id(value)] = new
        return self._input_nodes[id(value)]

    def _add_placeholder(self, name: str, value: object, kind: object) -> Node:
        """Add a placeholder with its value, and return it."""
        new = self._graph.create_node("placeholder", name, name=name, type_expr=kind)
        new.target = new.name
        self._inputs[new] = value
        return new

    def _new_placeholders(self) -> list[Node]:
        return [node for node in self._graph.nodes if node.op == "placeholder"]

    def _erase_unused(self) -> None:
        """Erase nodes that nothing uses and that have no side effect."""
        stays = {self._copies.get(node) for node in self._values.effects & self._keep}
        while True:
            calls = [node for node in self._graph.nodes if node.op.startswith("call_")]
            for node in find_redundant_switches(calls):
                self._graph.erase_node(node)
                stays.discard(node)
            unused = [
                node
                for node in reversed(self._graph.nodes)
                if not node.users and node.op != "output" and node not in stays
            ]
            if not unused:
                return
            for node in unused:
                self._graph.erase_node(node)


def _as_input(value: torch.Tensor, written: bool) -> torch.Tensor:
    """Return the tensor `value`, computed by a graph, as an input for a part of that graph.

    It requires grad if `value` does. `written`: whether the part writes to it; then it is not a
    leaf, because autograd forbids writes to leaves.
    """
    fresh = value.detach()
    if not value.requires_grad:
        return fresh
    fresh.requires_grad_()
    with torch.enable_grad():
        return fresh.clone() if written else fresh


def is_returnable(value: object) -> bool:
    """Return whether a graph can return `value`: a tensor, or a non-empty nest of tensors."""
    if isinstance(value, list | tuple):
        return bool(value) and all(is_returnable(item) for item in value)
    return isinstance(value, torch.Tensor) and not is_functorch_wrapped(value)

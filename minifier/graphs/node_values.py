"""Values of all nodes of a graph in eager, before and after in-place updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.isolation import snapshot
from fullgraph.compiler.private import is_mode_switch, tree_leaves, tree_map
from fullgraph.compiler.results import seed_generators
from fullgraph.minifier.graphs.interpreter import RegionInterpreter

StorageId = int
"""Identifies a storage among those that are alive."""


@dataclass(frozen=True, eq=False)
class NodeValues:
    """Values of all nodes in one run of a graph, each as it was before later in-place updates."""

    results: Mapping[Node, object]
    """The value of each node when it was computed."""
    writes: Mapping[Node, frozenset[StorageId]]
    """The calls that wrote to storages of earlier values, with the ids of those storages."""
    effects: frozenset[Node]
    """The calls with a side effect (writes, mode switches, checks) and the calls without users."""
    _versions: Mapping[Node, tuple[tuple[int, object], ...]]
    """Values of nodes whose memory was written to: (position up to which it is valid, value)."""
    _order: Mapping[Node, int]
    """The position of each node in the graph."""
    _storages: Mapping[Node, frozenset[StorageId]]

    def __getitem__(self, node: Node) -> object:
        return self.results[node]

    def seen_by(self, node: Node, user: Node) -> Any:
        """Return the value of `node` when `user` ran, after the writes before that."""
        for until, value in self._versions.get(node, ()):
            if self._order[user] <= until:
                return value
        return self.results[node]

    def storages(self, node: Node) -> frozenset[StorageId]:
        """Return the ids of the storages that the value of `node` uses."""
        return self._storages.get(node, frozenset())

    def writers(self, node: Node, user: Node | None = None) -> list[Node]:
        """Return the calls that wrote to the memory of `node` before `user` ran.

        If `user` is None, all calls that wrote to it after `node` ran.
        """
        end = len(self._order) if user is None else self._order[user]
        return [
            call
            for call, written in self.writes.items()
            if self._order[node] < self._order[call] < end and written & self.storages(node)
        ]


def evaluate_nodes(module: GraphModule, inputs: Sequence[Any]) -> NodeValues:
    """Run a graph in eager and return the value of every node; restore inputs and constants.

    Raises what a call in the graph raises.
    """
    inputs = [_detach_result(value) for value in inputs]
    attributes = list(_attribute_tensors(module))
    state = snapshot([*inputs, *attributes])
    try:
        run = _RecordingInterpreter(module, {})
        run.run_inputs(inputs)
        if run.writes:  # what was there before a write has to be kept
            state.restore()
            run = _RecordingInterpreter(module, run.writes)
            run.run_inputs(inputs)
        return run.values()
    finally:
        state.restore()


class _RecordingInterpreter(RegionInterpreter):
    """FX interpreter that records the value of each node in one run of a graph.

    `writes` are the calls that the run saw write to memory. If there are any, another interpreter
    runs the graph again, with these calls as `known_writes`: it copies the recorded values that
    such a call is about to overwrite.
    """

    def __init__(
        self, module: GraphModule, known_writes: Mapping[Node, frozenset[StorageId]]
    ) -> None:
        super().__init__(module)
        self.writes: dict[Node, frozenset[StorageId]] = {}
        """The storages that each writing call of this run wrote to."""
        self._known = known_writes
        self._values: dict[Node, object] = {}
        self._storages: dict[Node, frozenset[StorageId]] = {}
        self._versions: dict[Node, list[tuple[int, object]]] = {}
        self._order = {node: index for index, node in enumerate(module.graph.nodes)}

    def run_inputs(self, inputs: Sequence[object]) -> None:
        seed_generators(0)
        super().run_inputs(inputs)
        written = {place for places in self.writes.values() for place in places}
        self._keep_versions(written, len(self._order))

    def run_node(self, n: Node) -> object:
        """Run a node; record its value, its storages and what it writes to."""
        if n in self._known:
            places = {
                place for tensor in self._argument_tensors(n) for place in _storage_ids(tensor)
            }
            self._keep_versions(places, self._order[n])
        before = [(tensor, _version_of(tensor)) for tensor in self._argument_tensors(n)]
        value = super().run_node(n)
        self._values[n] = value
        self._storages[n] = frozenset(
            p for tensor in _tensors_of(value) for p in _storage_ids(tensor)
        )
        blind = _writes_by_name(n)
        written = [
            tensor
            for tensor, old in before
            if _version_of(tensor) != old or (blind and old is None)
        ]
        if written or (blind == "surely" and before):
            tensors = written or [tensor for tensor, _ in before]
            self.writes[n] = frozenset(p for tensor in tensors for p in _storage_ids(tensor))
        return value

    def _argument_tensors(self, node: Node) -> Iterator[torch.Tensor]:
        """Yield the tensors that a call may write to: its arguments, or a module's state."""
        for used in node.all_input_nodes:
            yield from _tensors_of(self._values[used])
        if node.op == "call_module":
            module = self.fetch_attr(str(node.target))
            yield from module.parameters()
            yield from module.buffers()

    def _keep_versions(self, places: set[StorageId], until: int) -> None:
        """Copy the values in the storages `places`, as seen by nodes up to number `until`."""
        copies: dict[StorageId, torch.UntypedStorage] = {}
        for node, value in self._values.items():
            if self._storages[node] & places:
                kept = tree_map(lambda leaf: _copy_leaf(leaf, copies), value)
                self._versions.setdefault(node, []).append((until, kept))

    def values(self) -> NodeValues:
        """Return the values of all nodes, after the run."""
        results = {
            node: self._versions.get(node, [(0, value)])[0][1]
            for node, value in self._values.items()
        }
        later = {node: tuple(kept) for node, kept in self._versions.items()}
        last = {node: ((len(self._order), kept[-1][1]),) for node, kept in later.items()}
        effects = frozenset(node for node in self._values if self._has_effect(node))
        return NodeValues(
            results,
            self.writes,
            effects,
            {node: (*kept, *last[node]) for node, kept in later.items()},
            self._order,
            self._storages,
        )

    def _has_effect(self, node: Node) -> bool:
        """Return whether a call writes, switches a mode, is impure, or has no users.

        False for nodes that are no calls.
        """
        if not node.op.startswith("call_"):
            return False
        if node in self.writes or is_mode_switch(node) or not node.users:
            return True
        return node.op != "call_module" and node.is_impure(impure_random=False)


def _attribute_tensors(module: GraphModule) -> Iterator[torch.Tensor]:
    """Yield the tensors that are attributes of a graph module."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            thing: object = module
            for name in str(node.target).split("."):
                thing = getattr(thing, name)
            if isinstance(thing, torch.Tensor):
                yield thing
    for child in module.children():
        yield from child.parameters()
        yield from child.buffers()


def _detach_result(value: object) -> object:
    """Return a copy of a non-leaf tensor, with a new autograd history; other values unchanged.

    A graph that writes to its input would otherwise change the history of the caller's tensor.
    """
    if isinstance(value, torch.Tensor) and value.requires_grad and not value.is_leaf:
        with torch.enable_grad():
            return value.detach().requires_grad_().clone()
    return value


def _tensors_of(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _storage_ids(tensor: torch.Tensor) -> list[StorageId]:
    """Return the id of a tensor's storage as a list; [] if it has no storage."""
    storage = _storage_of(tensor)
    return [id(tensor) if storage is None else storage._cdata]


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return the storage of a tensor; None if it has none (sparse, subclass, ZeroTensor)."""
    if tensor.layout is torch.strided:
        with suppress(RuntimeError, NotImplementedError):
            return tensor.untyped_storage()
    return None


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return the version counter of a tensor; None if it has none."""
    return None if tensor.is_inference() else tensor._version


def _writes_by_name(node: Node) -> str:
    """Return whether a call writes to an argument, as its name says: "surely", "maybe" or "".

    "" means no. Used for tensors without a version counter.
    """
    name = str(getattr(node.target, "__name__", node.target))
    if name == "triton_kernel_wrapper_mutation":
        return "surely"
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return "maybe" if schema.is_mutable else ""
    inplace = name.endswith("_") and not name.endswith("__")
    operator = getattr(node.target, "__module__", "") == "_operator"
    inplace |= operator and (name == "setitem" or name.startswith("i"))
    return "maybe" if inplace or "out" in node.kwargs else ""


def _copy_leaf(leaf: object, copies: dict[StorageId, torch.UntypedStorage]) -> object:
    """Return a copy of a tensor; other values unchanged.

    `copies` has the storages copied so far: copies share memory where the originals do.
    """
    if not isinstance(leaf, torch.Tensor):
        return leaf
    with torch.no_grad():
        if type(leaf) not in (torch.Tensor, torch.nn.Parameter) or leaf.layout is not torch.strided:
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        storage = _storage_of(leaf)
        if storage is None:
            return leaf
        place = storage._cdata
        if place not in copies:
            copies[place] = storage.clone()
        twin = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
        twin.set_(copies[place], leaf.storage_offset(), leaf.shape, leaf.stride())
        return twin.requires_grad_(leaf.requires_grad)

"""Calls and construction of the layers of torch.nn."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.builtin_calls import BuiltinCalls
from fullgraph.rewrites.check.interpreter.operations import (
    CELLS,
    CONTAINERS,
    RNNS,
)
from fullgraph.rewrites.check.interpreter.values import (
    NONE,
    TENSOR,
    UNKNOWN,
    Layer,
    Mapping,
    Sequence,
    Tensor,
    Value,
    join,
    join_all,
    make_sequence,
    sequence_of,
)


class LayerCalls(BuiltinCalls):
    """Part of the interpreter that evaluates calls of torch.nn layers, such as an `nn.Linear`."""

    def call_layer(
        self, layer: Layer, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of calling a module of torch.nn."""
        last = layer.name.rpartition(".")[2]
        if last in RNNS:
            self.note(node, f"layer:{last}", True, self.frame_statement())
            state = TENSOR if last != "LSTM" else make_sequence("tuple", [TENSOR, TENSOR])
            return make_sequence("tuple", [TENSOR, state])
        if last in CELLS:
            return make_sequence("tuple", [TENSOR, TENSOR])
        if last == "MultiheadAttention":
            return make_sequence("tuple", [TENSOR, join(TENSOR, NONE)])
        if last == "Sequential" and layer.element:
            return self._call_sequential(layer, args, node)
        if last in CONTAINERS:
            return UNKNOWN
        if last == "Identity":
            return args[0] if args else UNKNOWN
        if last.startswith(("Adaptive", "Max")) and "return_indices" in keywords:
            return sequence_of(TENSOR, "tuple")
        dynamic = any(isinstance(o, Tensor) and o.dynamic for value in args[:1] for o in value)
        return (Tensor(True, "float", dynamic),)

    def _call_sequential(self, layer: Layer, args: list[Value], node: ast.Call) -> Value:
        """Return the join of the results of a Sequential's layers, each called on `args`."""
        simple = [
            isinstance(one, Layer)
            and one.name.rpartition(".")[2] not in (*RNNS, *CONTAINERS, "MultiheadAttention")
            for one in layer.element
        ]
        if simple and all(simple):
            return (Tensor(dtype="float"),)
        results = [self.call((one,), args, {}, node) for one in layer.element]
        return join_all(results) or UNKNOWN

    def make_layer(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Return a new module of torch.nn, with the modules that it contains."""
        last = name.rpartition(".")[2]
        element: Value = ()
        if last in CONTAINERS:
            for value in (*args, *keywords.values()):
                parts = [
                    one.element if isinstance(one, Sequence | Mapping) else (one,) for one in value
                ]
                for one in value:
                    if isinstance(one, Mapping):
                        parts += [inner for _, inner in one.items]
                element = join_all((element, *parts))
        return (Layer(name, element),)

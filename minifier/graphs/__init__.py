"""FX graphs with their inputs: node values, subgraphs, fingerprints, and whether they run."""

from fullgraph.minifier.graphs.bound_graph import Arguments, BoundGraph, Inseparable, is_returnable
from fullgraph.minifier.graphs.fingerprint import (
    describe_value,
    element_bytes,
    fingerprint,
    target_name,
    tensor_properties,
)
from fullgraph.minifier.graphs.inlining import inlinable_calls, inline_calls
from fullgraph.minifier.graphs.known_values import (
    KnownValues,
    find_known_values,
    find_size_inputs,
    is_python_float,
)
from fullgraph.minifier.graphs.meta_check import MetaCheck
from fullgraph.minifier.graphs.node_values import NodeValues, evaluate_nodes
from fullgraph.minifier.graphs.purity import (
    draws_random,
    is_barrier,
    nested_nodes,
    writes_arguments,
)

__all__ = [
    "Arguments",
    "BoundGraph",
    "Inseparable",
    "KnownValues",
    "MetaCheck",
    "NodeValues",
    "describe_value",
    "draws_random",
    "element_bytes",
    "evaluate_nodes",
    "find_known_values",
    "find_size_inputs",
    "fingerprint",
    "inlinable_calls",
    "inline_calls",
    "is_barrier",
    "is_python_float",
    "is_returnable",
    "nested_nodes",
    "target_name",
    "tensor_properties",
    "writes_arguments",
]

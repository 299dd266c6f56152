"""Estimated cost of graphs on a device, without compiling them."""

from fullgraph.compiler.lowering.cost.device import (
    CPU,
    Device,
    check_device,
    find_device,
    published_devices,
)
from fullgraph.compiler.lowering.cost.estimate import (
    add_costs,
    add_savings,
    estimate_saving,
    graph_cost,
    join_traces,
    peak_memory,
    trace_cost,
)
from fullgraph.compiler.lowering.cost.operator_kinds import kind_of
from fullgraph.compiler.lowering.cost.trace import trace_operators

__all__ = [
    "CPU",
    "Device",
    "add_costs",
    "add_savings",
    "check_device",
    "estimate_saving",
    "find_device",
    "graph_cost",
    "join_traces",
    "kind_of",
    "peak_memory",
    "published_devices",
    "trace_cost",
    "trace_operators",
]

"""Reducers: functions that make the current candidate of a `Problem` smaller."""

from fullgraph.minifier.reduce.graph.calls import reduce_graph, shorten
from fullgraph.minifier.reduce.graph.single_call import isolate_calls
from fullgraph.minifier.reduce.inputs.plain_inputs import reduce_inputs
from fullgraph.minifier.reduce.modules import (
    ModulePlan,
    ModuleRecording,
    apply_plan,
    record_modules,
    reduce_modules,
)
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from fullgraph.minifier.reduce.source.passes import reduce_source

__all__ = [
    "ModulePlan",
    "ModuleRecording",
    "apply_plan",
    "entry_call",
    "isolate_calls",
    "load_module",
    "record_modules",
    "reduce_graph",
    "reduce_inputs",
    "reduce_modules",
    "reduce_source",
    "shorten",
]

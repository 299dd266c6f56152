"""Recorder of the events that Dynamo and the backends report during compilations."""

from fullgraph.compiler.recording.graph_break_message import parse_graph_break
from fullgraph.compiler.recording.guard_message import parse_guard
from fullgraph.compiler.recording.recorder import RECOMPILE_LIMIT, record

__all__ = [
    "RECOMPILE_LIMIT",
    "parse_graph_break",
    "parse_guard",
    "record",
]

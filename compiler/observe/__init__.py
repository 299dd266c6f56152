"""Records the values of expressions in an eager run, by instrumenting source nodes."""

from fullgraph.compiler.observe.functions import (
    FunctionValues,
    observe_called_functions,
    observe_functions,
    recordable_expressions,
)
from fullgraph.compiler.observe.instrumented_nodes import (
    InstrumentedNode,
    NodeUse,
    NotInstrumentable,
    branch_runs_code,
    condition_around,
    context_managers_at,
    nodes_to_instrument,
)
from fullgraph.compiler.observe.summaries import SummaryRecorder
from fullgraph.compiler.observe.value_copies import is_plain, signature
from fullgraph.compiler.observe.values import (
    Elements,
    NodeRecorder,
    Observations,
    ObservedExpression,
    ValueRecorder,
    observe,
    run_without_compiling,
)

__all__ = [
    "Elements",
    "FunctionValues",
    "InstrumentedNode",
    "NodeRecorder",
    "NodeUse",
    "NotInstrumentable",
    "Observations",
    "ObservedExpression",
    "SummaryRecorder",
    "ValueRecorder",
    "branch_runs_code",
    "condition_around",
    "context_managers_at",
    "is_plain",
    "nodes_to_instrument",
    "observe",
    "observe_called_functions",
    "observe_functions",
    "recordable_expressions",
    "run_without_compiling",
    "signature",
]

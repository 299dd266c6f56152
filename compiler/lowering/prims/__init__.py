"""Stage *prims*: a captured or joint graph in canonical ATen operators, or in prims."""

from fullgraph.compiler.lowering.prims.canonical import (
    BESSEL_FUNCTIONS,
    POLYNOMIALS,
    canonical_kind,
    canonical_operators,
    operator_name,
    words,
)
from fullgraph.compiler.lowering.prims.extern import (
    CONTROL_FLOW,
    ExternReason,
    extern_operators,
    extern_reason,
)
from fullgraph.compiler.lowering.prims.lower import (
    decompositions,
    lower_to_canonical,
    lower_to_prims,
)
from fullgraph.compiler.lowering.prims.prim_table import broken_rules, prims
from fullgraph.compiler.lowering.prims.report import TierReport, report

__all__ = [
    "BESSEL_FUNCTIONS",
    "CONTROL_FLOW",
    "POLYNOMIALS",
    "ExternReason",
    "TierReport",
    "broken_rules",
    "canonical_kind",
    "canonical_operators",
    "decompositions",
    "extern_operators",
    "extern_reason",
    "lower_to_canonical",
    "lower_to_prims",
    "operator_name",
    "prims",
    "report",
    "words",
]

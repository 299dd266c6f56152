"""Stage *prims*: a captured or joint graph in canonical ATen operators, or in prims."""

from fullgraph.compiler.lowering.prims.canonical import (
    POLYNOMIALS,
    SPECIAL_FUNCTIONS,
    CanonicalKind,
    canonical_kind,
    canonical_operators,
)
from fullgraph.compiler.lowering.prims.extern import ExternReason, extern_operators, extern_reason
from fullgraph.compiler.lowering.prims.lower import (
    decompositions,
    lower_to_canonical,
    lower_to_prims,
    prim_decompositions,
)
from fullgraph.compiler.lowering.prims.prim_table import Prim, find_prim, prims
from fullgraph.compiler.lowering.prims.report import TierReport, report
from fullgraph.compiler.lowering.prims.rules import broken_rules

__all__ = [
    "POLYNOMIALS",
    "SPECIAL_FUNCTIONS",
    "CanonicalKind",
    "ExternReason",
    "Prim",
    "TierReport",
    "broken_rules",
    "canonical_kind",
    "canonical_operators",
    "decompositions",
    "extern_operators",
    "extern_reason",
    "find_prim",
    "lower_to_canonical",
    "lower_to_prims",
    "prim_decompositions",
    "prims",
    "report",
]

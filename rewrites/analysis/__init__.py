"""Facts about expressions, from a run in eager or from the source."""

from fullgraph.rewrites.analysis.changes import may_change
from fullgraph.rewrites.analysis.classes import (
    buffer_value,
    called_function,
    class_of,
    constructor_call,
    is_plain_attribute,
    method_of_class,
)
from fullgraph.rewrites.analysis.definitions import (
    Definitions,
    assigned_value,
    assigned_values,
    find_definitions,
    only_value,
    parameter_of,
)
from fullgraph.rewrites.analysis.finiteness import (
    Hazard,
    NeutralValue,
    find_hazards,
    has_nan_free_gradient,
    is_away_from_zero,
)
from fullgraph.rewrites.analysis.flags import follow_or_assume, skipping_flag
from fullgraph.rewrites.analysis.flow import (
    always_exits,
    assignment_targets,
    binds_variable,
    chain_root,
    ends_program,
    has_raise,
    live_in,
    live_out,
    names_bound,
    names_bound_before,
    names_mutated,
    names_read,
    parameter_names,
    removable_line,
    split_statements,
    statements_after,
)
from fullgraph.rewrites.analysis.gradients import has_no_gradient
from fullgraph.rewrites.analysis.inferred import infer, infer_variable, is_tensor
from fullgraph.rewrites.analysis.int_or_tensor import may_be_int
from fullgraph.rewrites.analysis.operation import Operation, operation_of
from fullgraph.rewrites.analysis.operators import ARITHMETIC, COMPARED
from fullgraph.rewrites.analysis.purity import (
    draws_random_numbers,
    is_new_tensor,
    may_raise,
    side_effect_of,
    torch_name,
)
from fullgraph.rewrites.analysis.site import Knowledge, NotApplicable, Site
from fullgraph.rewrites.analysis.state_uses import StateUses, find_state_uses
from fullgraph.rewrites.analysis.surroundings import (
    difference_in_operator,
    frame_lookup,
    written_variable,
)
from fullgraph.rewrites.analysis.torch_names import (
    DYNAMIC_SHAPE,
    ELEMENTWISE,
    IN_PLACE,
    LAYERS_WITHOUT_PARAMETERS,
    MAKERS,
    PURE_CALLS,
    VIEWS,
    word_set,
)
from fullgraph.rewrites.source import find_all, walk

__all__ = [
    "ARITHMETIC",
    "COMPARED",
    "DYNAMIC_SHAPE",
    "ELEMENTWISE",
    "IN_PLACE",
    "LAYERS_WITHOUT_PARAMETERS",
    "MAKERS",
    "PURE_CALLS",
    "VIEWS",
    "Definitions",
    "Hazard",
    "Knowledge",
    "NeutralValue",
    "NotApplicable",
    "Operation",
    "Site",
    "StateUses",
    "always_exits",
    "assigned_value",
    "assigned_values",
    "assignment_targets",
    "binds_variable",
    "buffer_value",
    "called_function",
    "chain_root",
    "class_of",
    "constructor_call",
    "difference_in_operator",
    "draws_random_numbers",
    "ends_program",
    "find_all",
    "find_definitions",
    "find_hazards",
    "find_state_uses",
    "follow_or_assume",
    "frame_lookup",
    "has_nan_free_gradient",
    "has_no_gradient",
    "has_raise",
    "infer",
    "infer_variable",
    "is_away_from_zero",
    "is_new_tensor",
    "is_plain_attribute",
    "is_tensor",
    "live_in",
    "live_out",
    "may_be_int",
    "may_change",
    "may_raise",
    "method_of_class",
    "names_bound",
    "names_bound_before",
    "names_mutated",
    "names_read",
    "only_value",
    "operation_of",
    "parameter_names",
    "parameter_of",
    "removable_line",
    "side_effect_of",
    "skipping_flag",
    "split_statements",
    "statements_after",
    "torch_name",
    "walk",
    "word_set",
    "written_variable",
]

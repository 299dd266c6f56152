"""Outlining of statements: a statement becomes the body of a custom operator."""

from fullgraph.rewrites.transforms.outline.differences import (
    EXCEPTION_CAUGHT,
    find_outlining_refusal,
    is_exception_caught,
    uses_function_transforms,
)
from fullgraph.rewrites.transforms.outline.free_variables import find_class_scope, is_mangled
from fullgraph.rewrites.transforms.outline.lifted_check import LiftedCheck, lift_check
from fullgraph.rewrites.transforms.outline.operator import (
    KEPT_IN_ORDER,
    KEPT_ONCE,
    OperatorKind,
    Statement,
    insert_after,
    operator_path,
    replace_in_chain,
    set_apart,
)
from fullgraph.rewrites.transforms.outline.outlined_statement import (
    condition_needs_values,
    find_outlined_statement,
    find_statement_after,
    tested_operands,
)
from fullgraph.rewrites.transforms.outline.output_calls import (
    call_of,
    is_check_statement,
    is_output_statement,
    names_its_place,
)
from fullgraph.rewrites.transforms.outline.parameter_types import (
    observation_of,
    only_definition,
    parameter_type_of,
    parameters_of,
    strip_item,
)
from fullgraph.rewrites.transforms.outline.statement import outline_statement
from fullgraph.rewrites.transforms.outline.tensor_check import (
    TensorCheck,
    find_tensor_check,
    tensor_condition,
)

__all__ = [
    "EXCEPTION_CAUGHT",
    "KEPT_IN_ORDER",
    "KEPT_ONCE",
    "LiftedCheck",
    "OperatorKind",
    "Statement",
    "TensorCheck",
    "call_of",
    "condition_needs_values",
    "find_class_scope",
    "find_outlined_statement",
    "find_outlining_refusal",
    "find_statement_after",
    "find_tensor_check",
    "insert_after",
    "is_check_statement",
    "is_exception_caught",
    "is_mangled",
    "is_output_statement",
    "lift_check",
    "names_its_place",
    "observation_of",
    "only_definition",
    "operator_path",
    "outline_statement",
    "parameter_type_of",
    "parameters_of",
    "replace_in_chain",
    "set_apart",
    "strip_item",
    "tensor_condition",
    "tested_operands",
    "uses_function_transforms",
]

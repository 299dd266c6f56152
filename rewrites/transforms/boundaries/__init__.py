"""Boundaries: helper functions that TorchDynamo does not enter."""

from fullgraph.rewrites.transforms.boundaries.helper import (
    decorate,
    find_early_exit,
    find_helper,
    is_static,
    reads_values,
)
from fullgraph.rewrites.transforms.boundaries.operator import define_operator
from fullgraph.rewrites.transforms.boundaries.statements import define_operator_of_statements

__all__ = [
    "decorate",
    "define_operator",
    "define_operator_of_statements",
    "find_early_exit",
    "find_helper",
    "is_static",
    "reads_values",
]

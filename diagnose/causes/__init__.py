"""Causes of graph breaks: diagnosed, grouped and described."""

from fullgraph.diagnose.causes.cause_descriptions import describe_causes
from fullgraph.diagnose.causes.diagnosis import Diagnosis, diagnose
from fullgraph.diagnose.causes.groups import (
    BreakGroup,
    HiddenBreak,
    ModeName,
    fold_consequences,
    group_breaks,
    group_hidden,
    merge_groups,
)
from fullgraph.diagnose.causes.places import (
    calling_positions,
    expression_at,
    is_handled,
    place_of,
)
from fullgraph.diagnose.causes.recompiles import (
    changes_in_each_call,
    describe_recompiles,
    note_guards,
    without_recompiled,
)

__all__ = [
    "BreakGroup",
    "Diagnosis",
    "HiddenBreak",
    "ModeName",
    "calling_positions",
    "changes_in_each_call",
    "describe_causes",
    "describe_recompiles",
    "diagnose",
    "expression_at",
    "fold_consequences",
    "group_breaks",
    "group_hidden",
    "is_handled",
    "merge_groups",
    "note_guards",
    "place_of",
    "without_recompiled",
]

"""A global number that compiled code changes becomes a 0-d tensor, which never recompiles.

Dynamo takes a global number as a constant and guards on it: each new value compiles the program
again, up to the recompile limit. A 0-d tensor is an input of the graph.

Before:

    CALLS = 0

    def traced(x):
        global CALLS
        CALLS += 1
        return x + 0.001 * CALLS

After:

    CALLS = torch.tensor(0)

    def traced(x):
        global CALLS
        CALLS = CALLS + 1
        return x + 0.001 * CALLS

In place, the update would change what the backward computes again (FG852).

Always unsafe: other readers of the variable get a 0-d tensor.

Refuses: variables that the file does not set to a number, or writes by more than `+=` and the like.
"""

from __future__ import annotations

import libcst as cst

from fullgraph.rewrites.analysis import Site, find_state_uses
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import build_expression
from fullgraph.rewrites.transforms.number_tensor import (
    rewrite_as_tensor,
    tensor_text,
    update_out_of_place,
)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    uses = find_state_uses(site.document, site.node)
    if uses is None or uses.name.startswith("self."):
        return None
    name, initial = uses.name, uses.initial
    value = None if initial is None else initial.value
    single = isinstance(initial, cst.Assign) and len(initial.targets) == 1
    if not single or not isinstance(value, cst.Integer | cst.Float):
        return Refusal(f"the file does not set `{name}` to a number")
    if not uses.updates or uses.writes:
        return Refusal(f"`{name}` is assigned a new value, and not updated in place")
    edits = update_out_of_place(site.document, uses)
    tensor = build_expression(tensor_text(site.document, value))
    return rewrite_as_tensor({value: tensor, **edits}, name)


RULE = Rule("FG853", "keep-global-as-tensor", frozenset({"recompile: global"}), rewrite)

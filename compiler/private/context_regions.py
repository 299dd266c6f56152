"""Mode switches in a captured graph: calls that enter or leave autocast, grad mode, a transform.

The calls are recognized by the function's name, since torch moves these private functions between
modules.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence

import torch
from torch.fx import Node

_SETS = ("_set_grad_enabled", "_set_fwd_grad_enabled")
"""Switches that set a new state and have no matching exit."""
_ENTERS = {
    r"_enter_(\w+)": r"_exit_\1",
    r"(\w+)_increment_nesting": r"\1_decrement_nesting",
    r"_record_function_enter(?:_new)?(?:\.default)?": r"_record_function_exit",
    r"_saved_tensors_hooks_disable": "_saved_tensors_hooks_enable",
}
_EXITS = re.compile(r"_exit_\w+|\w+_decrement_nesting|_record_function_exit|\w+_hooks_enable")


def is_mode_switch(node: Node) -> bool:
    """Whether a call sets, enters or leaves a mode."""
    name = _function_name(node)
    return name in _SETS or _exit_of(name) is not None or bool(_EXITS.fullmatch(name))


def is_grad_switch(node: Node) -> bool:
    """Whether a call switches gradients on or off for all calls after it."""
    return _function_name(node) in _SETS


def find_redundant_switches(calls: Sequence[Node]) -> list[Node]:
    """Return the mode switches of a graph that affect no call, in an order to erase them in.

    They are pairs that enter and leave a mode with no call in between, and grad switches that set
    the mode already set.
    """
    left = list(calls)
    found: list[Node] = []
    while erased := _find_empty_region(left) or _find_repeated_switch(left):
        found += erased
        left = [node for node in left if node not in erased]
    return found


def find_region(node: Node, calls: Sequence[Node]) -> list[Node]:
    """Return the calls to erase together with the mode switch `node`: itself and its exit.

    Only [node] if there is no exit. [] if `node` is itself an exit, or a grad switch whose effect
    no later switch undoes.
    """
    after = calls[calls.index(node) + 1 :]
    if _function_name(node) in _SETS:
        before = _is_grad_enabled_before(node, calls)
        later = [other for other in after if _function_name(other) == _function_name(node)]
        if not later:
            return [node] if before is torch.is_grad_enabled() else []
        return [node, later[0]] if later[0].args[0] is before else []
    leave = _exit_of(_function_name(node))
    if leave is None:
        return []
    depth = 1
    for other in after:
        depth += _function_name(other) == _function_name(node)
        if _function_name(other).startswith(leave):
            depth -= 1
            if depth == 0 or node in other.all_input_nodes:
                return [node, other]
    return [node]


def _is_grad_enabled_before(node: Node, calls: Sequence[Node]) -> object:
    """Return whether gradients are on just before the grad switch `node`, one of `calls`."""
    sets = [
        c.args[0] for c in calls[: calls.index(node)] if _function_name(c) == _function_name(node)
    ]
    return sets[-1] if sets else torch.is_grad_enabled()


def is_functorch_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a level of `vmap` or `grad` and is invalid outside of it."""
    probe = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    return probe is not None and probe(tensor)


def _find_empty_region(calls: list[Node]) -> list[Node]:
    """Return two neighbouring calls that enter and leave a mode; [] if there are none.

    For two neighbouring grad switches of one kind, return only the first, which has no effect.
    """
    for one, other in itertools.pairwise(calls):
        first, second = _function_name(one), _function_name(other)
        if first == second and first in _SETS:
            return [one]
        leave = _exit_of(first)
        if leave is not None and second.startswith(leave):
            return [other, one]
    return []


def _find_repeated_switch(calls: list[Node]) -> list[Node]:
    """Return [switch] for the first grad switch that sets the mode already set, else []."""
    now: object = torch.is_grad_enabled()
    for node in calls:
        name = _function_name(node)
        if name == _SETS[0]:
            if node.args[0] is now:
                return [node]
            now = node.args[0]
        elif is_mode_switch(node):
            now = None
    return []


@functools.cache
def _exit_of(name: str) -> str | None:
    """Return the name of the function that exits what the function `name` enters; None for others.

    For example, "_enter_autocast" → "_exit_autocast".
    """
    for enter, leave in _ENTERS.items():
        if re.fullmatch(enter, name):
            return re.sub(enter, leave, name)
    return None


def _function_name(node: Node) -> str:
    """Return the name of the function that a call node calls; "" for other nodes."""
    if node.op != "call_function":
        return ""
    return str(getattr(node.target, "__name__", ""))

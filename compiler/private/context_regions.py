"""Calls in a captured graph that switch something in the process: autocast, gradients, nesting.

They go by name: torch keeps the functions in several private modules, but the names last.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

_SETS = ("_set_grad_enabled", "_set_fwd_grad_enabled")
"""They take the new state; the old one is gone."""
_ENTERS = {
    r"_enter_(\w+)": r"_exit_\1",
    r"(\w+)_increment_nesting": r"\1_decrement_nesting",
    r"_record_function_enter(?:_new)?(?:\.default)?": r"_record_function_exit",
    r"_saved_tensors_hooks_disable": "_saved_tensors_hooks_enable",
}
_EXITS = re.compile(r"_exit_\w+|\w+_decrement_nesting|_record_function_exit|\w+_hooks_enable")


def is_mode_switch(node: Node) -> bool:
    """Whether a call is there for the mode that it sets, enters or leaves."""
    name = _name(node)
    return name in _SETS or _exit_of(name) is not None or bool(_EXITS.fullmatch(name))


def is_grad_switch(node: Node) -> bool:
    """Whether a call switches gradients on or off, for all calls after it."""
    return _name(node) in _SETS


def find_redundant_switches(calls: Sequence[Node]) -> list[Node]:
    """Those switches among a graph's calls that no call feels, in an order to erase them in.

    A region with nothing in it, a state that is set anew before a call, or that is so already.
    """
    left = list(calls)
    found: list[Node] = []
    while gone := _adjacent(left) or _repeated(left):
        found += gone
        left = [node for node in left if node not in gone]
    return found


def find_region(node: Node, calls: Sequence[Node]) -> list[Node]:
    """A switch with the one that undoes it, which can only go together; empty for one that is
    needed to undo another."""
    after = calls[calls.index(node) + 1 :]
    if _name(node) in _SETS:
        before = _state(node, calls)
        later = [other for other in after if _name(other) == _name(node)]
        if not later:
            return [node] if before is torch.is_grad_enabled() else []
        return [node, later[0]] if later[0].args[0] is before else []
    leave = _exit_of(_name(node))
    if leave is None:
        return []
    depth = 1
    for other in after:
        depth += _name(other) == _name(node)
        if _name(other).startswith(leave):
            depth -= 1
            if depth == 0 or node in other.all_input_nodes:
                return [node, other]
    return [node]


def _state(node: Node, calls: Sequence[Node]) -> Any:
    """Whether gradients are on before `node` switches them."""
    sets = [c.args[0] for c in calls[: calls.index(node)] if _name(c) == _name(node)]
    return sets[-1] if sets else torch.is_grad_enabled()


def is_functorch_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a level of `vmap` or `grad` and means nothing outside of it."""
    probe = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
    return probe is not None and probe(tensor)


def _adjacent(calls: list[Node]) -> list[Node]:
    for one, other in itertools.pairwise(calls):
        first, second = _name(one), _name(other)
        if first == second and first in _SETS:
            return [one]
        leave = _exit_of(first)
        if leave is not None and second.startswith(leave):
            return [other, one]
    return []


def _repeated(calls: list[Node]) -> list[Node]:
    now: Any = torch.is_grad_enabled()
    for node in calls:
        name = _name(node)
        if name == _SETS[0]:
            if node.args[0] is now:
                return [node]
            now = node.args[0]
        elif is_mode_switch(node):
            now = None
    return []


@functools.cache
def _exit_of(name: str) -> str | None:
    for enter, leave in _ENTERS.items():
        if re.fullmatch(enter, name):
            return re.sub(enter, leave, name)
    return None


def _name(node: Node) -> str:
    if node.op != "call_function":
        return ""
    return str(getattr(node.target, "__name__", ""))

"""Edits that replace an expression with the values recorded in eager."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from fullgraph.compiler.observe import Elements, NodeRecorder, NodeUse, is_plain, signature
from fullgraph.compiler.sources import ORIGINAL_VALUE, FunctionEdit


class NotReplaceable(Exception):
    """Raised for an expression that cannot be replaced; the message is a clause that says why."""


class Replay:
    """Callable that returns recorded values in order, and starts over at the end.

    Dynamo can trace a call of it.
    """

    def __init__(self, values: Sequence[object], order: Sequence[int]) -> None:
        self.values = list(values)
        self.order = list(order)
        self.index = 0

    def __call__(self) -> object:
        value = self.values[self.order[self.index]]
        self.index += 1
        if self.index == len(self.order):
            self.index = 0
        return value


def replacement_edit(recorder: NodeRecorder, number: int, *, replay: bool = True) -> FunctionEdit:
    """Return the edit that replaces an expression by its recorded values.

    A value that was always the same becomes a literal or a global. If values differ, the code
    returns them in order (a `Replay`), or always the first one without `replay`. `number` makes the
    names of the globals unique. Raises NotReplaceable if the expression was not evaluated or is an
    iterator.
    """
    if recorder.node.use is NodeUse.STORE:
        node_has_value = "=" in recorder.node.text and not recorder.node.text.startswith("del ")
        return FunctionEdit(recorder.node.at, ORIGINAL_VALUE if node_has_value else "pass")
    if not recorder.order:
        raise NotReplaceable("it was not evaluated in eager")
    name = f"_fullgraph_value_{number}"
    values, order = _distinct_values(
        [_as_used(recorder, value) for value in recorder.kept], recorder.order
    )
    objects: dict[str, object] = {}
    if len(values) > 1 and replay:
        objects[name] = Replay(values, order)
        text = f"{name}()"
    else:
        text = spell_value(values[order[0]], name, objects)
    if recorder.node.use is NodeUse.ENTER:
        objects["_fullgraph_nullcontext"] = nullcontext
        text = f"_fullgraph_nullcontext({text})"
    if recorder.node.use is NodeUse.BIND:
        text = f"{', '.join(recorder.node.names)}, = {text}"
    return FunctionEdit(recorder.node.at, text, objects)


def have_different_values(recorder: NodeRecorder) -> bool:
    """Return whether the recorded evaluations gave different values."""
    return len({signature(_as_used(recorder, value)) for value in recorder.kept}) > 1


def _as_used(recorder: NodeRecorder, value: object) -> object:
    """Return a recorded value as the code around the expression needs it.

    A tensor becomes a bool if it is an operand of `and` or `or`, and a 0-d tensor becomes a number
    if it is an index. Recorded elements become a list; any other value stays as it is. Raises
    NotReplaceable for an iterator.
    """
    if isinstance(value, Elements):
        return value.items
    if recorder.node.use is NodeUse.OPERAND and isinstance(value, torch.Tensor):
        return bool(value)
    if recorder.node.use is NodeUse.INDEX and isinstance(value, torch.Tensor) and value.dim() == 0:
        return value.item()
    if isinstance(value, Iterator):
        raise NotReplaceable("its value is an iterator, which the eager run used up")
    return value


def _distinct_values(
    values: Sequence[object], order: Sequence[int]
) -> tuple[list[object], list[int]]:
    """Return `values` without repeats, and `order`, indices into `values`, for the shorter list.

    Values ["a", "a", "b"] in the order [0, 1, 2] become ["a", "b"] and [0, 0, 1].
    """
    distinct: list[object] = []
    index: dict[object, int] = {}
    where = []
    for value in values:
        key = signature(value)
        if key not in index:
            index[key] = len(distinct)
            distinct.append(value)
        where.append(index[key])
    return distinct, [where[number] for number in order]


def spell_value(value: Any, name: str, objects: dict[str, object]) -> str:
    """Return source code that evaluates to a value: "[1, 2]" for a list.

    A value without a literal is added to `objects` under a name that begins with `name`; its code
    is this name. A list, tuple or dict is written out, so that each evaluation makes a new one.
    """
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return {"inf": "1e999", "-inf": "-1e999"}.get(str(value), "(1e999 - 1e999)")
    if is_plain(value):
        return repr(value)
    if kind in (list, tuple):
        items = [spell_value(item, f"{name}_{n}", objects) for n, item in enumerate(value)]
        if kind is list:
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' * (len(items) == 1)})"
    if kind is dict and all(is_plain(key) for key in value):
        pairs = [
            f"{key!r}: {spell_value(item, f'{name}_{n}', objects)}"
            for n, (key, item) in enumerate(value.items())
        ]
        return f"{{{', '.join(pairs)}}}"
    objects[name] = value
    if isinstance(value, torch.nn.Parameter) or not isinstance(value, torch.Tensor):
        return name
    # Later code may change it in place, which autograd forbids for a leaf.
    return f"{name}.clone()" if value.requires_grad and value.is_leaf else name

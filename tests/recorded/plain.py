"""Frozen dataclasses as JSON: what a run in another process returns, written down.

A dataclass becomes `{"Position": ["net.py", 3, 4]}`: its fields in order, without those at the end
that have their default. An enum becomes `{"Kind": "crash"}`, a tuple or list a list, a dict a list
of pairs.
"""

from __future__ import annotations

import dataclasses
import importlib
from enum import Enum
from functools import lru_cache
from typing import Any

Plain = Any
"""What JSON holds."""
_CLASSES = {
    "fullgraph.compiler.events": ("Position",),
    "fullgraph.compiler.facts": ("TensorSummary", "ValueSummary"),
    "fullgraph.compiler.numerics": ("Mismatch",),
    "fullgraph.compiler.observe": ("FunctionValues",),
    "fullgraph.diagnose.explanation": ("Explanation",),
    "fullgraph.diagnose.explanation_data": ("Cause", "Crash", "Fallback", "Mode"),
    "fullgraph.minifier.oracle.attempt": ("RungOutcome",),
    "fullgraph.minifier.oracle.candidate": ("Report",),
    "fullgraph.minifier.oracle.failure": ("Failure", "Kind"),
    "fullgraph.minifier.repro.fresh_interpreter": ("ScriptRun", "StandaloneCheck"),
}
"""The classes that a recording may hold, by module."""


def encode(value: Any) -> Plain:
    """Return `value` as JSON has it. Raises TypeError for a class that is not listed."""
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    name = type(value).__name__
    if name not in _module_of_class():
        raise TypeError(
            f"{type(value).__qualname__} is not among the classes of {__name__}: add it"
        )
    if isinstance(value, Enum):
        return {name: value.value}
    fields = [(getattr(value, field.name), _default(field)) for field in dataclasses.fields(value)]
    while fields and fields[-1][0] == fields[-1][1]:
        fields.pop()
    return {name: [encode(item) for item, _ in fields]}


def decode(data: Plain) -> Any:
    """Return the value that `encode` wrote; a list comes back as a tuple."""
    if isinstance(data, list):
        return tuple(map(decode, data))
    if not isinstance(data, dict):
        return data
    ((name, items),) = data.items()
    if name == "dict":
        return {decode(key): decode(item) for key, item in items}
    kind = getattr(importlib.import_module(_module_of_class()[name]), name)
    return kind(*map(decode, items)) if isinstance(items, list) else kind(items)


@lru_cache
def _module_of_class() -> dict[str, str]:
    return {name: module for module, names in _CLASSES.items() for name in names}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default

"""Recorder of facts about an expression's values: types, tensor metadata, numbers, strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from fullgraph.compiler.facts import Plain, TensorSummary, ValueSummary
from fullgraph.compiler.observe.value_copies import is_numpy

VALUES = 16
"""Largest number of distinct values kept for an expression."""
_NAMED = FunctionType | BuiltinFunctionType | MethodType | ModuleType | type


@dataclass
class SummaryRecorder:
    """Recorder of one expression: calling it with a value records the value and returns it."""

    count: int = 0
    types: dict[str, None] = field(default_factory=dict)
    tensors: dict[TensorSummary, None] = field(default_factory=dict)
    values: dict[tuple[type, Plain], Plain] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    items: dict[str, None] = field(default_factory=dict)
    arrays: dict[TensorSummary, None] = field(default_factory=dict)

    def __call__(self, value: Any) -> Any:
        self.count += 1
        kind = type(value)
        self.types[_class_name(kind)] = None
        if isinstance(value, torch.Tensor):
            if len(self.tensors) < VALUES:
                self.tensors[_summarize_tensor(value)] = None
        elif value is None or kind in (int, float, bool, str):
            if len(self.values) < VALUES:
                self.values[kind, repr(value) if kind is float else value] = value
        elif is_numpy(value):
            if len(self.arrays) < VALUES:
                dtype = str(value.dtype)
                array = TensorSummary(dtype, value.shape, "cpu", False, False, kind=kind.__name__)
                self.arrays[array] = None
        elif isinstance(value, _NAMED):
            self.names[_qualified_name(value)] = None
        elif kind in (tuple, list, torch.Size):
            self.items |= dict.fromkeys(_class_name(type(item)) for item in value[:64])
        elif kind is dict:
            some = islice(value.values(), 64)
            self.items |= dict.fromkeys(_class_name(type(item)) for item in some)
        return value

    def summary(self) -> ValueSummary:
        """Return the facts recorded so far."""
        return ValueSummary(
            tuple(self.types),
            self.count,
            tuple(self.tensors),
            tuple(self.values.values()),
            tuple(self.names),
            tuple(self.items),
            tuple(self.arrays),
        )


def _summarize_tensor(value: torch.Tensor) -> TensorSummary:
    """Return the metadata of a tensor without its elements."""
    return TensorSummary(
        str(value.dtype).removeprefix("torch."),
        tuple(int(size) for size in value.shape),
        value.device.type,
        value.requires_grad,
        value.is_leaf,
        str(value.layout).removeprefix("torch."),
        type(value).__name__,
    )


def _class_name(kind: type) -> str:
    """Return a class's name with its module, "torch.Tensor"; without "builtins": "int"."""
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _qualified_name(value: Any) -> str:
    """Return the name of a function, class or module, such as "torch.nn.functional.relu"."""
    if isinstance(value, ModuleType):
        return value.__name__
    owner = getattr(value, "__self__", None)
    name = str(getattr(value, "__qualname__", type(value).__name__))
    if isinstance(value, MethodType | BuiltinFunctionType) and not isinstance(
        owner, ModuleType | type | None
    ):
        return f"{_class_name(type(owner))}.{name.rpartition('.')[2]}"
    module = getattr(value, "__module__", None)
    return f"{module}.{name}" if module and module != "builtins" else name

"""Calls of custom operators, and the check of their fake kernels."""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fullgraph.compiler.private.pytrees import tree_leaves, tree_map

CALLS = 16
"""Largest number of calls with different metadata that are kept for each operator."""


@dataclass(frozen=True)
class OperatorCall:
    """Call of an operator, with copies of its arguments."""

    operator: torch._ops.OpOverload
    args: tuple[object, ...]
    kwargs: Mapping[str, object]


@contextmanager
def record_operator_calls(names: Collection[str]) -> Iterator[list[OperatorCall]]:
    """Yield a list to which the calls of some operators inside the block are added.

    `names` are such as "matcher::assign". Calls that raise are left out; of several calls with the
    same metadata and numbers, the first is kept.
    """
    mode = _Recorder(names)
    with mode:
        yield mode.calls


def fake_kernel_error(call: OperatorCall) -> str:
    """Return how the fake kernel's results differ from the operator's, which is run; "" if not."""
    found = torch.library.opcheck(
        call.operator,
        call.args,
        dict(call.kwargs),
        test_utils="test_faketensor",
        raise_exception=False,
    )
    error = found["test_faketensor"]
    if not isinstance(error, BaseException):
        return ""
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    return first.partition("mismatched tensor metadata")[2].lstrip(" :") or first


class _Recorder(TorchDispatchMode):
    """Mode that keeps the calls of some operators."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names = names
        self.calls: list[OperatorCall] = []
        self._seen: set[Hashable] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        copies = tree_map(_copy, (args, kwargs)) if func.name() in self.names else None
        result = func(*args, **kwargs)
        if copies is not None:  # a call that raises has no results
            key = func.name(), *map(_metadata_of, tree_leaves(copies))
            alike = [one for one in self.calls if one.operator is func]
            if key not in self._seen and len(alike) < CALLS:
                self._seen.add(key)
                self.calls.append(OperatorCall(func, *copies))
        return result


def _metadata_of(leaf: object) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        return leaf.shape, leaf.stride(), leaf.dtype, leaf.device
    return repr(leaf)


def _copy(leaf: object) -> object:
    return copy.deepcopy(leaf.detach()) if isinstance(leaf, torch.Tensor) else leaf

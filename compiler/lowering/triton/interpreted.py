"""Functions of libdevice for Triton's interpreter, which has none: torch computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle


class InterpretedLibrary:
    """Functions of the interpreter's tensors by their names in libdevice."""

    def __getattr__(self, name: str) -> Any:
        return _of_tensors(getattr(torch, "round" if name == "rint" else name))


def rounding_function(dtype: str) -> Any:
    """Return the function that rounds float32 to another dtype; the interpreter cuts bits off."""
    target = getattr(torch, dtype)
    return _of_tensors(lambda value: value.to(target).float())


def _of_tensors(function: Callable[..., torch.Tensor]) -> Any:
    """Return a function of torch's tensors as one of the interpreter's."""

    def call(*args: Any) -> Any:
        """Return the function of tensors or numbers."""
        values = [torch.as_tensor(one.handle.data) for one in args]
        result = function(*values)
        kind = tl.int1 if result.dtype == torch.bool else args[0].dtype
        shape = list(result.shape)
        type_ = tl.block_type(kind, shape) if args[0].type.is_block() else kind
        return tl.core.tensor(TensorHandle(result.numpy(), kind), type_)

    return call

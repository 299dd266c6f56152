"""Collectives of a fake process group, computed from this rank's data.

The fake backend of torch 2.10 leaves the outputs of all collectives but gathers uninitialized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from torch._C import ScriptObject
    from torch._C._distributed_c10d import Work

Tensors = list[torch.Tensor]


class FakeBackend(Protocol):
    """The attributes of torch's fake backend that are used here."""

    def size(self) -> int: ...
    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, /) -> Work: ...


_library: torch.library.Library | None = None


def register_fake_collectives(backend: FakeBackend) -> None:
    """Register kernels that write the outputs of collectives, unless `backend` writes them.

    This cannot be undone. As in later versions of torch, a scatter gives this rank's part, an
    all-to-all gives this rank's own data, and missing data is zeros.
    """
    global _library
    if _library is not None or _writes_outputs(backend):
        return
    _library = torch.library.Library("c10d", "IMPL")
    for key in ("CPU", "CUDA"):
        for kernel in (
            reduce_scatter_,
            _reduce_scatter_base_,
            reduce_scatter_tensor_coalesced_,
            alltoall_,
            alltoall_base_,
            scatter_,
            gather_,
        ):
            _library.impl(kernel.__name__, kernel, key, allow_override=True)


def _writes_outputs(backend: FakeBackend) -> bool:
    """Return whether the fake backend writes to the outputs of a collective."""
    found = torch.full((1,), torch.nan)
    backend._reduce_scatter_base(found, torch.zeros(backend.size())).wait()
    return not found.isnan().any()


# Kernels with the names and parameters of the operators. Outer lists have one entry a device.


def reduce_scatter_(
    outputs: Tensors, inputs: list[Tensors], group: ScriptObject, *_: object, **__: object
) -> tuple[Tensors, ScriptObject]:
    """Write to each output this rank's part of its inputs, not reduced with those of others."""
    rank = _rank(group)
    for output, parts in zip(outputs, inputs, strict=True):
        _write(output, parts[rank])
    return outputs, _finished_work()


def _reduce_scatter_base_(
    output: torch.Tensor, given: torch.Tensor, group: ScriptObject, *_: object, **__: object
) -> tuple[torch.Tensor, ScriptObject]:
    """Write to `output` this rank's part of `given`, which holds the parts of all ranks."""
    _write(output, given.flatten()[_rank(group) * output.numel() :])
    return output, _finished_work()


def reduce_scatter_tensor_coalesced_(
    outputs: Tensors, inputs: Tensors, group: ScriptObject, *_: object, **__: object
) -> ScriptObject:
    """Write to each output this rank's part of the input at the same index."""
    for output, given in zip(outputs, inputs, strict=True):
        _reduce_scatter_base_(output, given, group)
    return _finished_work()


def alltoall_(
    outputs: Tensors, inputs: Tensors, *_: object, **__: object
) -> tuple[Tensors, ScriptObject]:
    """Write to each output the input at the same index, in place of another rank's data."""
    for output, given in zip(outputs, inputs, strict=True):
        _write(output, given)
    return outputs, _finished_work()


def alltoall_base_(
    output: torch.Tensor, given: torch.Tensor, *_: object, **__: object
) -> ScriptObject:
    """Write this rank's input to `output`, in place of the data of all ranks."""
    _write(output, given)
    return _finished_work()


def scatter_(
    outputs: Tensors, inputs: list[Tensors], group: ScriptObject, *_: object, **__: object
) -> tuple[Tensors, ScriptObject]:
    """Write to each output this rank's part of its inputs; zeros if another rank scatters."""
    for place, output in enumerate(outputs):
        _write(output, inputs[place][_rank(group)] if inputs else output.new_empty(0))
    return outputs, _finished_work()


def gather_(outputs: list[Tensors], inputs: Tensors, *_: object, **__: object) -> ScriptObject:
    """Write this rank's input to the outputs of all ranks."""
    for parts, given in zip(outputs, inputs, strict=False):  # only the root has outputs
        for part in parts:
            _write(part, given)
    return _finished_work()


def _write(output: torch.Tensor, given: torch.Tensor) -> None:
    """Fill `output` with the first elements of `given`, and with zeros if these are too few."""
    taken = given.flatten()[: output.numel()]
    rest = taken.new_zeros(output.numel() - taken.numel())
    output.copy_(torch.cat([taken, rest]).view_as(output))


def _rank(group: ScriptObject) -> int:
    return torch.distributed.ProcessGroup.unbox(group).rank()


def _finished_work() -> ScriptObject:
    """Return the handle of a collective that has finished."""
    from torch._C._distributed_c10d import FakeWork

    return FakeWork().boxed()

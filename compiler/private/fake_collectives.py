"""Collectives of a fake process group, computed from this rank's data.

The fake backend of torch 2.10 leaves the outputs of all collectives but gathers uninitialized.
"""

from __future__ import annotations

from typing import Any

import torch

_library: torch.library.Library | None = None


def register_fake_collectives(backend: Any) -> None:
    """Register kernels that write outputs, unless `backend` writes them; permanent for the process.

    As in later versions of torch, a scatter gives this rank's part, an exchange gives this rank's
    own data, and missing data is zeros.
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


def _writes_outputs(backend: Any) -> bool:
    found = torch.full((1,), torch.nan)
    backend._reduce_scatter_base(found, torch.zeros(backend.size())).wait()
    return not found.isnan().any()


# Kernels with the names and parameters of the operators. Outer lists have one entry a device.


def reduce_scatter_(outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any) -> Any:
    rank = _rank(group)
    for output, parts in zip(outputs, inputs, strict=True):
        _write(output, parts[rank])
    return outputs, _finished_work()


def _reduce_scatter_base_(output: Any, given: Any, group: Any, *_: Any, **__: Any) -> Any:
    _write(output, given.flatten()[_rank(group) * output.numel() :])
    return output, _finished_work()


def reduce_scatter_tensor_coalesced_(
    outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any
) -> Any:
    for output, given in zip(outputs, inputs, strict=True):
        _reduce_scatter_base_(output, given, group)
    return _finished_work()


def alltoall_(outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    for output, given in zip(outputs, inputs, strict=True):
        _write(output, given)
    return outputs, _finished_work()


def alltoall_base_(output: Any, given: Any, *_: Any, **__: Any) -> Any:
    _write(output, given)
    return _finished_work()


def scatter_(outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any) -> Any:
    for place, output in enumerate(outputs):
        _write(output, inputs[place][_rank(group)] if inputs else output.new_empty(0))
    return outputs, _finished_work()


def gather_(outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    for parts, given in zip(outputs, inputs, strict=False):  # only the root has outputs
        for part in parts:
            _write(part, given)
    return _finished_work()


def _write(output: torch.Tensor, given: torch.Tensor) -> None:
    """Fill `output` with the first elements of `given`, padded with zeros."""
    taken = given.flatten()[: output.numel()]
    rest = taken.new_zeros(output.numel() - taken.numel())
    output.copy_(torch.cat([taken, rest]).view_as(output))


def _rank(group: Any) -> int:
    rank: int = torch.distributed.ProcessGroup.unbox(group).rank()
    return rank


def _finished_work() -> Any:
    from torch._C._distributed_c10d import FakeWork

    return FakeWork().boxed()

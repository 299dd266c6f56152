"""Collectives of a backend that sends nothing and leaves the result unwritten, as torch 2.10's does
for all but gathering: what the caller finds there would be whatever the memory held."""

from __future__ import annotations

from typing import Any

import torch

_library: torch.library.Library | None = None


def register_fake_collectives(backend: Any) -> None:
    """From now on results are written from this rank's data, if `backend` does not do so itself.

    As later versions of torch do: of what is scattered this rank's part, of what is exchanged what
    this rank gave, and zeros where it gave nothing. For the whole process, for good.
    """
    global _library
    if _library is not None or _writes(backend):
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


def _writes(backend: Any) -> bool:
    found = torch.full((1,), torch.nan)
    backend._reduce_scatter_base(found, torch.zeros(backend.size())).wait()
    return not found.isnan().any()


# Kernels, with the names and parameters of the operators. Lists of lists have one entry for each
# device of the process, which is one.


def reduce_scatter_(outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any) -> Any:
    rank = _rank(group)
    for output, parts in zip(outputs, inputs, strict=True):
        _write(output, parts[rank])
    return outputs, _done()


def _reduce_scatter_base_(output: Any, given: Any, group: Any, *_: Any, **__: Any) -> Any:
    _write(output, given.flatten()[_rank(group) * output.numel() :])
    return output, _done()


def reduce_scatter_tensor_coalesced_(
    outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any
) -> Any:
    for output, given in zip(outputs, inputs, strict=True):
        _reduce_scatter_base_(output, given, group)
    return _done()


def alltoall_(outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    for output, given in zip(outputs, inputs, strict=True):
        _write(output, given)
    return outputs, _done()


def alltoall_base_(output: Any, given: Any, *_: Any, **__: Any) -> Any:
    _write(output, given)
    return _done()


def scatter_(outputs: Any, inputs: Any, group: Any, *_: Any, **__: Any) -> Any:
    for place, output in enumerate(outputs):
        _write(output, inputs[place][_rank(group)] if inputs else output.new_empty(0))
    return outputs, _done()


def gather_(outputs: Any, inputs: Any, *_: Any, **__: Any) -> Any:
    for parts, given in zip(outputs, inputs, strict=False):  # only the root has outputs
        for part in parts:
            _write(part, given)
    return _done()


def _write(output: torch.Tensor, given: torch.Tensor) -> None:
    """The beginning of `given`, as much as `output` holds, and zeros behind it."""
    taken = given.flatten()[: output.numel()]
    rest = taken.new_zeros(output.numel() - taken.numel())
    output.copy_(torch.cat([taken, rest]).view_as(output))


def _rank(group: Any) -> int:
    rank: int = torch.distributed.ProcessGroup.unbox(group).rank()
    return rank


def _done() -> Any:
    from torch._C._distributed_c10d import FakeWork

    return FakeWork().boxed()

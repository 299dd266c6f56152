"""Replacements for process groups in a forked child, without the other ranks.

Collectives are computed from this rank's data: the fake backend of torch 2.10 leaves the outputs of
all collectives but gathers uninitialized.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from torch._C import ScriptObject
    from torch._C._distributed_c10d import Backend, Work
    from torch.distributed import ProcessGroup


Tensors = list[torch.Tensor]


class FakeBackend(Protocol):
    """The attributes of torch's fake backend that are used here."""

    def size(self) -> int: ...
    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, /) -> Work: ...


_library: torch.library.Library | None = None


def replace_process_groups() -> bool:
    """Make every process group run its collectives in this process, without the other ranks.

    Each group keeps its name, size, rank and Python object, so a DeviceMesh or
    DistributedDataParallel stays valid; only its backends and the shared store are replaced. Use it
    only in a forked child, because it cannot be undone. Returns whether there was a group.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    from torch.distributed import HashStore, distributed_c10d

    groups = distributed_c10d._world.pg_map
    for group, (name, _) in list(groups.items()):
        if group.size() < 1 or type(group) is not torch.distributed.ProcessGroup:
            continue  # a subclass, as in tests that use threads as ranks
        group_name, group_desc = group.group_name, group.group_desc
        _replace_backend(group)
        group._set_group_name(group_name)  # sets it on the new backends
        group._set_group_desc(group_desc)
        groups[group] = (name, HashStore())
    return True


def _replace_backend(group: ProcessGroup) -> None:
    """Register a backend for `group` that this process can use.

    The first backend registered under a type cannot be replaced, so the child of a forked child
    registers its backend under a type that neither ancestor has used.
    """
    backend = _make_lone_backend(group)
    types = torch.distributed.ProcessGroup.BackendType
    known = getattr(group, "_device_types", None) or [torch.device("cpu")]
    devices = [torch.device(device.type) for device in known]
    for name in ("CUSTOM", "UCC", "MPI", "XCCL", "NCCL", "GLOO"):
        for device in devices:
            group._register_backend(device, getattr(types, name, types.CUSTOM), backend)
        if group._get_backend(devices[0]) is backend:
            return


def _make_lone_backend(group: ProcessGroup) -> Backend:
    """Return Gloo for a group of one rank, else torch's fake backend with this rank's data."""
    from torch._C import _distributed_c10d as c10d

    gloo = getattr(c10d, "ProcessGroupGloo", None)
    if group.size() == 1 and gloo is not None:
        with contextlib.suppress(RuntimeError):  # no network interface
            return gloo(torch.distributed.HashStore(), 0, 1, datetime.timedelta(minutes=5))
    make: Callable[[int, int], Any] = getattr(
        c10d.FakeProcessGroup, "_create_internal", c10d.FakeProcessGroup
    )
    backend = make(group.rank(), group.size())
    _register_fake_collectives(backend)
    return backend


def group_size_and_rank(name: str) -> tuple[int, int]:
    """Return size and rank of the process group `name`; (1, 0) if this process has none."""
    try:
        from torch.distributed.distributed_c10d import _resolve_process_group

        group = _resolve_process_group(name)  # type: ignore[arg-type]
        return group.size(), group.rank()
    except (ImportError, RuntimeError, ValueError):
        return 1, 0


def group_name_of(node: torch.fx.Node) -> str | None:
    """Return the group name passed to a functional collective; None for other nodes."""
    target: object = node.target
    if isinstance(target, torch._ops.OpOverloadPacket):  # as Dynamo calls it
        target = getattr(target, target.overloads()[0])
    schema = getattr(target, "_schema", None)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name == "group_name":
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            return given if isinstance(given, str) else None
    return None


def _register_fake_collectives(backend: FakeBackend) -> None:
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

"""Replacements for process groups in a forked child, without the other ranks."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from fullgraph.compiler.private.fake_collectives import register_fake_collectives

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend
    from torch.distributed import ProcessGroup


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
    register_fake_collectives(backend)
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

"""Process groups of which only this process is left."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import torch

from fullgraph.compiler.private.fake_collectives import register_fake_collectives


def replace_process_groups() -> bool:
    """Let every process group of this process do its collectives here, and wait for nobody.

    Each group keeps its name, its size, this rank and its Python object, so what the model holds
    stays good (a DeviceMesh, DistributedDataParallel): only what sends for it is replaced. The
    store that the ranks share is let go too. Only for a forked child: there is no way back.
    Returns whether there was a group.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    from torch.distributed import HashStore, distributed_c10d

    groups = distributed_c10d._world.pg_map
    for group, (name, _) in list(groups.items()):
        if group.size() < 1 or type(group) is not torch.distributed.ProcessGroup:
            continue  # a class of its own, as tests that use threads for ranks have
        called, described = group.group_name, group.group_desc
        _replace(group)
        group._set_group_name(called)  # the new backends have to be told
        group._set_group_desc(described)
        groups[group] = (name, HashStore())
    return True


def _replace(group: Any) -> None:
    """Give `group` a backend that this process can use.

    A group keeps the first backend it was given of each type, so a child's child takes a type that
    neither it nor its parent has.
    """
    backend = _alone(group)
    types = torch.distributed.ProcessGroup.BackendType
    known = getattr(group, "_device_types", None) or [torch.device("cpu")]
    devices = [torch.device(device.type) for device in known]
    for name in ("CUSTOM", "UCC", "MPI", "XCCL", "NCCL", "GLOO"):
        for device in devices:
            group._register_backend(device, getattr(types, name, types.CUSTOM), backend)
        if group._get_backend(devices[0]) is backend:
            return


def _alone(group: Any) -> Any:
    """Gloo where this rank is the only one; with more, torch's backend without communication,
    which computes what it can from this rank's data."""
    from torch._C import _distributed_c10d as c10d

    gloo = getattr(c10d, "ProcessGroupGloo", None)
    if group.size() == 1 and gloo is not None:
        with contextlib.suppress(RuntimeError):  # no network interface
            return gloo(torch.distributed.HashStore(), 0, 1, datetime.timedelta(minutes=5))
    make = getattr(c10d.FakeProcessGroup, "_create_internal", c10d.FakeProcessGroup)
    backend = make(group.rank(), group.size())
    register_fake_collectives(backend)
    return backend


def group_size_and_rank(name: str) -> tuple[int, int]:
    """Of the group that functional collectives call `name`; (1, 0) if this process has none."""
    try:
        from torch.distributed.distributed_c10d import _resolve_process_group

        group = _resolve_process_group(name)  # type: ignore[arg-type]
        return group.size(), group.rank()
    except (ImportError, RuntimeError, ValueError):
        return 1, 0


def group_name_of(node: torch.fx.Node) -> str | None:
    """The group that a call of a functional collective names; None for any other node."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverloadPacket):  # as Dynamo calls it
        target = getattr(target, target.overloads()[0])
    schema = getattr(target, "_schema", None)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.name == "group_name":
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            return given if isinstance(given, str) else None
    return None

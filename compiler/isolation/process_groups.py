"""Collectives without the other ranks: in a forked child, and in a standalone script.

A child keeps its parent's groups with their names and sizes, and computes each collective from
this rank's data alone. With one rank the results are those of the real group. With more, shapes
are right and values are not: a sum over the ranks is this rank's part, gathered tensors are copies
of this rank's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import fx

from fullgraph.compiler.private import group_name_of, group_size_and_rank, replace_process_groups

DEFAULT_GROUP = "0"
"""torch's name for the group of all ranks that init_process_group makes."""


@dataclass(frozen=True, order=True)
class GroupSpec:
    """Name, size and rank of a process group that a graph uses."""

    name: str = DEFAULT_GROUP
    size: int = 1
    rank: int = 0


def has_process_group() -> bool:
    """Return whether a process group is initialised in this process."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def detach_process_groups() -> bool:
    """Make collectives of this forked child run without the other ranks.

    Returns whether there was a process group.
    """
    return replace_process_groups()


def groups_of_graph(graph: fx.GraphModule) -> tuple[GroupSpec, ...]:
    """Return the process groups that functional collectives in a graph and its subgraphs use.

    A group that this process does not have is returned with size 1.
    """
    modules = [each for each in graph.modules() if isinstance(each, fx.GraphModule)]
    nodes = (node for module in modules for node in module.graph.nodes)
    names = {name for node in nodes if (name := group_name_of(node)) is not None}
    return tuple(sorted(GroupSpec(name, *group_size_and_rank(name)) for name in names))


def group_statements(groups: Iterable[GroupSpec] = (GroupSpec(),)) -> str:
    """Return the statements with which a script of one process initialises `groups`.

    A group of one rank is real, on gloo; with more ranks it uses torch's "fake" backend, which
    has the sizes and sends nothing.
    """
    found = {group.name: group for group in groups}
    whole = found.pop(DEFAULT_GROUP, None) or max(
        found.values(), key=lambda g: g.size, default=GroupSpec()
    )
    size = max([whole.size, *(group.size for group in found.values())])
    fake = "import torch.testing._internal.distributed.fake_pg"
    lines, backend = ([fake], "fake") if size > 1 else ([], "gloo")
    rank = whole.rank if whole.size == size else 0
    lines.append(
        f'torch.distributed.init_process_group("{backend}", store=torch.distributed.HashStore(), '
        f"rank={rank}, world_size={size})"
    )
    made = 0
    for group in sorted(found.values(), key=_name_order):
        ranks = _ranks_around(group, rank, size)
        if group.name.isdecimal():  # torch numbers the groups it makes
            lines += [f"torch.distributed.new_group({ranks})"] * (int(group.name) - made)
            made = int(group.name)
            continue
        lines.append(
            "torch._C._distributed_c10d._register_process_group"
            f"({group.name!r}, torch.distributed.new_group({ranks}))"
        )
    return "\n".join(lines)


def _name_order(group: GroupSpec) -> tuple[bool, int, str]:
    """Sort key: groups numbered by torch first, by number; then the others by name."""
    counted = group.name.isdecimal()
    return (not counted, int(group.name) if counted else 0, group.name)


def _ranks_around(group: GroupSpec, rank: int, size: int) -> str:
    """Return the source code of a list of `group.size` ranks, with `rank` at index `group.rank`.

    `size` is the world size: for the rank 3 of 4, in a group of size 2 as rank 1, "[0, 3]".
    """
    before = [r for r in range(size) if r < rank][: group.rank]
    after = [r for r in range(size) if r > rank][: group.size - 1 - len(before)]
    return str([*before, rank, *after])

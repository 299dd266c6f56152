"""Collectives where the other ranks are not: in a forked child, and in a script that stands alone.

A child keeps the groups of its parent with their names and sizes, and computes what a collective
gives from this rank's data alone. With one rank that is what the real group gives. With more the
shapes are the real ones and the values are not: a sum over the ranks is this rank's part, and
what is gathered are copies of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import fx

from fullgraph.compiler.private import fake_process_groups as private

DEFAULT = "0"
"""What torch calls the group of all ranks that init_process_group makes."""


@dataclass(frozen=True, order=True)
class Group:
    """A process group that a graph names."""

    name: str = DEFAULT
    size: int = 1
    rank: int = 0


def live() -> bool:
    """Whether this process has a process group."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def alone() -> bool:
    """Go on without the other ranks, in a forked child. Returns whether there was a group."""
    return private.alone()


def used(graph: fx.GraphModule) -> tuple[Group, ...]:
    """The groups that the functional collectives of a graph and of its subgraphs name, as they
    are in this process; of one rank where it has no such group."""
    modules = [each for each in graph.modules() if isinstance(each, fx.GraphModule)]
    nodes = (node for module in modules for node in module.graph.nodes)
    names = {name for node in nodes if (name := private.named(node)) is not None}
    return tuple(sorted(Group(name, *private.size_and_rank(name)) for name in names))


def prelude(groups: Iterable[Group] = (Group(),)) -> str:
    """The statements with which a script that imports torch makes `groups` of its one process.

    A group of one rank is a real one, on gloo; with more ranks it is torch's "fake" backend,
    which keeps the sizes and sends nothing.
    """
    found = {group.name: group for group in groups}
    whole = found.pop(DEFAULT, None) or max(found.values(), key=lambda g: g.size, default=Group())
    size = max([whole.size, *(group.size for group in found.values())])
    fake = "import torch.testing._internal.distributed.fake_pg"
    lines, backend = ([fake], "fake") if size > 1 else ([], "gloo")
    rank = whole.rank if whole.size == size else 0
    lines.append(
        f'torch.distributed.init_process_group("{backend}", store=torch.distributed.HashStore(), '
        f"rank={rank}, world_size={size})"
    )
    made = 0
    for group in sorted(found.values(), key=_place):
        ranks = _ranks(group, rank, size)
        if group.name.isdecimal():  # torch counts the groups it makes
            lines += [f"torch.distributed.new_group({ranks})"] * (int(group.name) - made)
            made = int(group.name)
            continue
        lines.append(
            "torch._C._distributed_c10d._register_process_group"
            f"({group.name!r}, torch.distributed.new_group({ranks}))"
        )
    return "\n".join(lines)


def _place(group: Group) -> tuple[bool, int, str]:
    counted = group.name.isdecimal()
    return (not counted, int(group.name) if counted else 0, group.name)


def _ranks(group: Group, rank: int, size: int) -> str:
    """Some ranks, in whose order `rank` of all is `group.rank`."""
    before = [r for r in range(size) if r < rank][: group.rank]
    after = [r for r in range(size) if r > rank][: group.size - 1 - len(before)]
    return str([*before, rank, *after])

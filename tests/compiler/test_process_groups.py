"""Collectives in a forked child, and in a script of one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import fx

from fullgraph.compiler.isolation import GroupSpec, group_statements, groups_of_graph, run_isolated
from fullgraph.compiler.isolation.process_groups import detach_process_groups

pytestmark = pytest.mark.compiles


@pytest.fixture
def start() -> Iterator[Callable[[int, int], None]]:
    """Start a group of one process, or of more on the backend that sends nothing."""

    def made(size: int, rank: int) -> None:
        exec(group_statements([GroupSpec(size=size, rank=rank)]))

    yield made
    if dist.is_initialized():
        dist.destroy_process_group()


def forked(job: Callable[[], object]) -> object:
    outcome = run_isolated(lambda _: job(), where="fork", seconds=60)
    assert outcome.status == "ok", outcome
    return outcome.value


@pytest.mark.parametrize("name", ["allreduce", "allgather", "scatter", "barrier", "objects", "ddp"])
def test_a_child_of_one_rank_computes_what_the_group_computes(start, name):
    def allreduce():
        x = torch.arange(4.0)
        dist.all_reduce(x)
        return x.tolist()

    def allgather():
        found = [torch.empty(4)]
        dist.all_gather(found, torch.arange(4.0))
        return found[0].tolist()

    def scatter():
        return functional.reduce_scatter_tensor(
            torch.arange(4.0), "sum", 0, dist.group.WORLD
        ).tolist()

    def barrier():
        dist.barrier()
        return True

    def objects():
        found = [None]
        dist.all_gather_object(found, {"a": 1})
        return found

    def ddp():
        model(torch.ones(2, 4)).sum().backward()
        found = model.module.weight.grad.tolist()
        model.zero_grad()
        return found

    start(1, 0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    job = locals()[name]
    here = job()
    assert forked(job) == here


def test_a_group_of_its_own_is_alone_too(start):
    start(1, 0)
    group = dist.new_group([0])

    def job():
        x = torch.ones(2)
        dist.all_reduce(x, group=group)
        return x.tolist(), group.size(), dist.get_backend()

    assert forked(job) == ([1.0, 1.0], 1, "gloo")


def test_sizes_are_those_of_the_real_group(start):
    start(4, 2)

    def job():
        gathered = functional.all_gather_tensor(torch.ones(3), 0, dist.group.WORLD)
        part = functional.reduce_scatter_tensor(torch.arange(8.0), "sum", 0, dist.group.WORLD)
        return dist.get_rank(), gathered.tolist(), part.tolist()

    assert forked(job) == (2, [1.0] * 12, [4.0, 5.0])


def test_what_no_other_rank_sends_is_not_left_unwritten(start):
    start(4, 2)
    parts = list(torch.arange(8.0).chunk(4))

    def job():
        found = {}
        for name in ("reduce_scatter", "scatter", "all_to_all", "all_to_all_single", "gather"):
            single = name.startswith(("reduce", "scatter"))
            found[name] = torch.full((2 if single else 8,), torch.nan)
        dist.reduce_scatter(found["reduce_scatter"], parts)
        dist.scatter(found["scatter"], parts, src=2)
        dist.all_to_all(list(found["all_to_all"].chunk(4)), parts)
        dist.all_to_all_single(found["all_to_all_single"], torch.arange(8.0))
        dist.gather(parts[2], list(found["gather"].chunk(4)), dst=2)
        several = functional.reduce_scatter_tensor_coalesced(
            [torch.arange(8.0), torch.ones(4)], "sum", [0, 0], dist.group.WORLD
        )
        return {name: value.tolist() for name, value in found.items()}, [
            t.tolist() for t in several
        ]

    assert forked(job) == (
        {
            "reduce_scatter": [4.0, 5.0],
            "scatter": [4.0, 5.0],
            "all_to_all": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            "all_to_all_single": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            "gather": [4.0, 5.0] * 4,
        },
        [[4.0, 5.0], [1.0]],
    )


def test_a_childs_child_is_alone_too(start):
    start(1, 0)

    def job():
        x = torch.ones(2)
        dist.all_reduce(x)
        return x.tolist()

    assert forked(lambda: [job(), forked(lambda: [job(), forked(job)])]) == [
        [1.0, 1.0],
        [[1.0, 1.0], [1.0, 1.0]],
    ]


def test_the_parents_group_goes_on(start):
    start(1, 0)
    forked(dist.barrier)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [1.0, 1.0]


def test_without_a_group_nothing_changes():
    assert forked(detach_process_groups) is False


class Reduced(torch.nn.Module):
    def forward(self, x):
        part = torch.ops._c10d_functional.all_gather_into_tensor(x, 2, "tp")
        whole = torch.ops._c10d_functional.all_reduce(part, "sum", group_name="0")
        return torch.ops._c10d_functional.wait_tensor(whole)


def test_groups_are_named_by_the_graph():
    graph = fx.symbolic_trace(Reduced())
    assert groups_of_graph(graph) == (GroupSpec("0"), GroupSpec("tp"))
    assert groups_of_graph(fx.symbolic_trace(torch.nn.ReLU())) == ()


def test_the_sizes_of_groups_that_are_live(start):
    start(2, 1)
    assert groups_of_graph(fx.symbolic_trace(Reduced())) == (GroupSpec("0", 2, 1), GroupSpec("tp"))


SCRIPT = """
import torch
{prelude}
for name, size in {names}:
    x = torch.ops._c10d_functional.all_gather_into_tensor(torch.ones(1), size, name)
    print(name, *torch.ops._c10d_functional.wait_tensor(x).shape)
"""


@pytest.mark.parametrize(
    "given",
    [
        [GroupSpec()],
        [GroupSpec("2")],
        [GroupSpec("0", 4, 3), GroupSpec("1", 2, 1), GroupSpec("3", 4, 0), GroupSpec("tp", 2, 0)],
    ],
)
def test_a_script_has_the_groups_it_names(given):
    script = SCRIPT.format(
        prelude=group_statements(given), names=[(group.name, group.size) for group in given]
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert told == [f"{group.name} {group.size}" for group in given], done


def test_the_usual_script_needs_one_line():
    assert group_statements() == (
        'torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), '
        "rank=0, world_size=1)"
    )

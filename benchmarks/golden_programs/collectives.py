# ruff: noqa
"""Collectives that Dynamo does not trace: FG501, FG511 and FG512."""

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn

from benchmarks.golden_programs import inputs
from benchmarks.golden_programs.program import Program


def awaited(x):
    y = x * 2
    dist.barrier()
    return y + 1


class Overlapping(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        z = self.net(x)
        work.wait()
        return y + z


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(4))

    def forward(self, x):
        total = x.sum()
        dist.broadcast(self.queue, src=0)
        dist.reduce(total, dst=0)
        z = x * 2
        z = torch.cat(torch.distributed.nn.all_gather(z))
        return z + self.queue + total


PROGRAMS = (
    Program("FG501", awaited, inputs.vector, within=inputs.group),
    Program("FG511", Overlapping, inputs.matrix, within=inputs.group),
    Program("FG512", Shared, inputs.matrix, within=inputs.group),
)

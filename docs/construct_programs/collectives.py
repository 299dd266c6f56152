"""Collectives of torch.distributed, in a group of one process."""

import torch
import torch.distributed as dist

from docs.construct_programs.program import Collection

construct = Collection()


def start_group():
    """Start the group of one process, once."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


start_group()


@construct("call:torch.distributed.all_reduce_async")
def _(x):
    y = x + 1
    dist.all_reduce(y, async_op=True)
    return y


@construct("call:torch.distributed.Work.wait")
def _(x):
    y = x + 1
    work = dist.all_reduce(y, async_op=True)
    work.wait()  # here
    return y


@construct("call:torch.distributed.all_gather")
def _(x):
    out = [torch.ones_like(x)]
    dist.all_gather(out, x)
    return out[0]


@construct("call:torch.distributed.all_gather_async")
def _(x):
    out = [torch.ones_like(x)]
    dist.all_gather(out, x, async_op=True)
    return out[0]


@construct("call:torch.distributed.all_reduce")
def _(x):
    y = x + 1
    dist.all_reduce(y)
    return y


@construct("call:torch.distributed.broadcast")
def _(x):
    y = x + 1
    dist.broadcast(y, 0)
    return y


@construct("call:torch.distributed.broadcast_async")
def _(x):
    y = x + 1
    dist.broadcast(y, 0, async_op=True)
    return y


@construct("call:torch.distributed.reduce")
def _(x):
    y = x + 1
    dist.reduce(y, 0)
    return y


@construct("call:torch.distributed.all_gather_object")
def _(x):
    out = [None]
    dist.all_gather_object(out, 1)
    return x + 1


construct.calls(
    {
        "call:torch.distributed.get_world_size": lambda x: x * dist.get_world_size(),
        "call:torch.distributed.get_rank": lambda x: x * dist.get_rank(),
        "call:torch.distributed.is_initialized": lambda x: x * int(dist.is_initialized()),
        "call:torch.distributed.is_available": lambda x: x * int(dist.is_available()),
        "call:torch.distributed.barrier": lambda x: (x + 1, dist.barrier()),
        "call:torch.distributed.new_group": lambda x: (x + 1, dist.new_group([0]))[0],
    }
)

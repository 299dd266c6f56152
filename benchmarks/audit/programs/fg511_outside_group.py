"""FG511: for a group that this rank is not in there is no handle, and waiting for it raises."""

import torch
import torch.distributed as dist
from torch import nn


class StageNorm(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.net = nn.Linear(features, features)
        self.groups = groups

    def forward(self, x, stage=0):
        power = x.square().sum(0)
        work = dist.all_reduce(power, group=self.groups[stage], async_op=True)
        z = self.net(x)
        work.wait()
        return z / (power + 1).sqrt()


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    groups = [None, dist.GroupMember.NON_GROUP_MEMBER]
    return StageNorm(4, groups).eval(), (torch.randn(2, 4),)


def witnesses():
    """The stage of the other ranks, the last stage by a negative index, and one that does not exist."""
    return [(torch.ones(2, 4), 1), (torch.ones(2, 4), -1), (torch.ones(2, 4), 2)]

"""FG501: the reduced tensor has other names, and all of them must see the reduction."""

import torch
import torch.distributed as dist
from torch import nn


class SharedStatistics(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)
        self.register_buffer("total", torch.zeros(features))
        self.views = [self.total]

    def forward(self, x, history):
        y = self.proj(x)
        self.total.add_(y.detach().sum(0))
        work = dist.all_reduce(self.total, async_op=True)
        work.wait()
        dist.broadcast(history[0], src=0)
        history.append(self.views[0])
        return y - self.views[0] / len(x), history[0]


def build():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    return SharedStatistics(4).eval(), (torch.randn(3, 4), [torch.zeros(4)])


def witnesses():
    """The same tensor stands twice in the history, and one is a view of the other."""
    twice = torch.ones(4)
    base = torch.ones(2, 4)
    return [(torch.ones(2, 4), [twice, twice]), (torch.ones(1, 4), [base[1], base])]

"""A small network that fails, for PyTorch's own minifier to write a script of it.

    python failing_network.py HOW [grad] [dynamic] [ranks]

HOW is the bug injected into Inductor's relu: compile_error, runtime_error, accuracy.
"""

import sys

import torch
import torch._inductor.config as config
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        x = self.first(x).relu()
        if "ranks" in sys.argv:
            dist.all_reduce(x)
        return self.norm(x)


def main():
    config.cpp.inject_relu_bug_TESTING_ONLY = sys.argv[1]
    if "ranks" in sys.argv:
        from torch.testing._internal.distributed import fake_pg

        dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=1, world_size=2)
    torch.manual_seed(0)
    with torch.set_grad_enabled("grad" in sys.argv):
        compiled = torch.compile(Net(), dynamic="dynamic" in sys.argv or None)
        compiled(torch.randn(3, 4)).sum()


if __name__ == "__main__":
    main()

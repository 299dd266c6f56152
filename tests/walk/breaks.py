import torch


@torch.compile(backend="eager")
def step(x):
    print("step")
    return helper(x) * 2


@torch.compile(backend="eager")
def helper(x):
    return x + 1


for _ in range(3):
    step(torch.ones(2))
    helper(torch.ones(2))

import torch


def step(x):
    return x + 1


compiled = torch.compile(step)
print(step(torch.ones(2)))

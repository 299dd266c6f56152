"""Functions whose breaks `torch._dynamo.explain` miscounts or does not see."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn


def in_for(x):
    for _ in range(2):
        x = x + 1
        print("for")
    return x


def in_while(x):
    n = 0
    while n < 2:
        n += 1
        x = x + 1
        print("while")
    return x


def in_try(x):
    try:
        x = x + 1
        print("try")
    except ValueError:
        x = x - 1
    return x


def in_finally(x):
    try:
        x = x + 1
        print("finally")
    finally:
        x = x * 2
    return x


def in_except(x):
    try:
        raise ValueError("expected")
    except ValueError:
        x = x + 1
        print("except")
    return x


class Context:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


def in_context(x):
    with Context():
        x = x + 1
        print("context")
    return x


@contextlib.contextmanager
def managed() -> Iterator[None]:
    yield


def in_managed(x):
    with managed():
        x = x + 1
        print("managed")
    return x


def in_suppress(x):
    with contextlib.suppress(ValueError):
        x = x + 1
        print("suppress")
    return x


def generator(x):
    yield x + 1


async def coroutine(x):
    x = x + 1
    print("async")
    return x


class BackwardHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.lin.register_full_backward_hook(lambda *args: None)

    def forward(self, x):
        return self.lin(x)


def collate_first(x):
    x = torch.utils.data.default_collate([x, x])
    return x + 1


def clock_last(x):
    y = torch.softmax(x, 0)
    return y, time.time()


def backward_last(x):
    y = (x * x).sum()
    y.backward()
    return y


class ForwardHook(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.lin.register_forward_hook(lambda *args: print("hook"))

    def forward(self, x):
        return self.lin(x) + 1


def reduced(x):
    return functools.reduce(lambda a, b: (print("reduce"), a + b)[1], [x, x + 1, x + 2])


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print("forward")
        return x * 2

    @staticmethod
    def backward(ctx, g):
        print("backward")
        return g * 2


def applied(x):
    return Double.apply(x) + 1


def inner(x):
    return x * x.sum().item()


def nested(x):
    return inner(inner(x))


def outer(x):
    return inner(inner(x) + 1) + 2


def branch(x):
    if x.sum() > 0:
        x = x + 1
    return x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        x = self.lin(x)
        print("block")
        return x + 1


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Disabled(nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1


def for_big(x):
    if x.shape[0] > 5:
        print("big")
    return x + 1


def uncaught(x):
    x = x + 1
    raise ValueError("not caught")


def three(x):
    for _ in range(2):
        print(x)
        if x.sum() > 0:
            x = x + 1
        y = x.sum().item()
    return x * y


def scaled(x, k):
    return x * k


def lengthened(x, text):
    return x + len(text)


def summed(x, parts):
    return x + sum(parts)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


def item_times(x):
    return x * x.sum().item()


def item_as_text(x):
    return x + len(str(x.sum().item()))


def ranged(x):
    n = x.sum().item()
    for _ in range(int(n)):
        x = x + 1
    return x


def masked(x):
    return x[x > 0] * 2


def clean(x):
    return torch.relu(x) + 1


LIN = nn.Linear(4, 4)


def train_step(x):
    y = torch.relu(LIN(x)).sum()
    y.backward()
    return y.detach()


def looked_up_early(x):
    return x.reshape(int(np.prod(x.shape[:-1])), -1)


def made_and_entered(x):
    with torch.random.fork_rng():
        return x + 1


class PrintingManager:
    def __init__(self):
        print("made")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def printed_when_made(x):
    with PrintingManager():
        return x + 1


GATE = threading.Lock()


def second_of_two(x):
    with torch.no_grad(), GATE:
        return x + 1


HOOKED = nn.Tanh()


def handle_comes_along(x):
    handle = HOOKED.register_forward_hook(lambda module, args, out: None)
    print("hooked")
    handle.remove()
    return x

"""Programs in miniature that recompile, each for another reason, with the calls that show it."""

from __future__ import annotations

import torch
from torch import nn

CALLS = 0
TALLY = 0
FAST = False


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * 2


class WarmUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * min(1.0, self.step / 10)


class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0

    def forward(self, x):
        self.rate *= 0.9
        return x * self.rate


class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return torch.sin(x) * self.number


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(n) for n in range(4))

    def forward(self, x, which):
        return self.layers[which](x)


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.activate = None

    def forward(self, x):
        y = x * 2
        if self.activate is None:
            self.activate = torch.relu
            return y
        return self.activate(y)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(4.0)
        return x + self.table


class History(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        y = x * 2
        self.seen.append(y.detach())
        return y + 1


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.0)

    def forward(self, x):
        return self.dropout(x) * 2


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4), persistent=False)
        self.size = 0

    def forward(self, x):
        self.keys[self.size] = x
        self.size += 1
        return self.keys.sum(0)


class Momentum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.optimizer_steps = 0

    def forward(self, grad):
        self.optimizer_steps += 1
        correction = 1 - 0.9**self.optimizer_steps
        return self.weight - grad / correction


def lengths(x):
    return x.cumsum(0) * x.shape[0]


def last_batch(x):
    return x.softmax(-1)


def images(x):
    return nn.functional.avg_pool2d(x, 2).mean((2, 3))


def scaled(x, rate: float):
    return x * rate


def counted(x):
    global TALLY
    TALLY += 1
    return x + 1


def weighted(x):
    global CALLS
    CALLS += 1
    return x * CALLS


def flagged(x):
    return x.sin() if FAST else x.cos()


def keyed(parts):
    return sum(parts.values())


def refined(x, correct):
    return x - correct(x)


def scale_by(factor):
    return lambda x: x * factor


def cast(x, y):
    return x @ y


@torch.compiler.disable
def turn():
    """Change the world between two parts of a program."""
    global FAST
    FAST = not FAST


@torch.compiler.disable
def turn_grad_mode():
    torch.set_grad_enabled(not torch.is_grad_enabled())


@torch.compiler.disable
def project(x):
    global FAST
    FAST = not FAST
    with torch.autocast("cpu", torch.bfloat16, enabled=FAST):
        return x @ x


def flag_turned(x):
    turn()
    return flagged(x)


def mode_turned(x):
    turn_grad_mode()
    return doubled(x)


def autocast(x):
    return squared(project(x))


def doubled(x):
    return x * 2


def squared(y):
    return y * y


def evaluated(x, net):
    return net(x)


class Scaled(torch.nn.Module):
    def scaled(self, x, by):
        x = x * by
        torch._dynamo.graph_break()
        return x + by

    def forward(self, x):
        return self.scaled(self.scaled(x, 2), 3)

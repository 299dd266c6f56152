"""State and arguments that change from call to call, so that guards fail."""

import torch
from torch import nn

from docs.construct_programs.program import Changing

constructs: list[Changing] = []
COUNT = 0
TIMES = 6


def changing(key):
    """Declare the decorated factory, which returns a program and the inputs of its calls."""

    def declare(make):
        constructs.append(Changing(key, make))
        return make

    return declare


def same(program):
    """Return a program with calls that differ in nothing."""
    return program, [(torch.ones(4),) for _ in range(TIMES)]


@changing("recompile.module_int")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x + self.count

    return same(Net())


@changing("recompile.module_float")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 1.0

        def forward(self, x):
            self.rate = self.rate * 0.9
            return x * self.rate

    return same(Net())


@changing("recompile.module_bool")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.ready = False

        def forward(self, x):
            if not self.ready:
                self.ready = True
            return x + 1

    return same(Net())


@changing("recompile.module_none")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = None

        def forward(self, x):
            if self.kept is None:
                self.kept = x * 2
            return x + self.kept

    return same(Net())


@changing("recompile.module_str")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = "a"

        def forward(self, x):
            x = x + 1 if self.turn == "a" else x - 1
            self.turn = "b" if self.turn == "a" else "a"
            return x

    return same(Net())


@changing("recompile.module_function")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.undo = lambda t: t

        def forward(self, x):
            x = self.undo(x)
            count = x.shape[0]
            self.undo = lambda t: t - count
            return x + 1

    return same(Net())


@changing("recompile.module_tensor")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(1, 4))

        def forward(self, x):
            self.kept = torch.cat([self.kept, x[None]])
            return self.kept.mean(0)

    return same(Net())


@changing("recompile.module_list")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x):
            self.seen.append(x.mean())
            return x + 1

    return same(Net())


@changing("recompile.module_dict")
def _():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = {}

        def forward(self, x):
            self.seen[len(self.seen)] = x.mean()
            return x + 1

    return same(Net())


class Counter:
    """A plain object with a counter."""

    def __init__(self):
        self.count, self.rate, self.kept = 0, 1.0, None
        self.ready, self.turn, self.past = False, "a", torch.zeros(1, 4)
        self.undo = torch.neg


@changing("recompile.object_int")
def _():
    counter = Counter()

    def step(x):
        counter.count += 1
        return x + counter.count

    return same(step)


@changing("recompile.object_float")
def _():
    counter = Counter()

    def step(x):
        counter.rate = counter.rate * 0.9
        return x * counter.rate

    return same(step)


@changing("recompile.object_none")
def _():
    counter = Counter()

    def step(x):
        if counter.kept is None:
            counter.kept = x * 2
        return x + counter.kept

    return same(step)


@changing("recompile.object_bool")
def _():
    counter = Counter()

    def step(x):
        if not counter.ready:
            counter.ready = True
        return x + 1

    return same(step)


@changing("recompile.object_str")
def _():
    counter = Counter()

    def step(x):
        x = x + 1 if counter.turn == "a" else x - 1
        counter.turn = "b" if counter.turn == "a" else "a"
        return x

    return same(step)


@changing("recompile.object_function")
def _():
    counter = Counter()

    def step(x):
        x = counter.undo(x)
        count = x.shape[0]
        counter.undo = lambda t: t - count
        return x + 1

    return same(step)


@changing("recompile.object_tensor")
def _():
    counter = Counter()

    def step(x):
        counter.past = torch.cat([counter.past, x[None]])
        return counter.past.mean(0)

    return same(step)


@changing("recompile.global")
def _():
    def step(x):
        global COUNT
        COUNT += 1
        return x + COUNT

    return same(step)


@changing("recompile.int_argument")
def _():
    def step(x, n: int):
        return x * n

    return step, [(torch.ones(4), n) for n in range(2, 2 + TIMES)]


@changing("recompile.int_range_argument")
def _():
    def step(x, n: int):
        for i in range(n):
            x = x + i
        return x

    return step, [(torch.ones(4), n) for n in range(2, 2 + TIMES)]


@changing("recompile.loop_over_size")
def _():
    def step(x):
        for i in range(x.shape[0]):
            x = x + x[i]
        return x

    return step, [(torch.ones(n),) for n in range(4, 4 + TIMES)]


@changing("recompile.float_argument")
def _():
    def step(x, rate: float):
        return x * rate

    return step, [(torch.ones(4), n / 10) for n in range(2, 2 + TIMES)]


@changing("recompile.str_argument")
def _():
    def step(x, name: str):
        return x + len(name)

    return step, [(torch.ones(4), "a" * n) for n in range(2, 2 + TIMES)]


def scaled(factor):
    """Return a function that holds a number."""
    return lambda x: x * factor


@changing("recompile.function_argument")
def _():
    def step(x, function):
        return function(x)

    return step, [(torch.ones(4), scaled(float(n))) for n in range(2, 2 + TIMES)]

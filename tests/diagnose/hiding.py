"""Code whose breaks hide others. A plain module: pytest rewrites the asserts of test files."""

import contextlib
import functools
import logging
import time

import torch
from torch import nn
from torch.autograd import Variable

log = logging.getLogger(__name__)


class Loop(nn.Module):
    def forward(self, x):
        for _ in range(2):
            print(x)
            if x.sum() > 0:
                x = x + 1
            y = x.sum().item()
        return x + y


class Block(nn.Module):
    def forward(self, x):
        return ("é", x)[1] + x.max().item()


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            print("layer")
            x = layer(x)
        return x


class Cleanup(Stack):
    def forward(self, x):
        x = super().forward(x)
        try:
            log.warning("x %s", x)
            y = x[x > 0]
        finally:
            z = y.tolist()
        return x + z[0]


class Nested(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        else:
            n = x.sum().item()
            if x.mean() > 100:
                x = x - 1
            elif x.max() < 3:
                print("deep")
                x = x + n
        return x


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4)

    def forward(self, x):
        for _ in range(1):
            out, (hidden, _) = self.rnn(x.reshape(1, 1, 3))
            chosen = out[out > 0]
            total = chosen.sum().item() + hidden.sum()
        return out, total


def comprehension(x):
    return [y.item() for y in x if y > 0]


def variable(x):
    for _ in range(2):
        x = x * Variable(x)
        n = int(x.max())
    return x + n


def endless(x):
    while x.sum() > 100:
        print(x)
        x = x - 1
    while True:
        x = x + 1
        if x.sum() > 5:
            break
    return x


def raising(x):
    if torch.equal(x, x * 0):
        raise ValueError(f"{x}")
    if (x < 0).all():
        log.warning("about to fail")
        raise ValueError("negative")
    return x


def unreshaped(x):
    if (x < 0).all():
        x = x.reshape(7, 7)
    return x


def early(x):
    if (x < 0).all():
        return x.sum().item()
    c = x.sum() > 0
    if not c:
        x = x + x.max().item()
    return x


def scalar_test(x):
    if x.sum().item() > 100:
        print(x)
    return x + 1


def generator(x):
    yield x
    print(x)


def differing(x):
    for i in range(3):
        n = x[i : i + 1].long().item()
        if n > 1:
            print("big")
            x = x + n
    return x


def storing(x):
    for _ in range(1):
        m = x * 2
        m.requires_grad = False
        a, _b = torch.unique(x).tolist()[:2]
    print(a)
    return m


def either(x):
    for _ in range(1):
        z = (x.sum() > 0) and x.max().item()
        print(z)
    return x


@contextlib.contextmanager
def noisy():
    print("in")
    yield 3


def managed(x):
    with noisy() as c:
        x = x + c
        print(x)
    with contextlib.suppress(KeyError):
        x = x + time.time()
    return x


def decorated(fn):
    @functools.wraps(fn)
    def wrapper(x):
        return fn(x) + 1

    return wrapper


def make(scale):
    @decorated
    def inner(x):
        for _ in range(2):
            print(scale)
            y = x[x > scale]
        return y.sum().item()

    return inner


closure = make(1.0)


def asserting(x):
    try:
        assert (x > 0).all(), f"{x}"
        y = x.sum().item()
    finally:
        pass
    return x + y


def plain(x):
    return x + x.sum().item()


class Picky:
    """A truth that counts how often it is asked for."""

    asked = 0

    def __bool__(self):
        Picky.asked += 1
        return True


def picky(thing, x):
    if thing and not x:
        return [n for n in (i for i in (1, 2, 3)) if n > 1]
    a, *b = iter((1, 2, 3))
    with noisy() as c:
        d = {"k": x or c}
    d["k"] += 1
    return a, b, d, x[1:] if isinstance(x, list) else -x


def failing(x):
    y = x.sum()
    return y / {}["nothing"]

"""Objects of a live program that are one in several places are one in its text, too."""

# mypy: ignore-errors

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph.compiler.isolation import run_isolated
from fullgraph.minifier.extract.extract import standalone
from fullgraph.minifier.extract.sharing import SharedObjects
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module


def make_recorder(log):
    def record(x):
        log.append(1)
        return x

    return record


class Handler:
    def __init__(self):
        self.log = []
        self.record = make_recorder(self.log)

    def run(self, x):
        self.record(x)
        return x + len(self.log)


class Registry(nn.Module):
    def __init__(self):
        super().__init__()
        shared = {"n": 1}
        self.first, self.second = shared, shared
        self.hook = make_counter(shared)

    def forward(self, x):
        self.hook()
        self.first["n"] += 1
        return x + self.second["n"]


def make_counter(state):
    def count():
        state["n"] += 10

    return count


class Owner:
    """Its callback closes over itself."""

    def __init__(self):
        self.n = 0

        def callback(x):
            self.n += 1
            return x + self.n

        self.callback = callback
        self.bound = self.step

    def step(self, x):
        return self.callback(x) + self.n


class Proxy:
    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    @property
    def __class__(self):
        return type(self._target)

    def __getattr__(self, name):
        return getattr(self._target, name)


class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.proxy = Proxy(inner)

    def forward(self, x):
        return x * (2 if isinstance(self.proxy, nn.Module) else 3) + (
            5 if type(self.proxy) is Proxy else 7
        )


@dataclasses.dataclass
class Config:
    sizes: list = dataclasses.field(default_factory=list)
    names: dict = dataclasses.field(default_factory=dict)


class Pair(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.sizes = config, config.sizes

    def forward(self, x):
        self.sizes.append(1)
        return x + len(self.config.sizes)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.ones(3)
        self.views = [self.table, self.table[:2]]
        self.buf = self.table

    def forward(self, x):
        self.views[0].add_(1)
        return x + self.buf.sum()


class TiedParam(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.b.weight = self.a.weight
        self.extra = {"w": self.a.weight}

    def forward(self, x):
        with torch.no_grad():
            self.extra["w"].mul_(2)
        return self.a(self.b(x))


class Node:
    def __init__(self, parent=None):
        self.parent, self.children = parent, []
        if parent is not None:
            parent.children.append(self)

    def total(self, x):
        return x + len(self.children) + (self.parent.total(x) if self.parent else 0)


def cyclic():
    root = Node()
    return Node(root).total


def counting(n=0):
    def f(x):
        nonlocal n
        n += 1
        return x + n

    def g(x):
        return f(x) + n

    return g


class Lazy:
    """Class that lies about its class by a class attribute."""

    __class__ = int

    def __init__(self):
        self.k = 4

    def go(self, x):
        return x + self.k


GLOBAL_LOG = []


class UsesGlobal(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = GLOBAL_LOG

    def forward(self, x):
        GLOBAL_LOG.append(1)
        return x + len(self.log)


CURRENT = Handler()


def through_global(x):
    return CURRENT.run(x) + len(CURRENT.log)


class Default:
    def __init__(self):
        self.log = _DEFAULT.__defaults__[0]

    def run(self, x):
        _DEFAULT(x)
        return x + len(self.log)


def _DEFAULT(x, acc=[]):  # noqa: B006
    acc.append(x)


def twice_in_args(x, a, b):
    a.append(1)
    return x + len(b)


class Meth(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.steps = [self.scale, self.linear]

    def scale(self, x):
        return x * 2

    def encode(self, x):
        for step in self.steps:
            x = step(x)
        return x + (1 if self.steps[0].__self__ is self else 0)


class ClsM:
    seen = []  # noqa: RUF012

    @classmethod
    def run(cls, x):
        cls.seen.append(1)
        return x + len(cls.seen)


def ctx_partial():
    log = []
    return functools.partial(lambda one, other, x: (one.append(1), x + len(other))[1], log, log)


class D(dict):
    def __iter__(self):
        return iter(sorted(super().__iter__(), reverse=True))


class Lst(list):
    pass


class Itg(int):
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, n):
        self.a, self.b = [n], {"n": n + 1}


class Keeps(nn.Module):
    def __init__(self, *things):
        super().__init__()
        self.things = things
        self.token = object.__new__(Handler)
        self.token.log = things[0]
        self.token.record = None

    def forward(self, x):
        self.token.log.append(1)
        return x + len(self.things[0])


def uses(d):
    def f(x):
        return x + len(d) + sum(d.values() if isinstance(d, dict) else d)

    return f


def two_counters():
    def make():
        log = []

        def add(x):
            log.append(1)
            return x + len(log)

        return add

    a, b = make(), make()

    def run(x):
        return a(a(x)) * b(x)

    return run


def slotted(s):
    def f(x):
        s.a.append(1)
        return x + len(s.a) + s.b["n"]

    return f


T = torch.ones(3)
CASES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "handler": lambda: (Handler().run, (T,)),
    "registry": lambda: (Registry(), (T,)),
    "owner": lambda: (Owner().step, (T,)),
    "owner_bound": lambda: (Owner().bound, (T,)),
    "proxy": lambda: (Holder(nn.ReLU()), (T,)),
    "proxy_list": lambda: (Holder([1]), (T,)),
    "lazy": lambda: (Lazy().go, (T,)),
    "pair": lambda: (Pair(Config()), (T,)),
    "tied": lambda: (Tied(), (T,)),
    "tiedparam": lambda: (TiedParam(), (T,)),
    "cyclic": lambda: (cyclic(), (T,)),
    "counting": lambda: (counting(), (T,)),
    "uses_global": lambda: (GLOBAL_LOG.clear(), UsesGlobal(), (T,))[1:],
    "through_global": lambda: (through_global, (T,)),
    "default": lambda: (Default().run, (T,)),
    "args": lambda: (twice_in_args, (T, *[[1]] * 2)),
    "args_model": lambda: (twice_in_args, (T, (s := [1]), s)),
    "meth": lambda: (Meth().encode, (T,)),
    "classmethod": lambda: (ClsM.run, (T,)),
    "dictsub": lambda: (uses(D(a=1, b=2)), (T,)),
    "listsub": lambda: (uses(Lst([1, 2])), (T,)),
    "od": lambda: (uses(collections.OrderedDict(a=3)), (T,)),
    "dd": lambda: (uses(collections.defaultdict(int, a=3)), (T,)),
    "counter": lambda: (uses(collections.Counter("aab")), (T,)),
    "dq": lambda: (uses(collections.deque([1, 2], maxlen=2)), (T,)),
    "intsub": lambda: (uses([Itg(4)]), (T,)),
    "slotted": lambda: (slotted(Slotted(3)), (T,)),
    "keeps": lambda: (Keeps([1]), (T,)),
    "two_counters": lambda: (two_counters(), (T,)),
    "partial": lambda: (ctx_partial(), (T,)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("exact", [True, False])
def test_a_text_does_what_the_program_does(name: str, exact: bool) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    text = standalone(model, inputs, exact=exact)
    assert "tests" not in text

    def run(say: Callable[[object], None]) -> bool:
        rebuilt, args, kwargs = entry_call(load_module(text))
        return torch.equal(rebuilt(*args, **kwargs), model(*inputs))

    outcome = run_isolated(run)
    assert outcome.value, f"{outcome.error and outcome.error.traceback}\n{text}"


def test_a_constructor_that_makes_the_same_closure_is_called() -> None:
    text = standalone(Handler().run, (T,))
    assert "handler = Handler()" in text and "__new__" not in text
    text = standalone(Handler().record, (T,))
    assert "Handler" not in text


def test_a_list_in_one_place_has_no_variable() -> None:
    assert "twice_in_args, (torch.ones(3), [1], [2])" in standalone(twice_in_args, (T, [1], [2]))


def test_places_of_shared_objects() -> None:
    log: list[int] = []
    shared = SharedObjects([{"a": log, "b": [log]}, log])
    assert log in shared and shared.name_of(log) == "shared"
    assert shared.places == {frozenset(["0['a']", "0['b'][0]"])}
    assert not SharedObjects([{"a": [], "b": []}])

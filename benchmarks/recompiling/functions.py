"""Functions, layers and objects that are chosen, made or replaced from call to call."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional


class LateActivation(nn.Module):
    """An activation that is chosen by name in the first call."""

    def __init__(self, width: int = 4, name: str = "silu") -> None:
        super().__init__()
        self.net, self.name = nn.Linear(width, width), name
        self.activation = None

    def forward(self, x):
        if self.activation is None:
            self.activation = getattr(functional, self.name)
        return self.activation(self.net(x))


class ChosenActivation(nn.Module):
    """An activation that the constructor chooses."""

    def __init__(self, width: int = 4, name: str = "silu") -> None:
        super().__init__()
        self.net = nn.Linear(width, width)
        self.activation = getattr(functional, name)

    def forward(self, x):
        return self.activation(self.net(x))


class LocalLambda(nn.Module):
    """A lambda that is made and used inside of the call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True)

        def normalize(t):
            return t / (scale + 1e-6)

        return self.net(normalize(x)) + (lambda t: t * scale)(x)


class StoredLambda(nn.Module):
    """An inverse that each call stores as a new function for the next."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)
        self.inverse = lambda t: t

    def forward(self, x):
        x = self.inverse(x)
        scale = x.shape[0]
        self.inverse = lambda t: t * scale
        return self.net(x)


def perturbed(x, loss_of):
    """Return a step against the gradient of a function that the caller makes."""
    return x - 0.1 * loss_of(x)


def weighed(weight):
    return lambda x: x * weight


def scheduled(x, schedule):
    """Return an input scaled by a schedule that is bound with `partial`."""
    return x * schedule(x.shape[-1])


def power(base, exponent, width):
    return base**exponent / width


class Adapter:
    """A small object that the caller makes for each call."""

    def __init__(self, scale: float, shift: float = 0.0) -> None:
        self.scale, self.shift = scale, shift


NO_ADAPTER = Adapter(1.0)


class Adapted(nn.Module):
    """A layer that compares its adapter with the one that does nothing."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, adapter: Adapter = NO_ADAPTER):
        x = self.net(x)
        if adapter is not NO_ADAPTER:
            x = x * adapter.scale + adapter.shift
        return x


class Switchable(nn.Module):
    """A head that is replaced by another when the caller says so."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(width, 2), "b": nn.Linear(width, 2)})
        self.active = "a"

    def switch(self, name: str) -> None:
        self.active = name

    def forward(self, x):
        return self.heads[self.active](x)


def predict(model, x):
    """Return what a model predicts."""
    return model(x).softmax(-1)


class SwitchesItself(nn.Module):
    """A network that goes from one expert to the next by name."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.experts = nn.ModuleDict({n: nn.Linear(width, width) for n in "abc"})
        self.order = {"a": "b", "b": "c", "c": "a"}
        self.current = "a"

    def forward(self, x):
        out = self.experts[self.current](x)
        self.current = self.order[self.current]
        return out


class HookedOnce(nn.Module):
    """A list of functions that the constructor fills and each call runs."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)
        self.after = [functional.relu, torch.tanh]

    def forward(self, x):
        x = self.net(x)
        for function in self.after:
            x = function(x)
        return x


class LazyProjection(nn.Module):
    """A projection that is made from the first input's width."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.width = width
        self.project = None

    def forward(self, x):
        if self.project is None:
            self.project = torch.eye(x.shape[-1], self.width)
        return x @ self.project


class SplitPath(nn.Module):
    """A stored state of a class of its own, replaced by each call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)
        self.previous = None

    def forward(self, x):
        out = self.net(x)
        if self.previous is not None:
            out = out + self.previous
        self.previous = out.detach()
        return out


def _x(count: int = 5):
    return [(torch.randn(3, 4),) for _ in range(count)]


def _switched():
    calls = []
    for n in range(4):
        model = Switchable()
        model.switch("ab"[n % 2])
        calls.append((model, torch.randn(3, 4)))
    return predict, calls


ENTRIES = {
    "late_activation": lambda: (LateActivation(), _x()),
    "chosen_activation": lambda: (ChosenActivation(), _x()),
    "local_lambda": lambda: (LocalLambda(), _x()),
    "stored_lambda": lambda: (StoredLambda(), _x()),
    "perturbed": lambda: (
        perturbed,
        [(torch.randn(3, 4), weighed(1.0 + n)) for n in range(5)],
    ),
    "perturbed_by_one": lambda: (perturbed, [(torch.randn(3, 4), torch.sin) for _ in range(4)]),
    "scheduled": lambda: (
        scheduled,
        [(torch.randn(3, 4), partial(power, 2.0, n)) for n in range(5)],
    ),
    "adapted": lambda: (
        Adapted(),
        [(torch.randn(3, 4),), *((torch.randn(3, 4), Adapter(1.0 + n)) for n in range(1, 5))],
    ),
    "switchable": _switched,
    "switches_itself": lambda: (SwitchesItself(), _x(6)),
    "hooked_once": lambda: (HookedOnce(), _x()),
    "lazy_projection": lambda: (LazyProjection(), _x()),
    "split_path": lambda: (SplitPath(), _x()),
}

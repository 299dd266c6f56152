"""Modules that keep something from one call for the next: caches, tables and states."""

import torch
from torch import nn


class GrowingCache(nn.Module):
    """Keys of earlier steps that are concatenated."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.past = None

    def forward(self, x):
        key = self.key(x)
        if self.past is None:
            self.past = key
        else:
            self.past = torch.cat([self.past, key], dim=1)
        return (x @ self.past.transpose(1, 2)).softmax(-1) @ self.past


class StaticCache(nn.Module):
    """Keys of fixed size, written at positions that the caller gives as a tensor."""

    def __init__(self, longest: int = 16, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, longest, width))

    def forward(self, x, positions):
        self.keys.index_copy_(1, positions, x)
        return (x @ self.keys.transpose(1, 2)).softmax(-1) @ self.keys


class RotaryTable(nn.Module):
    """Rotary angles that are built again when a longer sequence comes."""

    def __init__(self, width: int = 8, base: float = 10_000.0) -> None:
        super().__init__()
        self.register_buffer("inverse", base ** (-torch.arange(0, width, 2) / width))
        self.max_seen = 0
        self.cos = None
        self.sin = None

    def _build(self, length: int) -> None:
        self.max_seen = length
        angles = torch.outer(torch.arange(length).float(), self.inverse)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, x):
        length = x.shape[1]
        if length > self.max_seen:
            self._build(length)
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[:length], self.sin[:length]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class SinusoidTable(nn.Module):
    """A position table that the constructor builds whole."""

    def __init__(self, longest: int = 64, width: int = 4) -> None:
        super().__init__()
        angles = torch.arange(longest)[:, None] / 100 ** (torch.arange(width) / width)
        self.register_buffer("table", angles.sin(), persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class CausalMaskCache(nn.Module):
    """A causal mask that is kept by its size in a dict."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.masks = {}

    def mask(self, size: int) -> torch.Tensor:
        if size not in self.masks:
            self.masks[size] = torch.ones(size, size).tril().log()
        return self.masks[size]

    def forward(self, x):
        size = x.shape[1]
        scores = self.mix(x) @ x.transpose(1, 2) + self.mask(size)
        return scores.softmax(-1) @ x


class RecurrentState(nn.Module):
    """A cell that makes its state in the first call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.hidden = None

    def reset(self) -> None:
        self.hidden = None

    def forward(self, x):
        if self.hidden is None:
            self.hidden = torch.zeros_like(x)
        self.hidden = self.cell(x, self.hidden.detach())
        return self.hidden


class ReturnedState(nn.Module):
    """A cell whose caller keeps the state; it is None in the first call."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x, hidden: torch.Tensor | None = None):
        if hidden is None:
            hidden = x.new_zeros(x.shape)
        return self.cell(x, hidden)


class LazyWidth(nn.Module):
    """An average whose buffer is made from the first input."""

    running = None

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay

    def forward(self, x):
        mean = x.detach().mean(0)
        if self.running is None:
            self.running = mean
        self.running = self.decay * self.running + (1 - self.decay) * mean
        return x - self.running


class ConditionOnce(nn.Module):
    """A projection of a fixed condition, cached under an attribute that may be missing."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        self.register_buffer("condition", torch.ones(width))

    def forward(self, x):
        if not hasattr(self, "_projected"):
            self._projected = self.project(self.condition).detach()
        return x + self._projected


class RollingWindow(nn.Module):
    """A window over the last inputs as a buffer that is rolled."""

    def __init__(self, window: int = 4, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("frames", torch.zeros(window, width))

    def forward(self, x):
        self.frames = torch.cat((self.frames[1:], x.mean(0, keepdim=True)))
        return x - self.frames.mean(0)


class FilledCache(nn.Module):
    """A preallocated cache with a Python number for how far it is filled."""

    def __init__(self, longest: int = 32, width: int = 4) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, longest, width))
        self.filled = 0

    def forward(self, x):
        start = self.filled
        end = start + x.shape[1]
        self.keys[:, start:end] = x
        self.filled = end
        seen = self.keys[:, :end]
        return (x @ seen.transpose(1, 2)).softmax(-1) @ seen


class LayerCache:
    """A cache for all layers: lists of keys."""

    def __init__(self) -> None:
        self.keys: list[torch.Tensor] = []

    def update(self, key: torch.Tensor, layer: int) -> torch.Tensor:
        if len(self.keys) <= layer:
            self.keys.append(key)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key], dim=1)
        return self.keys[layer]


class TwoLayers(nn.Module):
    """Two layers that share the cache their caller hands on."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x, cache):
        for number, layer in enumerate(self.layers):
            keys = cache.update(layer(x), number)
            x = x + (x @ keys.transpose(1, 2)).softmax(-1) @ keys
        return x


class WeightStandardized(nn.Module):
    """A convolution that keeps its standardized weight while it is evaluated."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=1)
        self.kept_weight = None

    def weight(self):
        if self.kept_weight is not None:
            return self.kept_weight
        weight = self.conv.weight
        weight = (weight - weight.mean((1, 2), keepdim=True)) / weight.std()
        if not self.training:
            self.kept_weight = weight.detach()
        return weight

    def forward(self, x):
        return nn.functional.conv1d(x, self.weight(), self.conv.bias, padding=1)


def _same(*shape: int, count: int = 5):
    return [(torch.randn(*shape),) for _ in range(count)]


def _lengths(*lengths: int, width: int = 4):
    return [(torch.randn(2, n, width),) for n in lengths]


def _static():
    return [(torch.randn(1, 1, 4), torch.tensor([n])) for n in range(5)]


def _shared_cache():
    cache = LayerCache()
    return TwoLayers().requires_grad_(False), [(torch.randn(1, 1, 4), cache) for _ in range(5)]


def _states():
    return [(torch.randn(2, 4),), *((torch.randn(2, 4), torch.randn(2, 4)) for _ in range(4))]


ENTRIES = {
    "growing_cache": lambda: (GrowingCache().requires_grad_(False), _same(1, 1, 4, count=6)),
    "static_cache": lambda: (StaticCache(), _static()),
    "rotary_table": lambda: (RotaryTable(), _lengths(4, 6, 5, 9, 12, width=8)),
    "sinusoid_table": lambda: (SinusoidTable(), _same(2, 6, 4)),
    "causal_mask_cache": lambda: (CausalMaskCache(), _lengths(4, 5, 6, 7, 8)),
    "recurrent_state": lambda: (RecurrentState().requires_grad_(False), _same(2, 4)),
    "returned_state": lambda: (ReturnedState(), _states()),
    "lazy_width": lambda: (LazyWidth(), _same(3, 4)),
    "condition_once": lambda: (ConditionOnce(), _same(3, 4)),
    "rolling_window": lambda: (RollingWindow(), _same(3, 4)),
    "filled_cache": lambda: (FilledCache(), _same(1, 2, 4)),
    "shared_cache": _shared_cache,
    "weight_standardized": lambda: (WeightStandardized().eval(), _same(1, 2, 8)),
}

"""One call of a built model, with its backward in training: results and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from benchmarks.models.entry import Built


class Step:
    """A model with its inputs: one call of it, and in training its backward."""

    def __init__(self, built: Built, mode: str) -> None:
        self.model, self._args, self._kwargs = built
        self._is_training = mode == "training"
        parameters = self.model.parameters() if isinstance(self.model, torch.nn.Module) else ()
        given = tensors_in((self._args, self._kwargs))
        self._leaves = [*parameters, *(one for one in given if one.requires_grad)]
        self._weights: list[torch.Tensor] = []

    def run(self, function: Callable[..., Any] | None = None) -> list[torch.Tensor]:
        """Call the model, or `function` instead; return its outputs."""
        function = self.model if function is None else function
        if not self._is_training:
            with torch.no_grad():
                return [*tensors_in(function(*self._args, **self._kwargs))]
        for leaf in self._leaves:
            leaf.grad = None
        outputs = [*tensors_in(function(*self._args, **self._kwargs))]
        learning = [one for one in outputs if one.requires_grad and one.is_floating_point()]
        self._weights = self._weights or [_weights(one) for one in learning]
        if learning:
            torch.autograd.backward(learning, self._weights)
        return outputs

    @property
    def gradients(self) -> list[torch.Tensor]:
        """Gradients of the last call; one that eager leaves at None is 0."""
        leaves = self._leaves if self._is_training else ()
        return [torch.zeros_like(one) if one.grad is None else one.grad for one in leaves]

    @property
    def has_gradient(self) -> bool:
        """Whether the last call gave any gradient."""
        return any(leaf.grad is not None for leaf in self._leaves)


def _weights(output: torch.Tensor) -> torch.Tensor:
    """Return a gradient for an output: not constant, which norms would cancel."""
    values = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device)
    return values.view(output.shape)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in the results or arguments of a model."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif hasattr(value, "values") and callable(value.values):
        yield from tensors_in(tuple(value.values()))


def distance(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """Return the largest difference in parts of the largest element, which is at least 0.001."""
    expected, actual = expected.detach(), actual.detach()
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    if expected.layout != torch.strided or not expected.numel():
        return 0.0
    if expected.is_complex():
        expected, actual = torch.view_as_real(expected), torch.view_as_real(actual)
    one, other = expected.to(torch.float64), actual.to(torch.float64)
    if not torch.equal(one.isnan(), other.isnan()):
        return float("inf")
    scale = one.nan_to_num().abs().max().clamp(min=1e-3)
    return float(((one - other).nan_to_num().abs().max()) / scale)


def on_device(built: Built, device: str) -> Built:
    """Return a model and its arguments on a device; the model itself is moved."""
    model, args, kwargs = built
    if isinstance(model, torch.nn.Module):
        model = model.to(device)
    args, kwargs = tree_map_only(torch.Tensor, lambda one: one.to(device), (args, kwargs))
    return model, args, kwargs


def shortest_seconds(run: Callable[[], object], seconds: float = 1.0) -> float:
    """Return the shortest time of calls, of which there are at least three.

    It is the CPU time of this thread, for the machine may be shared: torch runs on one thread. On a
    GPU it is the time until the device has finished.
    """
    is_on_gpu = torch.cuda.is_initialized()
    clock = time.perf_counter if is_on_gpu else time.thread_time
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        run()
        if is_on_gpu:
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times)


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the most memory of the GPU that a call takes in addition to what is allocated."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() - before

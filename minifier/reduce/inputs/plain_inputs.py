"""Reducer of graph inputs to small, plain tensors with plain elements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import torch

from fullgraph.minifier.graphs import BoundGraph, describe_value
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.inputs import tensors
from fullgraph.minifier.reduce.inputs.sizes import shrink_sizes

TensorChange = Callable[[torch.Tensor, int], torch.Tensor]
"""Makes a tensor that is input number so and so plainer; returns it itself where it is."""


def reduce_inputs(problem: Problem[BoundGraph]) -> None:
    """Make inputs small, contiguous, float32, without gradient, and plain in their elements.

    Raises OutOfBudget.
    """
    _constants_to_inputs(problem)
    repeated = False
    while True:
        before = problem.current
        _plain_elements(problem)
        _plain_tensors(problem)
        shrink_sizes(problem, repeated=repeated)
        _plain_elements_each(problem)
        if problem.current is before:
            return
        repeated = True


def _constants_to_inputs(problem: Problem[BoundGraph]) -> None:
    """Make tensor constants of the graph inputs."""
    graph = problem.current
    if any(isinstance(graph.values()[node], torch.Tensor) for node in graph.constants):
        problem.first([graph.subgraph(graph.calls, outputs=graph.outputs, constants=False)])


def _plain_tensors(problem: Problem[BoundGraph]) -> None:
    """Remove special properties from all tensors together, then from one at a time."""
    if _try_change(problem, partial(_make_plain, tensors.SIMPLIFICATIONS)):
        return
    for plainer in tensors.SIMPLIFICATIONS:
        change = partial(_make_plain, (plainer,))
        if not _try_change(problem, change):
            for number in range(len(problem.current.inputs)):
                _try_change(problem, change, {number})


def _make_plain(
    simplifications: Sequence[tensors.Simplification], tensor: torch.Tensor, _: int
) -> torch.Tensor:
    """Return the tensor after all simplifications."""
    for plainer in simplifications:
        tensor = plainer(tensor)
    return tensor


def _plain_elements(problem: Problem[BoundGraph]) -> None:
    """Give all tensors the same pattern of elements, the plainest that still fails."""
    names = dict.fromkeys(
        name
        for number, value in enumerate(problem.current.inputs)
        for name in _plainer_elements(value, number)
    )
    for name in names:
        if _try_change(problem, partial(_with_pattern, name)):
            return


def _plain_elements_each(problem: Problem[BoundGraph]) -> None:
    """Give each tensor, one after the other, the plainest elements that still fail."""
    for number in range(len(problem.current.inputs)):
        for name in _plainer_elements(problem.current.inputs[number], number):
            if _try_change(problem, partial(_with_pattern, name), {number}):
                break


def _try_change(
    problem: Problem[BoundGraph], change: TensorChange, only: Collection[int] | None = None
) -> bool:
    """Try the graph with inputs changed by `change`; return whether it still fails."""
    graph = problem.current
    made: dict[int, object] = {}
    for number, value in enumerate(graph.inputs):
        wanted = only is None or number in only
        if isinstance(value, torch.Tensor) and wanted and id(value) not in made:
            made[id(value)] = change(value, number)
    inputs = tuple(made.get(id(value), value) for value in graph.inputs)
    if all(new is old for new, old in zip(inputs, graph.inputs, strict=True)):
        return False
    return problem.first([BoundGraph(graph.module, inputs)])


def _plainer_elements(value: object, number: int) -> list[str]:
    """Return the names of patterns that are plainer than the elements of an input."""
    if not isinstance(value, torch.Tensor) or not _has_elements(value):
        return []
    now = describe_value(value)
    names = []
    for name, elements in tensors.element_patterns(value, number):
        made = _with_elements(value, elements)
        if made is None:
            continue
        if describe_value(made) == now:
            break
        names.append(name)
    return names


def _with_pattern(name: str, tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Return the tensor with the named pattern, or itself if that is no plainer."""
    if name not in _plainer_elements(tensor, number):
        return tensor
    made = _with_elements(tensor, dict(tensors.element_patterns(tensor, number))[name])
    return tensor if made is None else made


def _with_elements(tensor: torch.Tensor, elements: torch.Tensor) -> torch.Tensor | None:
    """Return `tensor` with other elements; None if its layout does not allow them."""
    with torch.no_grad():
        try:
            return tensors.with_elements(tensor, elements.to(tensor.device))
        except RuntimeError:
            return None


def _has_elements(tensor: torch.Tensor) -> bool:
    return tensors.is_plain(tensor) and tensor.device.type != "meta" and tensor.numel() > 0

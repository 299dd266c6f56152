"""Making what a graph is called with as plain as it gets, while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch

from fullgraph.minifier.graphs.fingerprint import described
from fullgraph.minifier.graphs.graph import Graph
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.inputs import tensors
from fullgraph.minifier.reduce.inputs.sizes import shrink

Change = Callable[[torch.Tensor, int], torch.Tensor]
"""Makes a tensor that is input number so and so plainer; returns it itself where it is."""


def reduce(problem: Problem[Graph]) -> None:
    """Make the inputs of `problem` plain: small, contiguous, in float32, without gradients, and
    with elements that are quickly written. Raises OutOfBudget."""
    _constants_to_inputs(problem)
    again = False
    while True:
        before = problem.current
        _plain_elements(problem)
        _plain_tensors(problem)
        shrink(problem, again=again)
        _each_elements(problem)
        if problem.current is before:
            return
        again = True


def _constants_to_inputs(problem: Problem[Graph]) -> None:
    graph = problem.current
    if any(isinstance(graph.values()[node], torch.Tensor) for node in graph.constants):
        problem.first([graph.part(graph.calls, outputs=graph.outputs, constants=False)])


def _plain_tensors(problem: Problem[Graph]) -> None:
    """Take away what is special about tensors, from all at once, then one by one."""
    if _try(problem, partial(_plain, tensors.PLAINER)):
        return
    for plainer in tensors.PLAINER:
        change = partial(_plain, (plainer,))
        if not _try(problem, change):
            for number in range(len(problem.current.inputs)):
                _try(problem, change, {number})


def _plain(ways: Sequence[tensors.Plainer], tensor: torch.Tensor, _: int) -> torch.Tensor:
    for plainer in ways:
        tensor = plainer(tensor)
    return tensor


def _plain_elements(problem: Problem[Graph]) -> None:
    """Give all tensors the same kind of elements, the plainest that will do."""
    names = dict.fromkeys(
        name
        for number, value in enumerate(problem.current.inputs)
        for name in _plainer_contents(value, number)
    )
    for name in names:
        if _try(problem, partial(_with_contents, name)):
            return


def _each_elements(problem: Problem[Graph]) -> None:
    for number in range(len(problem.current.inputs)):
        for name in _plainer_contents(problem.current.inputs[number], number):
            if _try(problem, partial(_with_contents, name), {number}):
                break


def _try(problem: Problem[Graph], change: Change, only: Collection[int] | None = None) -> bool:
    """Ask about changed inputs, if any of them changes."""
    graph = problem.current
    made: dict[int, Any] = {}
    for number, value in enumerate(graph.inputs):
        wanted = only is None or number in only
        if isinstance(value, torch.Tensor) and wanted and id(value) not in made:
            made[id(value)] = change(value, number)
    inputs = tuple(made.get(id(value), value) for value in graph.inputs)
    if all(new is old for new, old in zip(inputs, graph.inputs, strict=True)):
        return False
    return problem.first([Graph(graph.module, inputs)])


def _plainer_contents(value: Any, number: int) -> list[str]:
    """The names of contents that are plainer than those of an input."""
    if not isinstance(value, torch.Tensor) or not _has_elements(value):
        return []
    now = described(value)
    names = []
    for name, content in tensors.contents(value, number):
        made = _made(value, content)
        if made is None:
            continue
        if described(made) == now:
            break
        names.append(name)
    return names


def _with_contents(name: str, tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The tensor with such contents, if they are plainer than its own."""
    if name not in _plainer_contents(tensor, number):
        return tensor
    made = _made(tensor, dict(tensors.contents(tensor, number))[name])
    return tensor if made is None else made


def _made(tensor: torch.Tensor, content: torch.Tensor) -> torch.Tensor | None:
    with torch.no_grad():
        try:
            return tensors.like(tensor, content.to(tensor.device))
        except RuntimeError:
            return None


def _has_elements(tensor: torch.Tensor) -> bool:
    return tensors.is_plain(tensor) and tensor.device.type != "meta" and tensor.numel() > 0

"""Reducer of a graph's inputs, to small tensors with plain properties and elements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import torch

from fullgraph.minifier.graphs import BoundGraph, describe_value
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.inputs import tensors
from fullgraph.minifier.reduce.inputs.sizes import shrink_sizes

TensorChange = Callable[[torch.Tensor, int], torch.Tensor]
"""Makes an input plainer, given its number; returns the tensor itself if it is plain already."""


def reduce_inputs(problem: Problem[BoundGraph]) -> None:
    """Make the inputs small, contiguous, float32, without grad, and with plain elements.

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
    """Turn the graph's constant tensors into inputs, if it still fails with them as inputs.

    Inputs can be reduced; constants cannot.
    """
    graph = problem.current
    if any(isinstance(graph.values()[node], torch.Tensor) for node in graph.constants):
        problem.first([graph.subgraph(graph.calls, outputs=graph.outputs, constants=False)])


def _plain_tensors(problem: Problem[BoundGraph]) -> None:
    """Make all inputs plain tensors: without grad, strided, contiguous, of a default dtype.

    If the graph then passes, each of these four steps is tried alone: on all inputs, or else on
    each.
    """
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
    """Return `tensor` after `simplifications`; the last argument, an index, is not used."""
    for plainer in simplifications:
        tensor = plainer(tensor)
    return tensor


def _plain_elements(problem: Problem[BoundGraph]) -> None:
    """Fill all inputs with one pattern, the plainest with which the graph fails: zeros, ones, …"""
    names = dict.fromkeys(
        name
        for number, value in enumerate(problem.current.inputs)
        for name in _plainer_elements(value, number)
    )
    for name in names:
        if _try_change(problem, partial(_with_pattern, name)):
            return


def _plain_elements_each(problem: Problem[BoundGraph]) -> None:
    """Fill each input by itself with the plainest pattern with which the graph fails: zeros, …"""
    for number in range(len(problem.current.inputs)):
        for name in _plainer_elements(problem.current.inputs[number], number):
            if _try_change(problem, partial(_with_pattern, name), {number}):
                break


def _try_change(
    problem: Problem[BoundGraph], change: TensorChange, only: Collection[int] | None = None
) -> bool:
    """Apply `change` to the inputs numbered in `only` (None: to all) if the graph still fails.

    Returns whether it was applied; False also if it changes nothing. A tensor that is passed as two
    inputs stays one tensor.
    """
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
    """Return the names of the patterns that are plainer than the elements of input `number`.

    `value` is the input. The plainest pattern comes first: ["zeros", "ones", "arange"]. [] if none
    is plainer, or if `value` is no tensor with elements.
    """
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
    """Return a copy of `tensor`, filled with the pattern `name`: "zeros", "ones", "arange", …

    If this pattern is no plainer than the elements, `tensor` itself is returned. `number` is the
    index of the input and seeds the pattern "random".
    """
    if name not in _plainer_elements(tensor, number):
        return tensor
    made = _with_elements(tensor, dict(tensors.element_patterns(tensor, number))[name])
    return tensor if made is None else made


def _with_elements(tensor: torch.Tensor, elements: torch.Tensor) -> torch.Tensor | None:
    """Return a copy of `tensor` with `elements`; None if its layout does not allow them.

    An expanded tensor, for example, allows only equal elements along the expanded axis.
    """
    with torch.no_grad():
        try:
            return tensors.with_elements(tensor, elements.to(tensor.device))
        except RuntimeError:
            return None


def _has_elements(tensor: torch.Tensor) -> bool:
    return tensors.is_plain(tensor) and tensor.device.type != "meta" and tensor.numel() > 0

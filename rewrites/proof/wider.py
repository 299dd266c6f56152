"""Calls that differ from the given ones in more than values: sizes, kinds, layouts, aliases.

A rule sees one kind of input. An edit that behaves as the original on other kinds needs no
assumption; one that does not holds only for inputs like the given ones, and says so.
"""

from __future__ import annotations

import collections
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from fullgraph.compiler.program import CallArguments, Program
from fullgraph.rewrites.proof.inputs import (
    Calls,
    Change,
    empty_calls,
    map_leaves,
    resize_calls,
    tensors_of,
    transform_calls,
)

SIZES, PAIRS, NUMBERS = 4, 2, 2
"""How many other sizes, pairs of equal arguments, and arguments that are numbers are tried."""
SQUARE = 64
"""The largest number of elements of a row that is tried as a square of rows."""
SAME_SIZES, NOT_EMPTY = "the inputs keep their sizes", "no input is empty"
SAME_DTYPES = "the inputs keep their dtypes"
SAME_RANKS = "the inputs keep their numbers of dimensions"
REFUSED = "it gets no input that the original refuses with an error"
LIKE_GIVEN = "the inputs are of the kinds and sizes of the given ones"
"""What is assumed where the runs on wider calls do not end."""


@dataclass(frozen=True)
class WiderCalls:
    """Calls of another kind than the given ones."""

    calls: Calls
    assumes: str
    """The clause that rules them out: "`n` is never 0"."""
    may_accept: bool = False
    """Whether an edit may do anything with them where the original raises an exception."""


def wider_calls(program: Program) -> Iterator[WiderCalls]:
    """Yield calls that differ from the program's first one in kind, in a deterministic order."""
    first = program.calls[program.eager_calls :][:1]
    if not first:
        return
    for calls in itertools.islice(resize_calls(first), SIZES):
        yield WiderCalls(calls, SAME_SIZES)
    for calls in empty_calls(first):
        yield WiderCalls(calls, NOT_EMPTY)
        yield WiderCalls(transform_calls(calls, torch.zeros_like), NOT_EMPTY)
    yield from _with_one_row(first)
    if any(one.is_floating_point() for one in tensors_of(first)):
        yield WiderCalls(_map_tensors(first, _negative_zeros), "no input is all -0.0")
    yield from _with_other_layouts(first)
    yield from _with_other_ranks(first)
    yield from _with_aliases(first)
    yield from _with_other_arguments(program, first[0])


def _with_one_row(calls: Calls) -> Iterator[WiderCalls]:
    """Yield calls with size one in the first, second or last dimension, to broadcast."""
    tensors = [one for one in tensors_of(calls) if one.dim() and one.numel()]
    for dim in (0, 1, -1) if tensors and tensors[0].dim() > 2 else (0, -1):
        if tensors and (size := tensors[0].shape[dim]) > 1:
            change = partial(_narrow, dim, size)
            yield WiderCalls(_map_tensors(calls, change), SAME_SIZES, may_accept=True)


def _narrow(dim: int, size: int, leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor with size one in a dimension, if it has `size` there."""
    if leaf.dim() <= max(dim, 0) or leaf.shape[dim] != size:
        return leaf
    return leaf.narrow(dim, 0, 1).clone()


def _negative_zeros(leaf: torch.Tensor) -> torch.Tensor:
    return -torch.zeros_like(leaf) if leaf.is_floating_point() else leaf


def _with_other_layouts(calls: Calls) -> Iterator[WiderCalls]:
    """Yield calls with tensors of other dtypes, and with transposed, spread or shared memory."""
    tensors = tensors_of(calls)
    for old, new in _OTHER_DTYPES:
        if any(_is_convertible(old, new, one) for one in tensors):
            yield WiderCalls(_map_tensors(calls, partial(_convert, old, new)), SAME_DTYPES)
    if any(one.dtype is torch.bool for one in tensors):
        yield WiderCalls(_map_tensors(calls, _count_twice), SAME_DTYPES)
    floats = [one for one in tensors if one.is_floating_point()]
    for one in floats[:PAIRS] if len(floats) > 1 else ():
        new = torch.float32 if one.dtype is torch.float64 else torch.float64
        yield WiderCalls(_change_one(calls, one, partial(_convert, one.dtype, new)), SAME_DTYPES)
    for rearrange, least in ((_transpose_memory, 2), (_take_every_second, 1), (_repeat_first, 1)):
        if any(one.dim() >= least for one in tensors):
            yield WiderCalls(_map_tensors(calls, rearrange), "the inputs keep their layout")


def _with_other_ranks(calls: Calls) -> Iterator[WiderCalls]:
    """Yield calls with one or two numbers in a row where a tensor held one.

    Tensors with dimensions have none in them, so that what is broadcast shows. Then masks have an
    entry for each row, and single tensors another dimension, in front.
    """
    single = [leaf for leaf in tensors_of(calls) if not leaf.dim()][:PAIRS]
    for one, count in itertools.product(single, (1, 2)):
        change = partial(_first_element, one, count)
        yield WiderCalls(_map_tensors(calls, change), SAME_RANKS)
    if any(_is_mask(one) for one in tensors_of(calls)):
        yield WiderCalls(_map_tensors(calls, _select_rows), SAME_RANKS)
    for one in [leaf for leaf in tensors_of(calls) if leaf.dim()][:PAIRS]:
        yield WiderCalls(_change_one(calls, one, _stack_rotated), SAME_RANKS, may_accept=True)


def _stack_rotated(leaf: torch.Tensor) -> torch.Tensor:
    """Return two copies of a tensor, the second one rotated; of a row as many as it has elements.

    Then an index of an element is also one of a row.
    """
    count = len(leaf) if leaf.dim() == 1 and 1 < len(leaf) <= SQUARE else 2
    return torch.stack([leaf.roll(number, 0) for number in range(count)])


def _is_mask(leaf: torch.Tensor) -> bool:
    return leaf.dtype is torch.bool and leaf.dim() > 1 and leaf.numel() > 0


def _select_rows(leaf: torch.Tensor) -> torch.Tensor:
    return leaf[..., 0] if _is_mask(leaf) else leaf


def _first_element(several: torch.Tensor, count: int, leaf: torch.Tensor) -> torch.Tensor:
    """Return the first element as a 0-d tensor; that of `several` in a row, `count` times."""
    if not leaf.numel():
        return leaf
    first = leaf.flatten()[:1]
    return first.repeat(count) if leaf is several else first[0].clone()


_OTHER_DTYPES = (
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
    (torch.float32, torch.int64),
    (torch.bool, torch.int64),
)


def _convert(old: torch.dtype, new: torch.dtype, leaf: torch.Tensor) -> torch.Tensor:
    return leaf.to(new) if _is_convertible(old, new, leaf) else leaf


def _is_convertible(old: torch.dtype, new: torch.dtype, leaf: torch.Tensor) -> bool:
    """Return whether a tensor is of dtype `old`, and may be of `new`: no integer has a grad."""
    return leaf.dtype is old and (new.is_floating_point or not leaf.requires_grad)


def _count_twice(leaf: torch.Tensor) -> torch.Tensor:
    return leaf * 2 if leaf.dtype is torch.bool else leaf


def _transpose_memory(leaf: torch.Tensor) -> torch.Tensor:
    if leaf.dim() < 2:
        return leaf
    moved = leaf.transpose(0, -1).clone(memory_format=torch.contiguous_format)
    return moved.transpose(0, -1)


def _take_every_second(leaf: torch.Tensor) -> torch.Tensor:
    """Return the tensor as every second element in each row of a wider one."""
    return leaf.repeat_interleave(2, -1)[..., ::2] if leaf.dim() else leaf


def _repeat_first(leaf: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape that is its first row, expanded."""
    return leaf[:1].expand_as(leaf) if leaf.dim() and leaf.numel() else leaf


def _with_aliases(calls: Calls) -> Iterator[WiderCalls]:
    """Yield calls in which two arguments are the same tensor, or one is a view of the other."""
    pairs = [
        (one, other)
        for one, other in itertools.combinations(tensors_of(calls), 2)
        if (one.shape, one.dtype) == (other.shape, other.dtype) and one is not other
    ]
    for one, other in pairs[:PAIRS]:
        for is_view in (False, True):
            shared = one.detach().clone()
            second = shared.view_as(shared) if is_view else shared
            new = {id(one): shared, id(other): second}
            mapped = map_leaves(calls, lambda leaf: new.get(id(leaf), leaf))  # noqa: B023
            yield WiderCalls(mapped, "no two arguments share memory")


def _with_other_arguments(program: Program, call: CallArguments) -> Iterator[WiderCalls]:
    """Yield calls with another number, text or container for an argument, given or by default."""
    function = program.module.forward if program.module is not None else program.target
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return
    bound.apply_defaults()
    packed = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = [one for one in signature.parameters.values() if one.kind not in packed]
    given = [(one, bound.arguments[one.name]) for one in parameters]
    plain = [pair for pair in given if type(pair[1]) in (bool, int, float, str)]
    several = [pair for pair in given if type(pair[1]) in (list, tuple, dict) and pair[1]]
    found: list[tuple[inspect.Parameter, object, Iterable[tuple[object, str]]]] = [
        (one, value, _other_values(one, value)) for one, value in plain[:NUMBERS]
    ]
    for one, value in several[:NUMBERS]:
        kinds = _other_kinds(one, value)
        items = () if isinstance(value, dict) else _other_items(one.name, value)
        found.append((one, value, itertools.chain(kinds, items)))
    tensors = [pair for pair in given if isinstance(pair[1], torch.Tensor)]
    for parameter, value in tensors[:PAIRS]:
        if _allows(parameter):
            found.append((parameter, value, [(None, f"`{parameter.name}` is never None")]))
    absent = [one for one, value in given if value is None]
    for parameter in absent[:NUMBERS]:
        found.append((parameter, None, _values_for_none(parameter, [one for _, one in tensors])))
    for parameter, value, others in found:
        for new, assumes in others:
            bound.arguments[parameter.name] = new
            twice = (CallArguments(bound.args, dict(bound.kwargs)),) * 2
            is_none = value is None or new is None
            yield WiderCalls(twice, assumes, may_accept=is_none)
        bound.arguments[parameter.name] = value


def _allows(parameter: inspect.Parameter, *names: str) -> bool:
    """Return whether a parameter has no annotation, or one that holds one of `names`."""
    told = parameter.annotation
    return told is parameter.empty or any(name in str(told) for name in names)


def _values_for_none(
    parameter: inspect.Parameter, tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[object, str]]:
    """Yield a number and a copy of a tensor for an argument that is None, as annotations allow."""
    clause = f"`{parameter.name}` is None in each call"
    if _allows(parameter, "float"):
        yield 0.5, clause
    if tensors and _allows(parameter, "Tensor"):
        yield tensors[0].detach().clone(), clause


def _other_kinds(
    parameter: inspect.Parameter, value: list[object] | tuple[object, ...] | dict[object, object]
) -> Iterator[tuple[object, str]]:
    """Yield a container of another type that the annotation of its parameter allows."""
    kind = type(value)
    clause = f"`{parameter.name}` is a plain {kind.__name__} in each call"
    if isinstance(value, dict):
        yield collections.OrderedDict(value), clause
    elif _allows(parameter, "Sequence"):
        yield tuple(value) if kind is list else list(value), clause


def _other_items(
    name: str, value: list[object] | tuple[object, ...]
) -> Iterator[tuple[object, str]]:
    """Yield other contents for an argument, each with the clause that rules them out."""
    kind = type(value)
    for items in ([], [*value][:1], [*value][:-1], [*value, value[-1]]):
        yield kind(items), f"`{name}` keeps its length"
    numbers = [one for one in value if type(one) is int]
    if len(numbers) == len(value):
        yield kind(one + 0.5 for one in numbers), f"`{name}` holds ints in each call"
        yield kind(-one for one in numbers), f"`{name}` holds no negative number"
        yield kind(map(torch.tensor, value)), f"`{name}` holds Python numbers in each call"
    if isinstance(last := value[-1], torch.Tensor):
        yield kind([*value[:-1], last[None]]), f"the tensors of `{name}` keep their dimensions"


def _other_values(
    parameter: inspect.Parameter, value: bool | int | float | str
) -> Iterator[tuple[object, str]]:
    """Yield other values for an argument, each with the clause that rules it out.

    They are of other types only if the parameter has no annotation that excludes these.
    """
    name = parameter.name
    same = f"`{name}` is {value!r} in each call"
    if isinstance(value, str):
        yield f"{value}_", same
        if _allows(parameter, "None", "Optional"):
            yield None, same
        return
    if isinstance(value, bool):
        yield not value, same
        return
    for other in (0, 1, -1, value + 3) if isinstance(value, int) else (0.0, -value, value * 10):
        if other != value:
            yield other, same if other == value + 3 else f"`{name}` is never {other!r}"
    if isinstance(value, int) and _allows(parameter, "float"):
        yield value + 0.5, f"`{name}` is an int in each call"
    if _allows(parameter):
        yield torch.tensor(value), f"`{name}` is a Python number of at most 64 bits in each call"
        yield (1, value), f"`{name}` is a Python number of at most 64 bits in each call"


def _change_one(calls: Calls, tensor: torch.Tensor, change: Change) -> Calls:
    """Return a copy of `calls` with `change` applied to one tensor."""
    return _map_tensors(calls, lambda leaf: change(leaf) if leaf is tensor else leaf)


def _map_tensors(calls: Calls, change: Change) -> Calls:
    """Return a copy of `calls` with `change` applied to strided tensors; a leaf becomes a leaf."""

    def map_leaf(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
            return leaf
        if (new := change(leaf)) is leaf:
            return leaf
        differentiable = new.is_floating_point() or new.is_complex()
        return new.detach().requires_grad_(leaf.requires_grad and differentiable)

    return map_leaves(calls, map_leaf)

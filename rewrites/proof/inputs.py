"""Input variants: the user's inputs with other values of the same shapes and dtypes."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from fullgraph.compiler.private import tree_leaves, tree_map
from fullgraph.compiler.program import CallArguments, Program

Calls = tuple[CallArguments, ...]
Change = Callable[[torch.Tensor], torch.Tensor]

RANDOM_VARIANTS = 12
"""Number of variants with random values, which come last."""
RESIZED = 12
"""Largest number of copies of a call with other sizes."""


def input_variants(calls: Calls, *, special: bool) -> Iterator[Calls]:
    """Yield copies of the user's calls, then variants of them, in a deterministic order.

    Shapes, dtypes and devices are kept, and integers stay in their range. With `special`, some
    variants contain NaN and infinities.
    """
    yield copy_calls(calls)
    for change in _input_changes(special):
        yield transform_calls(calls, change)
    tensors = [leaf for leaf in tensors_of(calls) if leaf.numel()]
    if not all(leaf.is_floating_point() or leaf.is_complex() for leaf in tensors):
        yield transform_calls(calls, _fill_with_least)  # such as a label that marks padding
        yield transform_calls(calls, lambda x: -_fill_with_least(-x))
    if len(tensors) > 1:
        for index in range(min(len(tensors), 6)):
            for change in (torch.zeros_like, torch.neg, _to_ones):
                yield transform_calls(calls, change, only=index)
    for number in range(RANDOM_VARIANTS):
        yield transform_calls(calls, _randomize(number, 10.0 ** (number % 4 - 1)))


def discrete_variants(
    calls: Calls, constants: Sequence[float], *, special: bool
) -> Iterator[Calls]:
    """Yield variants beyond those of `input_variants`, to reach a branch that none of them reaches.

    `constants` are numbers with which the program compares whole numbers and bools: they may lie
    outside of the range of the user's integers.
    """
    tensors = [leaf for leaf in tensors_of(calls) if leaf.numel()]
    whole = [n for n, leaf in enumerate(tensors) if not leaf.is_floating_point()]
    for constant in constants[:8]:
        for number in whole[:4]:
            for change in _set_some(constant):
                yield transform_calls(calls, change, only=number, in_range=False)
    for number, other in itertools.permutations(range(min(len(tensors), 4)), 2):
        if tensors[number].shape == tensors[other].shape:
            change = partial(_put_in_place, tensors[other])
            yield transform_calls(calls, change, only=number, in_range=False)
    changes = [*_rearrangements(), *_input_changes(special)]
    for change in changes:
        yield transform_calls(calls, change)
    for number in range(min(len(tensors), 6) if len(tensors) > 1 else 0):
        for change in changes:
            yield transform_calls(calls, change, only=number)
    chosen = random.Random(0)
    for _ in range(RANDOM_VARIANTS if len(tensors) > 1 else 0):
        changed = calls
        for number in range(len(tensors)):
            changed = transform_calls(changed, chosen.choice(changes), only=number)
        yield changed


def _set_some(constant: float) -> Iterator[Change]:
    """Yield changes that set all elements, the first, the last or every second to a constant."""
    yield lambda x: torch.full_like(x, constant)
    for where in (slice(0, 1), slice(-1, None), slice(0, None, 2)):

        def change(x: torch.Tensor, where: slice = where) -> torch.Tensor:
            new = x.flatten().clone()
            new[where] = constant
            return new.reshape(x.shape)

        yield change


def _rearrangements() -> Iterator[Change]:
    """Yield changes that sort, permute and repeat elements, or make all of them extreme."""
    for order in (torch.zeros_like, _shuffle, lambda places: places // 2):
        yield partial(_take_rows, order)
    yield lambda x: (x if x.is_complex() else x.flatten().sort().values).reshape(x.shape)
    yield lambda x: torch.arange(x.numel(), device=x.device).reshape(x.shape) - x.numel() // 2
    yield lambda x: torch.full_like(x, 1e-6)
    yield lambda x: torch.full_like(x, 100)
    yield lambda x: torch.full_like(x, -100)


def _put_in_place(new: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return new.detach()


def _shuffle(places: torch.Tensor) -> torch.Tensor:
    return places[torch.randperm(len(places), generator=torch.Generator().manual_seed(0))]


def _take_rows(order: Change, x: torch.Tensor) -> torch.Tensor:
    return x[order(torch.arange(len(x), device=x.device))] if x.dim() else x


def copy_calls(calls: Calls) -> Calls:
    """Return a copy of `calls` with memory of its own; aliases among its tensors are kept."""
    return copy.deepcopy(_detach_calls(calls))


def perturb_calls(calls: Calls) -> Calls:
    """Return a copy of `calls` with every floating-point element moved by about one ulp."""
    return transform_calls(calls, lambda x: x * (1 + torch.finfo(x.dtype).eps))


def double_batch(calls: Calls) -> Calls:
    """Return a copy of the last call with twice the batch size.

    The batch size is the first dimension of the first tensor that has one; every tensor with this
    first dimension is concatenated with itself.
    """
    last = calls[-1:]
    sizes = [leaf.shape[0] for leaf in tensors_of(last) if leaf.dim()]

    def double(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or not leaf.dim() or leaf.shape[0] != sizes[0]:
            return copy.deepcopy(leaf)
        if leaf.layout is not torch.strided:
            return leaf
        return torch.cat([leaf, leaf]).detach().requires_grad_(leaf.requires_grad)

    return map_leaves(copy_calls(last), double)


def resize_calls(calls: Calls, least: int = 1) -> Iterator[Calls]:
    """Yield copies of the first call in which one size is another.

    First a size changes everywhere: it is doubled in all dimensions of all tensors that have it.
    Then each dimension with an equal one elsewhere changes alone, where it is doubled and one less.
    Elements that are added repeat those before. No size becomes less than `least`; at most
    `RESIZED` copies are made.
    """
    first = calls[:1]
    tensors = [leaf for leaf in tensors_of(first) if leaf.numel()]
    places = [(n, dim) for n, one in enumerate(tensors) for dim in range(one.dim())]
    by_size: dict[int, list[tuple[int, int]]] = {}
    for number, dim in sorted(places, key=lambda place: place[1]):
        by_size.setdefault(tensors[number].shape[dim], []).append((number, dim))
    changes = [(group, 2 * size) for size, group in by_size.items()]
    for size, group in by_size.items():
        for place in group if len(group) > 1 else ():
            changes += [([place], 2 * size), *([([place], size - 1)] if size > least else [])]
    for group, size in changes[:RESIZED]:
        yield _resize_tensors(first, tensors, group, size)


def empty_calls(calls: Calls) -> Iterator[Calls]:
    """Yield a copy of the first call in which the batch has size 0."""
    tensors = [leaf for leaf in tensors_of(calls[:1]) if leaf.numel() and leaf.dim()]
    places = [(n, 0) for n, one in enumerate(tensors) if one.shape[0] == tensors[0].shape[0]]
    if places:
        yield _resize_tensors(calls[:1], tensors, places, 0)


def _resize_tensors(
    calls: Calls, tensors: Sequence[torch.Tensor], places: Sequence[tuple[int, int]], size: int
) -> Calls:
    """Return a copy of `calls` in which dimensions of tensors have another size.

    `places` are (number, dimension), where the number is that of the tensor in `tensors`.
    """
    dims = {id(tensors[number]): [d for n, d in places if n == number] for number, _ in places}

    def resize(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
            return leaf
        new = leaf.detach()
        for dim in dims.get(id(leaf), ()):
            new = torch.cat([new, new], dim).narrow(dim, 0, size)
        return new.clone().requires_grad_(leaf.requires_grad)

    return map_leaves(calls, resize)


def has_buffers(program: Program) -> bool:
    """Return whether the program is a module with buffers, which `change_buffers` changes."""
    return program.module is not None and any(True for _ in program.module.buffers())


def change_buffers(program: Program, factor: float, summand: float) -> None:
    """Change every buffer b of the program's module to factor * b + summand.

    A bool becomes whether that is not zero. Of whole numbers, which may be indices, only a single
    one on the CPU is increased, and none becomes negative.
    """
    for buffer in program.module.buffers() if program.module is not None else ():
        with torch.no_grad():
            if buffer.is_floating_point():
                buffer.copy_(buffer * factor + summand if factor else torch.tensor(summand))
            elif buffer.dtype is torch.bool:
                buffer.copy_(buffer * factor + summand != 0)
            elif not buffer.is_complex() and factor >= 0:
                single = buffer.numel() == 1 and buffer.device.type == "cpu"
                buffer.mul_(int(factor)).add_(int(summand) if single else 0)


def transform_calls(
    calls: Calls, change: Change, only: int | None = None, *, in_range: bool = True
) -> Calls:
    """Return a copy of `calls` with `change` applied to its tensors.

    With `only`, it is applied to one tensor, the one with this number, counted from 0. Integers
    stay in the range of the tensor if `in_range`.
    """
    numbers = iter(range(1_000_000))

    def transform_leaf(leaf: object) -> object:
        """Return the changed copy of a tensor."""
        if not isinstance(leaf, torch.Tensor):
            return copy.deepcopy(leaf)
        if leaf.device.type == "meta" or leaf.layout is not torch.strided:
            return leaf
        number = next(numbers)
        if not leaf.numel() or (only is not None and number != only):
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        new = _with_layout_of(leaf, change, in_range)
        return new.requires_grad_(leaf.requires_grad)

    return map_leaves(calls, transform_leaf)


def map_leaves(calls: Calls, change: Callable[[object], object]) -> Calls:
    """Return a copy of `calls` with `change` applied to each leaf of their arguments."""
    return tuple(
        CallArguments(tree_map(change, c.args), tree_map(change, dict(c.kwargs))) for c in calls
    )


def require_gradients(calls: Calls) -> None:
    """Set `requires_grad` on every floating-point leaf tensor of `calls`."""
    for leaf in tensors_of(calls):
        if leaf.is_leaf and not leaf.requires_grad and leaf.is_floating_point():
            leaf.requires_grad_()


def _detach_calls(calls: Calls) -> Calls:
    """Return the calls with a detached tensor in place of each tensor that is not a leaf."""

    def detach_leaf(leaf: object) -> object:
        """Return a non-leaf tensor as a leaf."""
        if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
            return leaf.detach().requires_grad_(leaf.requires_grad)
        return leaf

    return map_leaves(calls, detach_leaf)


def tensors_of(calls: Calls) -> list[torch.Tensor]:
    """Return all tensors in the arguments."""
    found = tree_leaves([(call.args, dict(call.kwargs)) for call in calls])
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def _with_layout_of(leaf: torch.Tensor, change: Change, in_range: bool) -> torch.Tensor:
    """Return `change(leaf)`, converted to the dtype, shape and layout of `leaf`.

    Integers stay in the range of those in `leaf` if `in_range`.
    """
    with torch.no_grad():
        values = leaf.detach()
        if not in_range:
            new = change(values).to(leaf.dtype)
        elif leaf.dtype is torch.bool:
            new = change(values.float() - 0.5) > 0
        elif leaf.is_floating_point() or leaf.is_complex():
            new = change(values).to(leaf.dtype)
        else:
            low, high = int(values.min()), int(values.max())
            middle = (low + high) / 2
            new = (change(values.double() - middle).nan_to_num() + middle).round()
            new = new.clamp(low, high).to(leaf.dtype)
        return new.expand_as(values).clone(memory_format=torch.preserve_format)


def _input_changes(special: bool) -> Iterator[Change]:
    """Yield functions that change a tensor; `special` adds those that insert inf and NaN."""
    yield torch.zeros_like
    yield torch.neg
    yield torch.abs
    yield lambda x: -x.abs()
    yield _to_ones
    yield lambda x: x * 10
    yield lambda x: x * 0.1
    yield lambda x: x * 1e4
    yield lambda x: x + 1
    yield lambda x: x - 1
    yield lambda x: x.flip(0) if x.dim() else x
    yield lambda x: x.flatten()[:1].expand(x.numel()).reshape(x.shape)
    yield _one_hot
    if special:
        yield _put_last(float("nan"))
        yield _put_last(float("inf"))


def _to_ones(x: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(x)


def _one_hot(x: torch.Tensor) -> torch.Tensor:
    """Return zeros with a one as the first element."""
    new = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    new.view(-1)[0] = 1
    return new


def _fill_with_least(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor full of its least element."""
    return x if x.is_complex() else x.min().expand_as(x)


def _put_last(value: float) -> Change:
    """Return a function that copies a tensor and sets the last element to `value`.

    It returns a tensor of integers or booleans unchanged.
    """

    def change(x: torch.Tensor) -> torch.Tensor:
        """Return a copy with the last element set."""
        if not x.is_floating_point():
            return x
        new = x.clone(memory_format=torch.contiguous_format)
        new.view(-1)[-1] = value
        return new

    return change


def _randomize(seed: int, scale: float) -> Change:
    """Return a change that replaces a tensor by normal random numbers times `scale`."""
    generator = torch.Generator().manual_seed(seed)

    def change(x: torch.Tensor) -> torch.Tensor:
        """Return random numbers of the same shape."""
        noise = torch.randn(x.shape, generator=generator, dtype=torch.float32)
        return (noise * scale).to(x.device)

    return change

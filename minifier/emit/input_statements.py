"""Write a program's inputs as assignments that keep shared memory shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from fullgraph.minifier.emit.elements import find_patches, shape_arguments
from fullgraph.minifier.emit.literals import MAX_LIST_CHARS, literal, memory_of, skipped_before
from fullgraph.minifier.emit.program_text import Unwritable


def assign_inputs(values: Mapping[str, object], *, max_list_chars: int = MAX_LIST_CHARS) -> str:
    """Return statements that assign each value to its name, such as "x = torch.ones(3)".

    Values are tensors, numbers, strings, None and generators. Tensors that overlap in memory become
    views of one tensor. A list of more than `max_list_chars` characters becomes packed bytes if
    those are shorter. Raises Unwritable for a value that no source reproduces.
    """
    lines: list[str] = []
    named: dict[int, str] = {}
    bases: dict[int, torch.Tensor] = {}
    groups = _overlapping_groups(
        value for value in values.values() if isinstance(value, torch.Tensor)
    )
    names = {id(value): name for name, value in reversed(list(values.items()))}
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            lines += _assignments(name, value, max_list_chars)
            continue
        place = _address_of(value)
        if place in groups and place not in bases:
            bases[place] = base = _base_of(groups[place])
            named[id(base)] = names.get(id(base)) or _unused_name(
                "memory", {*values, *named.values()}
            )
            lines += _assignments(named[id(base)], base, max_list_chars)
        if id(value) in named:
            if named[id(value)] != name:
                lines.append(f"{name} = {named[id(value)]}")
            continue
        named[id(value)] = name
        if place in groups:
            base = bases[place]
            lines.append(f"{name} = {_view_expression(value, base, named[id(base)])}")
        else:
            lines += _assignments(name, value, max_list_chars)
    return "\n".join(lines)


def _assignments(name: str, value: object, max_list_chars: int) -> list[str]:
    """Return the statements that assign `value` to the variable `name`: ["x = torch.ones(3)"].

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    Raises Unwritable for a value that no source reproduces.
    """
    if isinstance(value, torch.Generator):
        return [f"{name} = {_generator_literal(value)}"]
    if not isinstance(value, torch.Tensor):
        return [f"{name} = {_plain_literal(value)}"]
    text = literal(value, max_list_chars=max_list_chars)
    if ".index_fill(" in text and type(value) is torch.Tensor and value.is_leaf:
        found = find_patches(name, value.detach()) if value.is_contiguous() else None
        if found is not None:
            grad = [f"{name}.requires_grad_()"] if value.requires_grad else []
            return [f"{name} = {found[0].on(value.device).text}", *found[1], *grad]
    return [f"{name} = {text}"]


def _plain_literal(value: object) -> str:
    """Return a number, string or None as source. Raises Unwritable for other values."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        value = value.node.hint
    if not isinstance(value, bool | int | float | complex | str | type(None)):
        raise Unwritable(f"A {type(value).__name__} cannot be written as Python source.")
    text = repr(value)
    return f'float("{text}")' if text in ("nan", "inf", "-inf") else text


def _generator_literal(generator: torch.Generator) -> str:
    """Return a generator as source: "torch.Generator().manual_seed(3)".

    Raises Unwritable if it has already drawn numbers.
    """
    seed = generator.initial_seed()
    fresh = torch.Generator(generator.device).manual_seed(seed)
    if not torch.equal(fresh.get_state(), generator.get_state()):
        raise Unwritable("A generator that has drawn numbers cannot be written as Python source.")
    device = "" if generator.device.type == "cpu" else f'"{generator.device}"'
    return f"torch.Generator({device}).manual_seed({seed})"


def _unused_name(name: str, taken: set[str]) -> str:
    """Return `name`, with underscores appended until it is not in `taken`."""
    while name in taken:
        name += "_"
    return name


# --- shared memory ---


def _address_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 if no other tensor can be a view of it.

    Empty, sparse, quantized and meta tensors have no such storage.
    """
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or not tensor.numel():
        return 0
    if tensor.is_nested or tensor._is_zerotensor() or tensor.is_quantized:
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor made of others
        return 0


def _overlapping_groups(tensors: Iterable[torch.Tensor]) -> dict[int, list[torch.Tensor]]:
    """Return lists of tensors that share a storage, by the address of the storage.

    A storage is left out if no two of its tensors overlap.
    """
    places: dict[int, dict[int, torch.Tensor]] = {}
    for tensor in tensors:
        if place := _address_of(tensor):
            places.setdefault(place, {})[id(tensor)] = tensor
    return {
        place: list(group.values())
        for place, group in places.items()
        if any(_share_memory(one, other) for one in group.values() for other in group.values())
    }


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors overlap in memory."""
    begin, end = _memory_range(one)
    start, stop = _memory_range(other)
    return one is not other and begin < stop and start < end


def _memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the range of storage elements that a tensor covers, as (begin, end)."""
    begin = int(tensor.storage_offset())
    return begin, begin + memory_of(tensor, 0).numel()


def _base_of(group: list[torch.Tensor]) -> torch.Tensor:
    """Return a tensor of which all tensors in `group` are views.

    It is one of them, or a new 1-d tensor over all their memory. Raises Unwritable if they have
    several dtypes.
    """
    if len({(t.dtype, t.is_conj(), t.is_neg()) for t in group}) > 1:
        raise Unwritable("Inputs that share memory under two dtypes cannot be written.")
    begin = min(_memory_range(tensor)[0] for tensor in group)
    end = max(_memory_range(tensor)[1] for tensor in group)
    for tensor in group:
        whole = tensor.is_contiguous() and _memory_range(tensor) == (begin, end)
        if whole and tensor.is_leaf and not skipped_before(tensor):
            return tensor
    return group[0].detach().as_strided((end - begin,), (1,), begin)


def _view_expression(tensor: torch.Tensor, base: torch.Tensor, name: str) -> str:
    """Return the expression that makes `tensor` from `base`, of which it is a view: "x[1:]".

    `name` is the variable of `base`: "x".
    """
    detached = base.requires_grad and (tensor.is_leaf or not tensor.requires_grad)
    text = name + next(
        suffix
        for suffix in _view_suffixes(tensor, base)
        if _gives_view(suffix, base.detach(), tensor.detach())
    )
    if detached:
        text = text.replace(name, f"{name}.detach()", 1)
    if isinstance(tensor, torch.nn.Parameter):
        grad = "" if tensor.requires_grad else ", requires_grad=False"
        return f"torch.nn.Parameter({text}{grad})"
    if tensor.requires_grad and (detached or not base.requires_grad):
        return f"{text}.requires_grad_()" + (
            "" if tensor.is_leaf else f".expand({shape_arguments(tensor.shape)})"
        )
    return text


def _view_suffixes(tensor: torch.Tensor, base: torch.Tensor) -> Iterator[str]:
    """Yield suffixes such as ".t()" and "[1:]", one of which turns `base` into `tensor`."""
    yield ""
    shape, start = tuple(tensor.shape), int(tensor.storage_offset() - base.storage_offset())
    if base.dim() == 2:
        yield ".t()"
    if base.dim():
        row = base.numel() // base.shape[0]
        first, rest = divmod(start, row)
        rows = tensor.numel() // row
        if not rest:
            yield f"[{first}]"
            yield f"[{first or ''}:{first + rows if first + rows < base.shape[0] else ''}]"
    yield f".view({shape_arguments(shape)})"
    for one in range(base.dim()):
        for other in range(one + 1, base.dim()):
            yield f".transpose({one}, {other})"
    for axis in range(1, base.dim()):
        step = base.stride(axis)
        first, colons = start // step, ":, " * axis
        yield f"[{colons}{first}]"
        if axis < tensor.dim():
            yield f"[{colons}{first or ''}:{first + shape[axis]}]"
    yield f".as_strided({shape}, {tuple(tensor.stride())}{f', {start}' if start else ''})"
    yield f".as_strided({shape}, {tuple(tensor.stride())}, {tensor.storage_offset()})"


def _gives_view(suffix: str, base: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Return whether `base` followed by `suffix`, such as `base[1:]`, is laid out like `tensor`.

    It is if shape, strides and storage offset agree. False if the suffix raises an error.
    """
    try:
        found = eval(f"base{suffix}", {"base": base})
    except Exception:  # not for this shape
        return False
    return (
        found.shape == tensor.shape
        and found.stride() == tensor.stride()
        and found.storage_offset() == tensor.storage_offset()
    )

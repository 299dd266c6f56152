"""Copies of a graph's inputs on which it behaves as on the originals."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fullgraph.compiler.private import compute_from_leaf, view_with_bits_of, zero_tensor_like

_MAX_STORAGE_RATIO = 4
"""A storage more than this many times as large as its only tensor is not copied as a whole."""


@dataclass(frozen=True)
class InputCopies:
    """Copied inputs, and the leaves that receive their gradients."""

    values: tuple[object, ...]
    leaves: tuple[torch.Tensor | None, ...]
    """For each input, the leaf that receives its gradient; None if it requires no gradient."""


def copy_inputs(inputs: Sequence[object], *, parameters: bool = True) -> InputCopies:
    """Copy inputs with their strides, classes and autograd history, without hooks and `.grad`.

    Copies share memory with each other as the originals do. Without `parameters`, the copies of
    parameters share memory with the originals.
    """
    memory: dict[int, torch.UntypedStorage] = {}
    users = Counter(
        thing.untyped_storage().data_ptr()
        for thing in {id(t): t for t in inputs if isinstance(t, torch.Tensor)}.values()
        if _has_memory(thing)
    )
    copies: dict[int, tuple[object, torch.Tensor | None]] = {}
    for thing in inputs:
        if id(thing) in copies:
            continue
        if isinstance(thing, torch.Tensor):
            with torch.inference_mode(thing.is_inference()):
                if isinstance(thing, torch.nn.Parameter) and not parameters:
                    fresh = thing.detach()
                else:
                    fresh = _copy_without_history(thing, memory, users)
                copies[id(thing)] = _with_history_of(fresh, thing)
        elif isinstance(thing, torch.Generator):
            copies[id(thing)] = thing.clone_state(), None
        else:
            copies[id(thing)] = copy.deepcopy(thing), None
    pairs = [copies[id(thing)] for thing in inputs]
    return InputCopies(tuple(value for value, _ in pairs), tuple(leaf for _, leaf in pairs))


def _copy_without_history(
    tensor: torch.Tensor, memory: dict[int, torch.UntypedStorage], users: Counter[int]
) -> torch.Tensor:
    """Return a copy of a tensor's values and strides, without its autograd history.

    `memory` maps the address of each storage copied so far to its copy; the copies of tensors that
    share a storage share its copy. `users` counts the tensors that use each storage, by address.
    """
    if tensor.is_meta or not _has_memory(tensor):
        if tensor._is_zerotensor():
            return zero_tensor_like(tensor)
        return tensor.detach().clone()
    storage = tensor.untyped_storage()
    place = storage.data_ptr()
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    alone = users[place] == 1 and storage.nbytes() > (
        _MAX_STORAGE_RATIO * span * tensor.element_size()
    )
    if alone:
        storage, offset = _copy_part(tensor, span), 0
    else:
        storage = memory[place] = memory.get(place) or storage.clone()
        offset = int(tensor.storage_offset())
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return view_with_bits_of(empty.set_(storage, offset, tensor.shape, tensor.stride()), tensor)


def _copy_part(tensor: torch.Tensor, span: int) -> torch.UntypedStorage:
    """Return a new storage with a copy of the elements that `tensor` covers in its own storage.

    These are `span` elements from the tensor's storage offset on.
    """
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole.set_(tensor.untyped_storage(), int(tensor.storage_offset()), (span,), (1,))
    return whole.clone().untyped_storage()


def _with_history_of(
    fresh: torch.Tensor, tensor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return (copy, leaf): the copy `fresh` made a parameter, buffer or (non-)leaf like `tensor`.

    The leaf receives the gradient of the copy; it is None if `tensor` requires no gradient.
    """
    if isinstance(tensor, torch.nn.Parameter) and type(fresh) is torch.Tensor:
        fresh = torch.nn.Parameter(fresh, tensor.requires_grad)
    elif isinstance(tensor, torch.nn.Buffer):
        fresh = torch.nn.Buffer(fresh)
    if not tensor.requires_grad:
        return fresh, None
    if tensor.is_leaf:
        fresh.requires_grad_()
        return fresh, fresh
    return compute_from_leaf(fresh)


def _has_memory(tensor: torch.Tensor) -> bool:
    """Return whether the elements of `tensor` are in strided memory that can be copied.

    False for subclasses other than Parameter and Buffer, and for empty, sparse and quantized
    tensors.
    """
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not isinstance(
        tensor, torch.nn.Buffer
    ):
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor._is_zerotensor():
        return False
    return bool(tensor.numel()) and tensor.untyped_storage().data_ptr() != 0

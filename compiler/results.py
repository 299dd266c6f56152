"""What one run of a callable gave: outputs, gradients, and its inputs and state afterwards."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fullgraph.compiler.private import (
    container_types,
    disable_torch_function,
    named_tree_leaves,
    tree_leaves,
)

_ATOMS = (bool, int, float, complex, str, bytes, type(None))
_HELD = (*_ATOMS, torch.Tensor, list, tuple, dict)


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor as it was: what it says of itself, and a copy of its elements."""

    kind: str
    """Its class, "Tensor" in most cases."""
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    """None where the layout has none."""
    layout: torch.layout
    device: torch.device
    requires_grad: bool
    alias: str
    """The name of the earlier tensor whose memory it shares; "" where there is none."""
    content: torch.Tensor | None
    """Its elements, strided and real (a complex number is two); None on the meta device."""


@dataclass(frozen=True, eq=False)
class Results:
    """What a run gave. A leaf is a `Value`, a plain value, or an object's class name."""

    outputs: Mapping[str, Any]
    """By path: "output", "output[0]", "output['logits']"."""
    gradients: Mapping[str, Any]
    """By the name of the input or parameter."""
    state: Mapping[str, Any]
    """Inputs, parameters, buffers and attributes afterwards, by name."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """The classes of what holds the outputs, by path."""


Loss = Callable[[Any], torch.Tensor] | bool | None
"""What goes backward: nothing (None, False), the sum of the outputs (True), or what a function
makes of the output."""


def run(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    loss: Loss = None,
    module: torch.nn.Module | None = None,
    seed: int | None = 0,
) -> Results:
    """Call `function` and tell what came of it. `module` is where its state lives.

    Seeds the generators first, unless `seed` is None. Raises what `function` raises.
    """
    if seed is not None:
        reseed(seed)
    inputs = dict(_named_inputs(args, kwargs))
    places = dict(_places({**inputs, **_tensors(module)}))
    inner = [t for t in inputs.values() if isinstance(t, torch.Tensor) and not t.is_leaf]
    if loss:
        for tensor in inner:
            tensor.retain_grad()
    output = function(*args, **kwargs)
    outputs = {f"output{path}": leaf for path, leaf in named_tree_leaves(output)}
    told = _told(outputs, places)
    if loss:
        backward(output, loss, retain_graph=bool(inner))
    every = {**inputs, **_tensors(module)}
    gradients = {
        name: value(t.grad)
        for name, t in every.items()
        if isinstance(t, torch.Tensor) and (t.is_leaf or t.retains_grad) and t.grad is not None
    }
    left = {**dict(_named_inputs(args, kwargs)), **_tensors(module)}
    state = {name: _leaf(thing) for name, thing in left.items()}
    held = {f"output{path}": kind.__qualname__ for path, kind in container_types(output)}
    return Results(told, gradients, {**state, **_attributes(module)}, held)


def backward(output: Any, loss: Loss, *, retain_graph: bool = False) -> bool:
    """Run the backward pass of a loss; return whether there was anything to differentiate.

    With `retain_graph` the autograd graph of the inputs can be used once more.
    """
    if callable(loss):
        loss(output).backward(retain_graph=retain_graph)
        return True
    sums = [
        (leaf.real + leaf.imag if leaf.is_complex() else leaf.float()).sum()
        for leaf in tree_leaves(output)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if sums:
        torch.stack(sums).sum().backward(retain_graph=retain_graph)
    return bool(sums)


def reseed(seed: int) -> None:
    """Seed torch's, Python's and NumPy's global generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def value(tensor: torch.Tensor, alias: str = "", *, copied: bool = True) -> Value:
    """What `tensor` is now. Without `copied` its elements may change with it."""
    with disable_torch_function(), torch.no_grad():
        strided = tensor.layout is torch.strided
        return Value(
            type(tensor).__name__,
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride() if strided else None,
            tensor.layout,
            tensor.device,
            tensor.requires_grad,
            alias,
            content(tensor, copied=copied),
        )


def content(tensor: torch.Tensor, *, copied: bool = True) -> torch.Tensor | None:
    """A copy of the elements of any tensor, strided and real.

    None on the meta device and for a tensor that is made of others.
    """
    if tensor.device.type == "meta":
        return None
    if hasattr(type(tensor), "__tensor_flatten__"):
        return None
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype.to_real(), device=tensor.device)
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    plain = plain.resolve_conj().resolve_neg()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    return plain.clone() if copied else plain


def _named_inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, leaf in named_tree_leaves(tuple(args)):
        yield f"input{path}", leaf
    for path, leaf in named_tree_leaves(dict(kwargs)):
        yield f"input{path}", leaf


def _tensors(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    if module is None:
        return {}
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _attributes(module: torch.nn.Module | None) -> dict[str, Any]:
    """The attributes of a module and those inside it that are plain values or tensors, or lists,
    tuples and dicts of such."""
    if module is None:
        return {}
    return {
        f"{path}.{name}{way}".lstrip("."): _leaf(leaf)
        for path, each in module.named_modules()
        for name, thing in vars(each).items()
        if isinstance(thing, _HELD) and not name.startswith("_")
        for way, leaf in named_tree_leaves(thing)
        if isinstance(leaf, _HELD)
    }


def _places(tensors: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for name, tensor in tensors.items():
        place = _place(tensor)
        if place:
            yield place, name


def _place(thing: Any) -> int:
    """Where a tensor's memory begins; 0 for what has none of its own."""
    if not isinstance(thing, torch.Tensor) or thing.layout is not torch.strided:
        return 0
    if thing.device.type == "meta" or not thing.numel() or thing._is_zerotensor():
        return 0
    try:
        return thing.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor made of others, a ZeroTensor
        return 0


def _told(outputs: Mapping[str, Any], places: dict[int, str]) -> dict[str, Any]:
    """The outputs as values; `places` learns where theirs lie."""
    told = {}
    for name, leaf in outputs.items():
        place = _place(leaf)
        told[name] = _leaf(leaf, places.get(place, "") if place else "")
        if place:
            places.setdefault(place, name)
    return told


def _leaf(thing: Any, alias: str = "") -> Any:
    if isinstance(thing, torch.Tensor):
        return value(thing, alias)
    if type(thing).__module__ == "numpy":
        return _array(thing)
    if isinstance(thing, _ATOMS):
        return thing
    return f"<{type(thing).__name__}>"


def _array(thing: Any) -> Any:
    """A NumPy array or scalar: shape and dtype are part of what it is."""
    array = sys.modules["numpy"].asarray(thing)
    if array.dtype.kind not in "biufc":
        return f"{type(thing).__name__} {array.dtype} {array.shape} {array.tolist()!r}"
    told = value(torch.from_numpy(array.copy()))
    return Value(type(thing).__name__, *list(vars(told).values())[1:])

"""Results of a run: outputs, gradients, and the inputs and module state after it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
class RecordedTensor:
    """Metadata of a tensor, and a copy of its elements."""

    kind: str
    """Name of its class, mostly "Tensor"."""
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    """None if the layout has no strides."""
    layout: torch.layout
    device: torch.device
    requires_grad: bool
    alias: str
    """Name of the first tensor that shares its memory; "" if there is none."""
    elements: torch.Tensor | None
    """A strided real tensor, with two numbers for a complex element.

    None on the meta device and for wrapper subclasses."""


@dataclass(frozen=True, eq=False)
class RunResults:
    """What a run computed: outputs, gradients and state, each with its leaves by name.

    A leaf is a `RecordedTensor`, a number, string or None, or "<class>" for any other object.
    """

    outputs: Mapping[str, object]
    """By path: "output", "output[0]", "output['logits']"."""
    gradients: Mapping[str, object]
    """By name of the input or parameter."""
    state: Mapping[str, object]
    """Inputs, parameters, buffers and attributes after the run, by name."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Class names of the containers of the outputs, by path."""


Loss = Callable[[object], torch.Tensor] | bool | None
"""What to differentiate: True for the sum of the outputs, or a function of the outputs.

None and False mean that there is no backward pass."""


def run_and_record(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    loss: Loss = None,
    module: torch.nn.Module | None = None,
    seed: int | None = 0,
) -> RunResults:
    """Call `function` and return its results, including the state of `module` after the call.

    With a `loss`, the backward pass is run, and its gradients are among the results. Seeds the
    random generators first, unless `seed` is None. Raises what `function` raises.
    """
    if seed is not None:
        seed_generators(seed)
    inputs = dict(_named_inputs(args, kwargs))
    places = dict(_data_pointers({**inputs, **_named_tensors(module)}))
    inner = [t for t in inputs.values() if isinstance(t, torch.Tensor) and not t.is_leaf]
    if loss:
        for tensor in inner:
            tensor.retain_grad()
    output = function(*args, **kwargs)
    outputs = {f"output{path}": leaf for path, leaf in named_tree_leaves(output)}
    recorded = _record_outputs(outputs, places)
    if loss:
        backward(output, loss, retain_graph=bool(inner))
    every = {**inputs, **_named_tensors(module)}
    gradients = {
        name: record_tensor(t.grad)
        for name, t in every.items()
        if isinstance(t, torch.Tensor) and (t.is_leaf or t.retains_grad) and t.grad is not None
    }
    left = {**dict(_named_inputs(args, kwargs)), **_named_tensors(module)}
    state = {name: _record_leaf(thing) for name, thing in left.items()}
    held = {f"output{path}": kind.__qualname__ for path, kind in container_types(output)}
    return RunResults(recorded, gradients, {**state, **_record_attributes(module)}, held)


def backward(output: object, loss: Loss, *, retain_graph: bool = False) -> bool:
    """Run the backward pass of `output`; return False if no output requires a gradient.

    It starts from `loss(output)`, or from the sum of the outputs if `loss` is not a function. With
    `retain_graph`, the autograd graph can be used for another backward pass.
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


def seed_generators(seed: int) -> None:
    """Seed torch's, Python's and NumPy's global generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def record_tensor(tensor: torch.Tensor, alias: str = "", *, copied: bool = True) -> RecordedTensor:
    """Record a tensor; `alias` names the first tensor that shares its memory, "" if none does.

    Without `copied`, the recorded elements change when the tensor does.
    """
    with disable_torch_function(), torch.no_grad():
        strided = tensor.layout is torch.strided
        return RecordedTensor(
            type(tensor).__name__,
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride() if strided else None,
            tensor.layout,
            tensor.device,
            tensor.requires_grad,
            alias,
            elements_of(tensor, copied=copied),
        )


def elements_of(tensor: torch.Tensor, *, copied: bool = True) -> torch.Tensor | None:
    """Return the elements of a tensor of any layout or dtype as a strided real tensor.

    None for a tensor on the meta device and for a wrapper subclass.
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


def _named_inputs(
    args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """Yield (name, leaf) for each leaf of the arguments: "input[0]", …"""
    for path, leaf in named_tree_leaves(tuple(args)):
        yield f"input{path}", leaf
    for path, leaf in named_tree_leaves(dict(kwargs)):
        yield f"input{path}", leaf


def _named_tensors(module: torch.nn.Module | None) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers of a module by name; {} for None."""
    if module is None:
        return {}
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _record_attributes(module: torch.nn.Module | None) -> dict[str, object]:
    """Return the public attributes of a module and its submodules that hold data, by name.

    Data are tensors, numbers, strings, None, and lists, tuples and dicts of them. {} for None.
    """
    if module is None:
        return {}
    return {
        f"{path}.{name}{inner}".lstrip("."): _record_leaf(leaf)
        for path, each in module.named_modules()
        for name, thing in vars(each).items()
        if isinstance(thing, _HELD) and not name.startswith("_")
        for inner, leaf in named_tree_leaves(thing)
        if isinstance(leaf, _HELD)
    }


def _data_pointers(tensors: Mapping[str, object]) -> Iterator[tuple[int, str]]:
    """Yield (memory address, name) for each entry of `tensors` that is a tensor with memory."""
    for name, tensor in tensors.items():
        place = _address_of(tensor)
        if place:
            yield place, name


def _address_of(thing: object) -> int:
    """Return the address of a tensor's memory; 0 if it has none of its own."""
    if not isinstance(thing, torch.Tensor) or thing.layout is not torch.strided:
        return 0
    if thing.device.type == "meta" or not thing.numel() or thing._is_zerotensor():
        return 0
    try:
        return thing.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper subclass, a ZeroTensor
        return 0


def _record_outputs(outputs: Mapping[str, object], places: dict[int, str]) -> dict[str, object]:
    """Return the outputs recorded, each with the name of a tensor whose memory it shares.

    `places` maps memory addresses to the names of tensors; the outputs are added to it.
    """
    recorded = {}
    for name, leaf in outputs.items():
        place = _address_of(leaf)
        recorded[name] = _record_leaf(leaf, places.get(place, "") if place else "")
        if place:
            places.setdefault(place, name)
    return recorded


def _record_leaf(thing: object, alias: str = "") -> object:
    """Return a tensor or array recorded; return a number, string or None unchanged.

    Any other object becomes its class name, such as "<Config>". `alias` names the first tensor that
    shares memory with `thing`; "" if there is none.
    """
    if isinstance(thing, torch.Tensor):
        return record_tensor(thing, alias)
    if type(thing).__module__ == "numpy":
        return _record_array(thing)
    if isinstance(thing, _ATOMS):
        return thing
    return f"<{type(thing).__name__}>"


def _record_array(thing: object) -> object:
    """Record a NumPy array or scalar with its shape and dtype."""
    array = sys.modules["numpy"].asarray(thing)
    if array.dtype.kind not in "biufc":
        return f"{type(thing).__name__} {array.dtype} {array.shape} {array.tolist()!r}"
    recorded = record_tensor(torch.from_numpy(array.copy()))
    return replace(recorded, kind=type(thing).__name__)

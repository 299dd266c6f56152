"""Hashes of graphs and inputs that are stable across processes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

import torch
from torch.fx import GraphModule, Node

from fullgraph.compiler.private import disable_torch_function, inner_tensors
from fullgraph.compiler.results import elements_of


def fingerprint(module: GraphModule, inputs: Sequence[object]) -> str:
    """Return a hash of a graph's calls, constants and inputs; node names do not change it."""
    places: dict[int, int] = {}
    text = [*_describe_nodes(module, places), *(describe_value(value, places) for value in inputs)]
    return hashlib.sha256("\n".join(text).encode()).hexdigest()


def describe_value(value: object, places: dict[int, int] | None = None) -> str:
    """Return a description of an input as text, equal only for equal inputs.

    For a tensor, it has the memory layout, autograd state and a hash of the elements. `places`
    numbers the storages described so far, so that tensors that share memory show the same number;
    None if there are none so far.
    """
    if not isinstance(value, torch.Tensor):
        return _describe_argument(value, {})
    with disable_torch_function(), torch.no_grad():
        parts = [
            *tensor_properties(value),
            *_describe_memory(value, {} if places is None else places),
        ]
        parts += [describe_value(inner, places) for _, inner in inner_tensors(value)]
        elements = value.detach() if _is_bytes(value) else elements_of(value)
        if elements is not None:
            parts.append(_hash_elements(elements))
        return " ".join(map(str, parts))


def tensor_properties(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return all properties of a tensor except its elements and its address."""
    strided = tensor.layout is torch.strided
    return (
        type(tensor).__name__,
        tensor.dtype,
        tuple(tensor.shape),
        tensor.layout,
        tensor.device,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.stride() if strided else None,
        (tensor.is_conj(), tensor.is_neg(), tensor._is_zerotensor()),
        _quantization(tensor) if tensor.is_quantized else None,
    )


def target_name(target: object) -> str:
    """Return the name of a call's target, the same in every process."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    if type(target).__module__ == "torch._ops" or name is None:
        return re.sub(r" at 0x[0-9a-f]+", "", str(target))
    return f"{getattr(target, '__module__', None)}.{name}"


def _describe_nodes(module: torch.nn.Module, places: dict[int, int]) -> list[str]:
    """Return one line of text for each node, with the content of the attributes that it uses.

    `places` numbers the storages described so far; those of the attributes are added.
    """
    assert isinstance(module, GraphModule)
    names = {node: f"%{index}" for index, node in enumerate(module.graph.nodes)}
    lines = []
    for node in module.graph.nodes:
        target = "" if node.op in ("placeholder", "output") else target_name(node.target)
        if node.op in ("get_attr", "call_module"):
            target = _describe_attribute(module, str(node.target), places)
        arguments = (
            f"{_describe_argument(node.args, names)} {_describe_argument(node.kwargs, names)}"
        )
        lines.append(f"{node.op} {target} {arguments if node.op != 'placeholder' else ''}")
    return lines


def _describe_attribute(module: torch.nn.Module, path: str, places: dict[int, int]) -> str:
    """Return the content of the module's attribute at `path` as text.

    `places` numbers the storages described so far; those of the attribute are added.
    """
    thing: object = module
    for name in path.split("."):
        thing = getattr(thing, name)
    if isinstance(thing, GraphModule):
        return "\n".join(["{", *_describe_nodes(thing, places), "}"])
    if isinstance(thing, torch.nn.Module):
        tensors = [*thing.named_parameters(), *thing.named_buffers()]
        state = [f"{name} {describe_value(tensor, places)}" for name, tensor in tensors]
        return "\n".join([repr(thing), *state])
    return describe_value(thing, places)


def _describe_argument(value: object, names: Mapping[Node, str]) -> str:
    """Return an argument as text; `names` has the text for each node, such as "%3"."""
    if isinstance(value, Node):
        return names[value]
    if isinstance(value, torch.Tensor):
        return describe_value(value)
    if isinstance(value, dict):
        inner = (f"{key!r}: {_describe_argument(item, names)}" for key, item in value.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(_describe_argument(item, names) for item in value)})"
    if isinstance(value, slice):
        ends = (_describe_argument(end, names) for end in (value.start, value.stop, value.step))
        return f"slice({', '.join(ends)})"
    if callable(value) and not isinstance(value, torch.dtype):
        return target_name(value)
    return f"{type(value).__name__} {re.sub(r' at 0x[0-9a-f]+', '', repr(value))}"


def _describe_memory(tensor: torch.Tensor, places: dict[int, int]) -> list[object]:
    """Return [number of the tensor's storage, storage offset]; [] if it has no storage.

    `places` has the numbers, by storage address. A new storage gets the next number; the number is
    None if the address is null.
    """
    if tensor.layout is not torch.strided or tensor._is_zerotensor() or not tensor.numel():
        return []
    try:
        start = tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor that is made of others
        return []
    return [places.setdefault(start, len(places)) if start else None, tensor.storage_offset()]


def _quantization(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return the scheme, scales and zero points of a quantized tensor, for comparison."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return tensor.qscheme(), tensor.q_scale(), tensor.q_zero_point()
    scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return tensor.qscheme(), tensor.q_per_channel_axis(), scales.tolist(), points.tolist()


def _is_bytes(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's elements can be hashed in place, without a copy."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type == "meta":
        return False
    lazy = tensor._is_zerotensor() or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized
    return tensor.layout is torch.strided and tensor.is_contiguous() and not lazy


def element_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's elements, in row-major order, as a uint8 tensor."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    plain = plain.as_strided((plain.numel(),), (1,))  # one element may have any stride
    return plain.view(torch.uint8) if plain.dtype != torch.bool else plain.to(torch.uint8)


def _hash_elements(elements: torch.Tensor) -> str:
    """Return a hash of a strided tensor's elements."""
    return hashlib.sha256(element_bytes(elements.cpu()).numpy().data).hexdigest()

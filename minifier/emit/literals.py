"""Shortest Python expressions that reproduce a tensor exactly."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fullgraph.minifier.emit.elements import (
    Form,
    dtype_argument,
    evaluate_text,
    same_bits,
    shape_arguments,
    shortest_form,
)
from fullgraph.minifier.emit.program_text import Unwritable

MAX_LIST_CHARS = 400
"""Default length in characters of a list of numbers, beyond which packed bytes may replace it."""

_ALIGNMENT = 64
"""Bytes to which torch aligns memory; kernels may differ for a tensor at another address."""

_COMPRESSED: dict[torch.layout, tuple[str, str, str]] = {
    torch.sparse_csr: ("csr", "crow_indices", "col_indices"),
    torch.sparse_csc: ("csc", "ccol_indices", "row_indices"),
    torch.sparse_bsr: ("bsr", "crow_indices", "col_indices"),
    torch.sparse_bsc: ("bsc", "ccol_indices", "row_indices"),
}
"""Of each compressed layout: the part of its names, and the methods of its two index tensors."""


def literal(tensor: torch.Tensor, *, max_list_chars: int = MAX_LIST_CHARS) -> str:
    """Return an expression that evaluates to exactly `tensor`, such as "torch.ones(3)".

    It uses torch; `imports` returns what else it needs. A list of numbers that has more than
    `max_list_chars` characters becomes packed bytes if those are shorter. Raises Unwritable for a
    tensor that no expression gives, such as one of a subclass.
    """
    return _checked_form(tensor, max_list_chars).text


def imports(text: str) -> tuple[str, ...]:
    """Return the import statements, besides `import torch`, that the literals in `text` need."""
    return tuple(f"import {name}" for name in ("base64", "zlib") if f"{name}." in text)


def is_same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors agree in values and in all metadata that a compiler reads."""
    if type(one) is not type(other) or _metadata(one) != _metadata(other):
        return False
    if one.device.type == "meta" or one._is_zerotensor():
        return True
    if one.layout is torch.strided and not one.is_quantized and not one.is_nested:
        return same_bits(one, other)
    return all(
        is_same_tensor(a, b)
        for a, b in zip(_component_tensors(one), _component_tensors(other), strict=True)
    )


def _metadata(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return all properties of a tensor, except its values, that a literal must reproduce."""
    strided = tensor.layout is torch.strided and not tensor.is_nested
    offset = tensor.storage_offset() * tensor.element_size() if strided and tensor.numel() else 0
    return (
        tensor.dtype,
        tensor.layout,
        tensor.device,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.is_conj(),
        tensor.is_neg(),
        tensor._is_zerotensor(),
        tensor.is_nested,
        tensor.is_nested or tuple(tensor.shape),
        tensor.stride() if strided else None,
        offset % _ALIGNMENT,
        _quantization(tensor) if tensor.is_quantized else None,
        tensor.is_coalesced() if tensor.layout is torch.sparse_coo else None,
    )


def _quantization(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return the scheme, scales and zero points of a quantized tensor, for comparison."""
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return tensor.qscheme(), tensor.q_scale(), tensor.q_zero_point()
    axis = tensor.q_per_channel_axis()
    scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return tensor.qscheme(), axis, tuple(scales.tolist()), tuple(points.tolist())


def _component_tensors(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the strided tensors of which a nested, quantized or sparse tensor consists."""
    plain = tensor.detach()
    if plain.is_nested:
        return tuple(part.clone() for part in plain.unbind())
    if plain.is_quantized:
        return (plain.int_repr(),)
    if plain.layout is torch.sparse_coo:
        return plain._indices(), plain._values()
    if plain.layout in _COMPRESSED:
        _, compressed, other = _COMPRESSED[plain.layout]
        return getattr(plain, compressed)(), getattr(plain, other)(), plain.values()
    return (plain.to_dense(),)


def _checked_form(tensor: torch.Tensor, max_list_chars: int) -> Form:
    """Return the first form that evaluates to exactly `tensor`; raise Unwritable if none does.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not tensor.is_nested:
        raise Unwritable(f"A {type(tensor).__name__} cannot be written as Python source.")
    for form in _forms_with_autograd(tensor, max_list_chars):
        again = evaluate_text(form.text)
        if again is not None and is_same_tensor(tensor, again):
            return form
    what = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout} on {tensor.device}"
    raise Unwritable(f"This tensor cannot be written as Python source: {what}.")


def _forms_with_autograd(tensor: torch.Tensor, max_list_chars: int) -> Iterator[Form]:
    """Yield forms of a tensor with its autograd state: leaf, Parameter, or non-leaf.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    for form in _forms_without_autograd(tensor.detach(), max_list_chars):
        if isinstance(tensor, torch.nn.Parameter):
            grad = "" if tensor.requires_grad else ", requires_grad=False"
            yield Form(f"torch.nn.Parameter({form.text}{grad}", factory=False)
        elif not tensor.requires_grad:
            yield form
        elif tensor.is_leaf:
            yield form.requiring_grad()
        else:
            yield form.requiring_grad().then(".clone()")
            yield form.requiring_grad().then(f".expand({shape_arguments(tensor.shape)})")


def _forms_without_autograd(tensor: torch.Tensor, max_list_chars: int) -> Iterator[Form]:
    """Yield forms of a tensor that requires no grad.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    shape, dtype = shape_arguments(tensor.shape), dtype_argument(tensor.dtype, torch.float32)
    if tensor._is_zerotensor():
        zeros = Form(f"torch._efficientzerotensor(({shape},){dtype}").on(tensor.device)
        yield zeros if tensor.dim() else Form(f"torch._efficientzerotensor((){dtype}")
    elif tensor.is_nested:
        yield _nested_form(tensor, max_list_chars)
    elif tensor.is_quantized:
        yield from _quantized_forms(tensor, max_list_chars)
    elif tensor.layout is torch.sparse_coo or tensor.layout in _COMPRESSED:
        yield from _sparse_forms(tensor, max_list_chars)
    elif tensor.layout is not torch.strided:
        yield shortest_form(tensor.to_dense().contiguous(), max_list_chars).then(".to_mkldnn()")
    elif tensor.device.type == "meta":
        yield Form(f"torch.empty({shape}{dtype}").on(tensor.device)
        stride = tuple(tensor.stride())
        yield Form(f"torch.empty_strided({tuple(tensor.shape)}, {stride}{dtype}").on(tensor.device)
    elif tensor.is_neg():
        for form in _forms_without_autograd(torch._neg_view(tensor), max_list_chars):
            yield Form(f"torch._neg_view({form.text}", factory=False)
    elif tensor.is_conj():
        yield from (
            form.then(".conj()") for form in _forms_without_autograd(tensor.conj(), max_list_chars)
        )
    else:
        yield from _strided_form(tensor, max_list_chars)


def _strided_form(tensor: torch.Tensor, max_list_chars: int) -> Iterator[Form]:
    """Yield forms of a strided tensor: its elements, then calls that give its memory layout.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    skipped = skipped_before(tensor)
    if not skipped:
        for base, text in _arrangements(tensor):
            form = _content_form(base, max_list_chars, tensor.device).then(text)
            if _has_same_strides(tensor, form.text):
                yield form
                break
    elif tensor.is_contiguous():
        flat = memory_of(tensor, skipped).contiguous()
        form = _content_form(flat, max_list_chars, tensor.device).then(f"[{skipped}:]")
        yield form if tensor.dim() == 1 else form.then(f".view({shape_arguments(shape)})")
    if not skipped and _is_dense(tensor):
        content = _content_form(tensor.contiguous(), max_list_chars, torch.device("cpu"))
        rest = dtype_argument(tensor.dtype, torch.float32)
        made = Form(f"torch.empty_strided({shape}, {stride}{rest}").on(tensor.device)
        yield made.then(f".copy_({content.text})")
    start = f", {skipped}" if skipped else ""
    region = _content_form(memory_of(tensor, skipped).contiguous(), max_list_chars, tensor.device)
    yield region.then(f".as_strided({shape}, {stride}{start})")


def _content_form(content: torch.Tensor, max_list_chars: int, device: torch.device) -> Form:
    """Return the shortest form of a tensor on `device` with the elements of `content`.

    `content` is contiguous. A list of more than `max_list_chars` characters becomes packed bytes if
    those are shorter.
    """
    return shortest_form(content.cpu(), max_list_chars).on(device)


def skipped_before(tensor: torch.Tensor) -> int:
    """Return how many elements of new memory to skip so that a copy is aligned like `tensor`."""
    if not tensor.numel():
        return 0
    width = tensor.element_size()
    offset = tensor.storage_offset() * width % _ALIGNMENT
    return int(offset // width if offset % width == 0 else tensor.storage_offset())


def memory_of(tensor: torch.Tensor, skipped: int) -> torch.Tensor:
    """Return a 1-d view of the memory of `tensor` and of the `skipped` elements before that."""
    if not tensor.numel():
        return tensor.new_empty(0)
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.as_strided((skipped + reach,), (1,), tensor.storage_offset() - skipped)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether no two elements of a tensor share memory; there may be gaps."""
    reach = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length > 1 and stride < reach:
            return False
        reach = max(reach, stride * (length - 1) + reach)
    return True


def _arrangements(tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, str]]:
    """Yield (contiguous tensor, method calls): applied to it, the calls may give `tensor`.

    For example (y, ".t()") if `tensor` may be `y.t()`. The calls are "" if `tensor` is contiguous.
    """
    shape, stride = tuple(tensor.shape), tensor.stride()
    if tensor.is_contiguous():
        yield tensor, ""
    for name, format in (
        ("channels_last", torch.channels_last),
        ("channels_last_3d", torch.channels_last_3d),
    ):
        if tensor.dim() == 4 + name.endswith("3d") and tensor.is_contiguous(memory_format=format):
            yield tensor.contiguous(), f".to(memory_format=torch.{name})"
    spread = [axis for axis, step in enumerate(stride) if step == 0 and shape[axis] > 1]
    if spread:
        base = tensor
        for axis in spread:
            base = base.narrow(axis, 0, 1)
        if base.is_contiguous():
            lead = next((i for i, n in enumerate(base.shape) if n != 1), max(spread) + 1)
            base = base.reshape(base.shape[min(lead, max(spread) + 1) :])
            yield base.contiguous(), f".expand({shape_arguments(shape)})"
    order = sorted(range(tensor.dim()), key=lambda axis: (-stride[axis], axis))
    base = tensor.permute(order)
    if base.is_contiguous() and tensor.dim() > 1:
        back = [order.index(axis) for axis in range(tensor.dim())]
        yield base, _permutation_call(back)


def _permutation_call(order: list[int]) -> str:
    """Return the method call that permutes dimensions into `order`: ".t()", ".transpose(0, 2)"."""
    moved = [axis for axis, place in enumerate(order) if axis != place]
    if len(order) == 2:
        return ".t()"
    if len(moved) == 2:
        return f".transpose({moved[0]}, {moved[1]})"
    return f".permute({', '.join(map(str, order))})"


def _has_same_strides(tensor: torch.Tensor, text: str) -> bool:
    """Return whether the expression `text` gives a tensor with `tensor`'s shape and strides."""
    again = evaluate_text(text)
    return again is not None and again.shape == tensor.shape and again.stride() == tensor.stride()


def _nested_form(tensor: torch.Tensor, max_list_chars: int) -> Form:
    """Return a nested tensor as `torch.nested.nested_tensor([…])`, a list of its components.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    parts = ", ".join(
        literal(part, max_list_chars=max_list_chars) for part in _component_tensors(tensor)
    )
    layout = ", layout=torch.jagged" if tensor.layout is torch.jagged else ""
    return Form(f"torch.nested.nested_tensor([{parts}]{layout}").on(tensor.device)


def _quantized_forms(tensor: torch.Tensor, max_list_chars: int) -> Iterator[Form]:
    """Yield forms that quantize the dequantized elements of a tensor.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    content = shortest_form(tensor.dequantize().contiguous(), max_list_chars).text
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        how = f"{tensor.q_scale()!r}, {tensor.q_zero_point()}"
        name = "quantize_per_tensor"
    else:
        scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        how = f"{literal(scales)}, {literal(points)}, {tensor.q_per_channel_axis()}"
        name = "quantize_per_channel"
    form = Form(f"torch.{name}({content}, {how}, {tensor.dtype}", factory=False)
    yield form
    if tensor.dim() == 4:
        yield form.then(".contiguous(memory_format=torch.channels_last)")
    if tensor.dim() > 1:
        yield form.then(f".as_strided({tuple(tensor.shape)}, {tuple(tensor.stride())})")


def _sparse_forms(tensor: torch.Tensor, max_list_chars: int) -> Iterator[Form]:
    """Yield forms of a sparse tensor: converted from dense, or built from its components.

    A list of more than `max_list_chars` characters becomes packed bytes if those are shorter.
    """
    parts = _component_tensors(tensor)
    coo = tensor.layout is torch.sparse_coo
    dense = shortest_form(tensor.to_dense().cpu().contiguous(), max_list_chars).on(tensor.device)
    if coo:
        yield dense.then(".to_sparse()")
    elif tensor.dim() == 2 and tensor.layout in (torch.sparse_csr, torch.sparse_csc):
        yield dense.then(f".to_sparse_{_COMPRESSED[tensor.layout][0]}()")
    name = "coo" if coo else _COMPRESSED[tensor.layout][0]
    content = ", ".join(literal(part, max_list_chars=max_list_chars) for part in parts)
    made = Form(f"torch.sparse_{name}_tensor({content}, {tuple(tensor.shape)}", factory=False)
    yield made
    if coo:
        yield Form(made.head + ", is_coalesced=True", factory=False)

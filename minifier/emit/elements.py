"""Shortest Python expressions for the elements of plain tensors."""

from __future__ import annotations

import base64
import contextlib
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from fullgraph.minifier.emit.numbers import plain_number, spell_numbers
from fullgraph.minifier.graphs import element_bytes

_SEEDS = (0, 1, 42)
_MOST_LISTED = 4096
"""Maximum number of elements of a tensor that is written as a list."""
_SOME = 64
"""Number of elements from which the length of the whole list is estimated."""
_MOST_PATCHED = 4
"""Maximum number of elements that are assigned separately after a regular tensor is made."""
_LINE = 88
_FILLS = ("0", "0.0", "1", "1.0", "False", "True")
"""Values for which torch.zeros or torch.ones is used instead of torch.full."""


@dataclass(frozen=True)
class Form:
    """Source expression for a tensor, such as `torch.ones(3)`, to which keywords can be added."""

    head: str
    """The factory call, up to its closing parenthesis."""
    tail: str = ")"
    """The closing parenthesis and what follows it."""
    factory: bool = True
    """Whether the factory call accepts `device` and `requires_grad`."""

    @property
    def text(self) -> str:
        """The source of the expression."""
        return self.head + self.tail

    def then(self, text: str) -> Form:
        """Return the form followed by `text`, a method call or a subscript."""
        return replace(self, tail=self.tail + text)

    def on(self, device: torch.device) -> Form:
        """Return the form with its tensor on `device`."""
        if device.type == "cpu":
            return self
        name = str(device) if device.index else device.type
        if self.factory:
            return replace(self, head=f'{self.head}, device="{name}"')
        return self.then(f'.to("{name}")')

    def requiring_grad(self) -> Form:
        """Return the form of the same tensor with `requires_grad=True`."""
        if self.factory and self.tail == ")":
            return replace(self, head=f"{self.head}, requires_grad=True")
        return self.then(".requires_grad_()")


def shortest_form(tensor: torch.Tensor, max_list_chars: int) -> Form:
    """Return the shortest form of `tensor`, such as `torch.ones(3)`.

    `tensor` is contiguous, strided, on CPU and without autograd history. A list of more than
    `max_list_chars` characters is used only if it is shorter than the packed bytes.
    """
    if not tensor.dim():
        for form in _listed_forms(tensor, max_list_chars):
            if _reproduces(form, tensor):
                return form
    found = [form for form in _regular_forms(tensor) if _reproduces(form, tensor)]
    if not found:
        found = list(_patched_form(tensor))
    if tensor.numel() <= _MOST_LISTED:
        found += [
            form for form in _listed_forms(tensor, max_list_chars) if _reproduces(form, tensor)
        ]
    if not found:
        found = [pack_bytes(tensor)]
        if tensor.numel() <= _MOST_LISTED:
            found += [
                f for f in _listed_forms(tensor, len(found[0].text)) if _reproduces(f, tensor)
            ]
    return min(found, key=lambda form: len(form.text))


def _reproduces(form: Form, tensor: torch.Tensor) -> bool:
    """Return whether a form evaluates to a tensor with exactly the bits of `tensor`."""
    return same_bits(tensor, evaluate_text(form.text))


def same_bits(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Return whether two contiguous tensors have the same dtype, shape and bits; False for None."""
    return (
        other is not None
        and one.dtype == other.dtype
        and one.shape == other.shape
        and torch.equal(element_bytes(one), element_bytes(other))
    )


def evaluate_text(text: str) -> torch.Tensor | None:
    """Return the tensor that an expression evaluates to; None if it raises or is no tensor.

    The expression can use `torch`, `base64` and `zlib`, and runs in torch's default modes.
    """
    names = {"torch": torch, "base64": base64, "zlib": zlib}
    default = torch.get_default_dtype()
    try:
        if default != torch.float32:
            torch.set_default_dtype(torch.float32)
        with torch.device("cpu"), torch.inference_mode(False), torch.enable_grad():
            value = eval(text, names)
    except Exception:  # a form that this dtype or shape has not
        return None
    finally:
        if default != torch.float32:
            torch.set_default_dtype(default)
    return value if isinstance(value, torch.Tensor) else None


def shape_arguments(shape: tuple[int, ...] | torch.Size) -> str:
    """Return a shape as source of arguments: "2, 3" for `torch.zeros(2, 3)`, "()" for a scalar."""
    return ", ".join(map(str, shape)) if shape else "()"


def dtype_argument(dtype: torch.dtype, implied: torch.dtype) -> str:
    """Return ", dtype=…"; "" if `dtype` is `implied`, the one that the call has by default."""
    return "" if dtype == implied else f", dtype={dtype}"


# --- regular tensors ---


def _regular_forms(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield regular forms, such as `arange(6)`, that may equal `tensor` in all or most elements."""
    if not tensor.numel():
        yield _factory_call("zeros", tensor)
        return
    yield from _constant_forms(tensor)
    yield from _identity_forms(tensor)
    yield from _evenly_spaced_form(tensor)
    yield from _repeated_form(tensor)
    yield from _random_form(tensor)


def _factory_call(name: str, tensor: torch.Tensor) -> Form:
    """Return `torch.ones(2, 3)` for "ones": the call with the shape and dtype of `tensor`."""
    return Form(
        f"torch.{name}({shape_arguments(tensor.shape)}{dtype_argument(tensor.dtype, torch.float32)}"
    )


def _constant_forms(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield `zeros`, `ones` and `full` calls that may equal `tensor`."""
    yield _factory_call("zeros", tensor)
    yield _factory_call("ones", tensor)
    flat = tensor.reshape(-1)
    with contextlib.suppress(Exception):  # a dtype without numbers
        for number in dict.fromkeys(spell_numbers(flat[:: max(1, len(flat) // 2)][:2])):
            if tensor.dim() and number not in _FILLS:
                rest = dtype_argument(tensor.dtype, _implied_dtype(tensor.dtype))
                yield Form(f"torch.full({tuple(tensor.shape)}, {number}{rest}")


def _identity_forms(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield `torch.eye(…)` with the shape of `tensor`; nothing if `tensor` is no matrix."""
    if tensor.dim() == 2 and tensor.numel() > 1:
        rows, columns = tensor.shape
        shape = str(rows) if rows == columns else f"{rows}, {columns}"
        yield Form(f"torch.eye({shape}{dtype_argument(tensor.dtype, torch.float32)}")


def _evenly_spaced_form(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield `arange` and `linspace` calls from the first to the last element of `tensor`."""
    n = tensor.numel()
    if n < 3 or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        return
    flat = tensor.reshape(-1)
    try:
        first, second, last = (flat[i].item() for i in (0, 1, n - 1))
        before = flat[n - 2].item()
    except Exception:  # a dtype without numbers
        return
    shaped = "" if tensor.dim() == 1 else f".reshape({shape_arguments(tensor.shape)})"
    steps = dict.fromkeys((second - first, last - before, (last - first) / (n - 1)))
    for step in steps:
        if not (math.isfinite(step) and step):
            continue
        for start in dict.fromkeys((first, last - step * (n - 1))):
            if math.isfinite(start):
                yield from (
                    form.then(shaped) for form in _range_forms(tensor.dtype, start, step, n)
                )
    if tensor.dtype.is_floating_point and math.isfinite(first) and math.isfinite(last):
        ends = ", ".join(plain_number(value, tensor.dtype) for value in (first, last))
        yield Form(f"torch.linspace({ends}, {n}{dtype_argument(tensor.dtype, torch.float32)}").then(
            shaped
        )


def _range_forms(dtype: torch.dtype, start: float, step: float, n: int) -> Iterator[Form]:
    """Yield `arange` calls that give `n` numbers from `start` in steps of `step`."""
    whole = all(float(value).is_integer() for value in (start, step))
    if not whole and not dtype.is_floating_point:
        return
    if not whole:
        end = start + step * (n - 0.5)
        texts = [plain_number(value, dtype) for value in (start, start + step * n, step)]
        yield Form(f"torch.arange({', '.join(texts)}{dtype_argument(dtype, torch.float32)}")
        texts[1] = f"{end:.9g}"
        yield Form(f"torch.arange({', '.join(texts)}{dtype_argument(dtype, torch.float32)}")
        return
    begin, pace = int(start), int(step)
    end = begin + pace * n
    if pace != 1:
        texts = [str(begin), str(end), str(pace)]
    else:
        texts = [str(begin), str(end)] if begin else [str(end)]
    if dtype == torch.float32:
        texts[0] += ".0"
        yield Form(f"torch.arange({', '.join(texts)}")
    else:
        yield Form(f"torch.arange({', '.join(texts)}{dtype_argument(dtype, torch.int64)}")


def _repeated_form(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield a form such as `torch.arange(3).repeat(4)`; nothing if `tensor` is not periodic."""
    along = [
        axis for axis, length in enumerate(tensor.shape) if length > 1 and _same_along(tensor, axis)
    ]
    if along and len(along) < tensor.dim():
        inner = tensor
        for axis in along:
            inner = inner.narrow(axis, 0, 1)
        times = [length if axis in along else 1 for axis, length in enumerate(tensor.shape)]
        lead = next((i for i, length in enumerate(inner.shape) if length != 1), inner.dim() - 1)
        inner = inner.reshape(inner.shape[lead:]).contiguous()
        yield shortest_form(inner, _LINE).then(f".repeat({shape_arguments(tuple(times))})")
    n = tensor.numel()
    flat = tensor.reshape(-1)
    for period in range(2, 9):
        if n > 2 * period and n % period == 0 and not along:
            inner = flat[:period].contiguous()
            if same_bits(flat, inner.repeat(n // period)):
                shaped = "" if tensor.dim() == 1 else f".reshape({shape_arguments(tensor.shape)})"
                yield shortest_form(inner, _LINE).then(f".repeat({n // period}){shaped}")
                return


def _same_along(tensor: torch.Tensor, axis: int) -> bool:
    """Return whether all slices along the dimension `axis` are equal, bit for bit."""
    if not tensor.numel():
        return False
    first = tensor.narrow(axis, 0, 1).expand(tensor.shape)
    return torch.equal(element_bytes(first), element_bytes(tensor))


def _random_form(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield `randn` and `rand` calls with likely seeds, one of which may equal `tensor`."""
    if not tensor.dtype.is_floating_point or tensor.numel() < 3:
        return
    rest = dtype_argument(tensor.dtype, torch.float32)
    for seed in _SEEDS:
        source = f", generator=torch.Generator().manual_seed({seed})"
        for name in ("randn", "rand"):
            yield Form(f"torch.{name}({shape_arguments(tensor.shape)}{source}{rest}", factory=False)


# --- all but a few elements regular ---


def _patched_form(tensor: torch.Tensor) -> Iterator[Form]:
    """Yield forms like `torch.ones(9).index_fill(0, torch.tensor(3), 7)` that equal `tensor`."""
    for form, at in _nearly_regular_forms(tensor):
        flat = tensor.reshape(-1)
        values = flat[at]
        if not same_bits(values, values[:1].expand(len(at)).contiguous()):
            continue
        places = str(at.tolist() if len(at) > 1 else at.item())
        filled = f".index_fill(0, torch.tensor({places}), {spell_numbers(values)[0]})"
        if tensor.dim() == 1:
            yield form.then(filled)
        else:
            yield form.then(f".flatten(){filled}.reshape({shape_arguments(tensor.shape)})")


def find_patches(name: str, tensor: torch.Tensor) -> tuple[Form, list[str]] | None:
    """Return a form such as `torch.ones(9)`, and statements that change its value to `tensor`.

    Each statement assigns one element of the variable `name`: "x[3] = 7". None if a regular form
    equals `tensor` already, or if none is nearly equal.
    """
    if any(_reproduces(form, tensor) for form in _regular_forms(tensor)):
        return None
    for form, at in _nearly_regular_forms(tensor):
        lines = []
        for place in at.tolist():
            index = []
            for length in reversed(tensor.shape):
                index.append(str(place % length))
                place //= length
            number = spell_numbers(tensor[tuple(map(int, reversed(index)))].reshape(1))[0]
            lines.append(f"{name}[{', '.join(reversed(index))}] = {number}")
        return form, lines
    return None


def _nearly_regular_forms(tensor: torch.Tensor) -> Iterator[tuple[Form, torch.Tensor]]:
    """Yield (regular form, flat indices of the few elements in which it differs from `tensor`)."""
    width = tensor.element_size()
    if tensor.numel() <= 2 * _MOST_PATCHED:
        return
    for form in _regular_forms(tensor):
        near = evaluate_text(form.text)
        if near is None or near.shape != tensor.shape or near.dtype != tensor.dtype:
            continue
        differs = (element_bytes(near) != element_bytes(tensor)).reshape(-1, width).any(1)
        at = differs.nonzero().reshape(-1)
        if 0 < len(at) <= _MOST_PATCHED:
            yield form, at


# --- lists and bytes ---


def _listed_forms(tensor: torch.Tensor, limit: int) -> Iterator[Form]:
    """Yield `torch.tensor([…])` with every element, if the list has at most `limit` characters."""
    flat = tensor.reshape(-1)
    try:
        some = spell_numbers(flat[:: 1 + len(flat) // _SOME])
        if sum(map(len, some)) * len(flat) > 2 * limit * len(some):
            return  # to spell all would take long
        texts = spell_numbers(flat)
    except Exception:  # a dtype without numbers
        return
    rest = dtype_argument(tensor.dtype, _implied_dtype(tensor.dtype))
    if not tensor.dim():
        yield Form(f"torch.tensor({texts[0]}{rest}")
        return
    nested = _nested_list(texts, tuple(tensor.shape))
    if len(nested) <= limit:
        yield Form(f"torch.tensor({nested}{rest}")


def _nested_list(texts: list[str], shape: tuple[int, ...]) -> str:
    """Return nested lists as source: "[[1, 2], [3, 4]]" for four texts and the shape (2, 2)."""
    if not shape:
        return texts[0]
    if not shape[0]:
        return "[]"
    step = len(texts) // shape[0]
    rows = [_nested_list(texts[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"


def pack_bytes(tensor: torch.Tensor) -> Form:
    """Return a form that decodes the tensor's bytes from base64, compressed if that is shorter."""
    raw = (
        element_bytes(tensor).numpy().tobytes()
        if _has_numpy()
        else bytes(element_bytes(tensor).tolist())
    )
    plain = f'base64.b64decode("{base64.b64encode(raw).decode()}")'
    small = (
        f'zlib.decompress(base64.b64decode("{base64.b64encode(zlib.compress(raw, 9)).decode()}"))'
    )
    content = f"bytearray({min(plain, small, key=len)})"
    shaped = f".reshape({shape_arguments(tensor.shape)})" if tensor.dim() != 1 else ""
    given = Form(f"torch.frombuffer({content}, dtype={tensor.dtype}", f"){shaped}", factory=False)
    if same_bits(tensor, evaluate_text(given.text)):
        return given
    return Form(
        f"torch.frombuffer({content}, dtype=torch.uint8",
        f").view({tensor.dtype}){shaped}",
        factory=False,
    )


def _has_numpy() -> bool:
    """Return whether this torch was built with NumPy."""
    try:
        torch.empty(0).numpy()
    except RuntimeError:
        return False
    return True


def _implied_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that `torch.tensor` infers for a list of elements of a `dtype` tensor."""
    if dtype.is_complex:
        return torch.complex64
    if dtype.is_floating_point:
        return torch.float32
    return torch.bool if dtype == torch.bool else torch.int64

"""State parts of tensors: the metadata of a tensor, and the bytes of its storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fullgraph.compiler.isolation.state_parts import StatePart
from fullgraph.compiler.private import disable_torch_function, inner_tensors, set_tensor_version


class StoragePart(StatePart[torch.Tensor]):
    """Bytes of a tensor's storage."""

    kind = "memory"

    def read(self) -> torch.Tensor:
        """Return a copy of the bytes; on the CPU if the device has no memory left."""
        view = self._as_bytes()
        try:
            return view.clone()
        except torch.OutOfMemoryError:
            return view.cpu()

    def write(self, state: torch.Tensor) -> None:
        """Resize the storage to the length of `state`, and copy its bytes back."""
        if self.target.nbytes() != state.numel():
            self.target.resize_(state.numel())
        self._as_bytes().copy_(state)

    def _as_bytes(self) -> torch.Tensor:
        """Return the storage as a tensor of bytes."""
        # a separate tensor, so that writing does not bump the version of the user's tensors
        with torch.inference_mode(False):
            bytes_ = torch.empty(0, dtype=torch.uint8, device=self.target.device)
            return bytes_.set_(self.target)

    def changed(self, state: torch.Tensor) -> bool:
        """Return whether the storage's bytes now differ from `state`, without copying them."""
        return not torch.equal(state, self._as_bytes().to(state.device))

    def digest_content(self, state: torch.Tensor) -> bytes:
        """Return the bytes."""
        return state.cpu().numpy().tobytes()


@dataclass(frozen=True)
class TensorMetadata:
    """Everything about a tensor except its values."""

    alias: torch.Tensor | None
    """A detached tensor with the same storage, offset, sizes, strides, dtype and device.

    None for a wrapper subclass."""
    version: int | None
    requires_grad: bool
    history: object
    """`grad_fn`."""
    grad: torch.Tensor | None
    hooks: Any


class TensorPart(StatePart[TensorMetadata]):
    """Metadata of a tensor: shape, strides and position in memory, and its autograd state."""

    kind = "place"

    def read(self) -> TensorMetadata:
        """Return the metadata without calling the tensor's `__torch_function__`."""
        tensor = self.target
        with disable_torch_function():
            has_grad = tensor.is_leaf or tensor.retains_grad  # else reading it warns
            return TensorMetadata(
                alias=tensor.detach() if _has_memory(tensor) else None,
                version=None if tensor.is_inference() else tensor._version,
                requires_grad=tensor.requires_grad,
                history=tensor.grad_fn,
                grad=tensor.grad if has_grad else None,
                hooks=tensor._backward_hooks,
            )

    def write(self, state: TensorMetadata) -> None:
        """Restore the metadata without recording the change in autograd."""
        with disable_torch_function(), torch.no_grad():
            self._restore(self.target, state)

    def _restore(self, tensor: torch.Tensor, state: TensorMetadata) -> None:
        """Restore each piece of metadata that differs; raise RuntimeError for lost history."""
        if state.alias is not None and not _same_place(tensor, state.alias):
            tensor.data = state.alias
        if tensor.grad_fn is not state.history:
            if state.history is not None:
                raise RuntimeError("its autograd history was rewritten by an in-place change")
            if tensor._is_view():
                raise RuntimeError("a view cannot lose the autograd history of its base")
            tensor.detach_()
        if tensor.is_leaf and tensor.requires_grad != state.requires_grad:
            tensor.requires_grad_(state.requires_grad)
        if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not state.grad:
            tensor.grad = state.grad
        if tensor._backward_hooks is not state.hooks:
            tensor._backward_hooks = state.hooks
        if state.version is not None and tensor._version != state.version:
            set_tensor_version(tensor, state.version)

    def equal_states(self, one: TensorMetadata, other: TensorMetadata) -> bool:
        """Return whether two states are equal; history, gradient and hooks must be identical."""
        aliases = one.alias is None or (
            other.alias is not None and _same_place(one.alias, other.alias)
        )
        return (
            aliases
            and (one.version, one.requires_grad) == (other.version, other.requires_grad)
            and one.history is other.history
            and one.grad is other.grad
            and one.hooks is other.hooks
        )

    def children(self, state: TensorMetadata) -> Iterable[tuple[str, object]]:
        """Yield component tensors, the storage, the gradient and the hooks."""
        inner = inner_tensors(self.target)
        yield from ((f".{name}", tensor) for name, tensor in inner)
        alias = state.alias
        if alias is not None and _has_storage(alias):
            yield "", alias.untyped_storage()
        yield ".grad", state.grad
        yield "'s hooks", state.hooks

    def digest_content(self, state: TensorMetadata) -> bytes:
        """Return type, version, autograd state and place in memory, as text."""
        content: list[object] = [type(self.target), state.version, state.requires_grad]
        content += [type(state.history), id(state.history) if state.history else None]
        if state.alias is not None:
            content += _place_in_memory(state.alias)
        return repr(content).encode()


def _has_memory(tensor: torch.Tensor) -> bool:
    """Return whether `tensor` has values of its own, unlike a wrapper subclass."""
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def _has_storage(tensor: torch.Tensor) -> bool:
    """Return whether the elements are in strided memory.

    False on the meta device, for other layouts and for ZeroTensors.
    """
    strided = tensor.layout is torch.strided and tensor.device.type != "meta"
    return strided and not tensor._is_zerotensor()


def _same_place(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors cover the same memory with the same dtype and layout."""
    if one.layout is torch.strided and one.untyped_storage() is not other.untyped_storage():
        return False
    return _place_in_memory(one) == _place_in_memory(other)


def _place_in_memory(tensor: torch.Tensor) -> list[object]:
    """Return dtype, device, shape and layout; for a strided tensor, also strides and offset."""
    place: list[object] = [tensor.dtype, tensor.device, tuple(tensor.shape), tensor.layout]
    if tensor.layout is torch.strided:
        place += [tensor.stride(), tensor.storage_offset()]
    return place

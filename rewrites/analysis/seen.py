"""What an expression was, each time it was evaluated."""

from __future__ import annotations

from dataclasses import dataclass

Plain = int | float | bool | str | None


@dataclass(frozen=True)
class TensorSeen:
    """What one tensor was, its elements left out."""

    dtype: str
    """As torch prints it, without "torch.": "float32"."""
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    is_leaf: bool
    layout: str = "strided"
    kind: str = "Tensor"
    """The class: "Tensor", "Parameter", a subclass's name."""

    @property
    def is_bool(self) -> bool:
        return self.dtype == "bool"

    @property
    def is_float(self) -> bool:
        return self.dtype in ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Seen:
    """Everything known of one expression. Of several values, the distinct ones in order."""

    types: tuple[str, ...]
    """Qualified class names: "torch.Tensor", "int", "torch.Size", "numpy.ndarray"."""
    count: int = 1
    """How often it was evaluated."""
    tensors: tuple[TensorSeen, ...] = ()
    values: tuple[Plain, ...] = ()
    """Numbers, strings, None and booleans it was; at most sixteen."""
    names: tuple[str, ...] = ()
    """For functions, classes and modules: what they are called, "random.Random.random"."""
    items: tuple[str, ...] = ()
    """For a tuple, list or torch.Size: the class names of its elements."""

    @property
    def is_tensor(self) -> bool:
        """Whether it was a tensor every time."""
        return bool(self.tensors) and all("Tensor" in t or "Parameter" in t for t in self.types)

    @property
    def is_number(self) -> bool:
        """Whether it was a Python int, float or bool every time."""
        return bool(self.types) and set(self.types) <= {"int", "float", "bool"}

    @property
    def is_ndarray(self) -> bool:
        """Whether it was a NumPy array or scalar every time."""
        return bool(self.types) and all(name.startswith("numpy.") for name in self.types)

    @property
    def requires_grad(self) -> bool:
        """Whether a tensor that it was asks for gradients."""
        return any(tensor.requires_grad for tensor in self.tensors)

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset(tensor.dtype for tensor in self.tensors)

    @property
    def shapes(self) -> frozenset[tuple[int, ...]]:
        return frozenset(tensor.shape for tensor in self.tensors)

    @property
    def dims(self) -> frozenset[int]:
        """The numbers of dimensions it had."""
        return frozenset(len(tensor.shape) for tensor in self.tensors)

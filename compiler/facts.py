"""Facts about the values of expressions, as plain data that needs no torch.

A fact is recorded in a run (`compiler.observe`), or a source of facts evaluates an `Expression`.
"""

from __future__ import annotations

from dataclasses import dataclass

Plain = int | float | bool | str | None


@dataclass(frozen=True)
class TensorSummary:
    """Metadata of a tensor or of a NumPy array, without its elements."""

    dtype: str
    """Name of the dtype without "torch.": "float32"."""
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    is_leaf: bool
    layout: str = "strided"
    kind: str = "Tensor"
    """Name of the class: "Tensor", "Parameter", a subclass, "ndarray"."""

    @property
    def is_bool(self) -> bool:
        return self.dtype == "bool"

    @property
    def is_float(self) -> bool:
        return self.dtype in ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class ValueSummary:
    """The distinct values that one expression had, in order."""

    types: tuple[str, ...]
    """Qualified class names: "torch.Tensor", "int", "torch.Size", "numpy.ndarray"."""
    count: int = 1
    """Number of evaluations."""
    tensors: tuple[TensorSummary, ...] = ()
    values: tuple[Plain, ...] = ()
    """Numbers, strings, None and booleans; 0.0 and -0.0 are two values."""
    names: tuple[str, ...] = ()
    """Qualified names of functions, classes and modules: "random.Random.random"."""
    items: tuple[str, ...] = ()
    """Class names of the elements of a tuple, list or torch.Size, or of the values of a dict."""
    arrays: tuple[TensorSummary, ...] = ()
    """NumPy arrays and scalars."""

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
        """Whether any of the tensors requires a gradient."""
        return any(tensor.requires_grad for tensor in self.tensors)

    @property
    def dtypes(self) -> frozenset[str]:
        return frozenset(tensor.dtype for tensor in self.tensors)

    @property
    def shapes(self) -> frozenset[tuple[int, ...]]:
        return frozenset(tensor.shape for tensor in self.tensors)

    @property
    def dims(self) -> frozenset[int]:
        """Numbers of dimensions of the tensors."""
        return frozenset(len(tensor.shape) for tensor in self.tensors)


@dataclass(frozen=True)
class Constant:
    """A dtype or number of torch, by its qualified name: "torch.float32", "torch.pi"."""

    name: str


@dataclass(frozen=True)
class Expression:
    """An operator applied to facts, literals, constants and other expressions."""

    operator: str
    """"operator.add", "getattr", "list", "torch.relu", or "torch.Tensor.sum" for a method."""
    operands: tuple[Term, ...]
    keywords: tuple[tuple[str, Term], ...] = ()


Term = ValueSummary | Plain | Constant | Expression
"""Something that a source of facts can evaluate."""

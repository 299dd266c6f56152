"""Facts about the values of expressions, such as dtypes and shapes; they do not import torch.

A run records facts (`compiler.observe`). Facts of an `Expression` are computed from recorded ones.
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
    """The distinct values that one expression had in a run, in order: types, metadata, literals."""

    types: tuple[str, ...]
    """Qualified class names: "torch.Tensor", "int", "torch.Size", "numpy.ndarray"."""
    count: int = 1
    """Number of times that the expression was evaluated."""
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
        """Whether every value was a tensor."""
        return bool(self.tensors) and all("Tensor" in t or "Parameter" in t for t in self.types)

    @property
    def is_number(self) -> bool:
        """Whether every value was a Python int, float or bool."""
        return bool(self.types) and set(self.types) <= {"int", "float", "bool"}

    @property
    def is_ndarray(self) -> bool:
        """Whether every value was a NumPy array or scalar."""
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
        """The tensors' numbers of dimensions (`Tensor.dim()`)."""
        return frozenset(len(tensor.shape) for tensor in self.tensors)


@dataclass(frozen=True)
class Constant:
    """A dtype or number of torch, by its qualified name: "torch.float32", "torch.pi"."""

    name: str


@dataclass(frozen=True)
class Expression:
    """An operation whose operands are recorded facts, constants or other expressions.

    `Expression("torch.relu", (x,))` is `torch.relu` of the tensor whose facts are `x`.
    """

    operator: str
    """"operator.add", "torch.relu", "torch.Tensor.sum" for a method, or "getattr", "list", "slice".

    Also "tuple", and "ellipsis", which has no operands.
    """
    operands: tuple[Term, ...]
    keywords: tuple[tuple[str, Term], ...] = ()


Term = ValueSummary | Plain | Constant | Expression
"""Operand of an `Expression`, or an expression itself."""

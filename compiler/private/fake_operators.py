"""Operators that a captured graph calls, found by running it on fake tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes


class OperatorListener(Protocol):
    """Receiver of the inputs, operators and outputs of a graph, in the order of execution."""

    def on_inputs(self, inputs: Sequence[torch.Tensor]) -> None:
        """Receive the graph's inputs, before any operator."""

    def needs_decomposition(self, operator: torch._ops.OpOverload) -> bool:
        """Return whether to run the operator's decomposition instead, if it has one."""

    def on_operator(
        self,
        operator: torch._ops.OpOverload | str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        result: object,
    ) -> None:
        """Receive one call; `operator` is a name if it cannot run on fake tensors."""

    def on_outputs(self, outputs: Sequence[torch.Tensor]) -> None:
        """Receive the graph's outputs, after all operators."""


def run_on_fake_tensors(module: torch.fx.GraphModule, listener: OperatorListener) -> None:
    """Run a graph on fake tensors with its example sizes; report each operator to `listener`.

    The fake tensors are new and have the hints of symbolic sizes, so the run adds no guard to the
    graph's shape environment. Random streams, gradients and autocast stay as they are.
    """
    with _disable_current_modes(), torch.no_grad(), _unchanged_autocast():
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        runner = _FakeRun(module, mode, listener)
        values = [
            runner.copy(example_of(node)) for node in module.graph.nodes if node.op == "placeholder"
        ]
        listener.on_inputs([value for value in values if isinstance(value, torch.Tensor)])
        with mode, _Recorder(listener):
            result = runner.run(*values, enable_io_processing=False)
        listener.on_outputs(tensors_in(result))


def example_of(node: torch.fx.Node) -> object:
    """Return the example value of a node, from Dynamo or AOTAutograd; None if it has none."""
    value = node.meta.get("example_value")
    return node.meta.get("val") if value is None else value


def tensors_in(value: object) -> list[torch.Tensor]:
    """Return the tensors inside nested containers, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def storage_id(tensor: torch.Tensor) -> int:
    """Return a number that is equal for live tensors if they share memory, and only then."""
    return tensor.untyped_storage()._cdata


class _FakeRun(torch.fx.Interpreter):
    """Interpreter on fake tensors; if a node fails, it reports it and uses its example value."""

    def __init__(
        self, module: torch.fx.GraphModule, mode: FakeTensorMode, listener: OperatorListener
    ) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._mode, self._listener = mode, listener

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node; if it fails on fake tensors, return a copy of its example value."""
        if not n.op.startswith("call_"):
            return super().run_node(n)
        if not isinstance(n.target, HigherOrderOperator):
            try:
                return super().run_node(n)
            except Exception:
                if example_of(n) is None:
                    raise
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        result = self.copy(example_of(n), _largest(tensors_in((args, kwargs))))
        name = getattr(n.target, "__name__", None) or str(n.target)
        self._listener.on_operator(name, args, kwargs, result)
        return result

    def copy(self, example: object, largest: int = 1) -> Any:
        """Return `example` with new fake tensors, and with hints in place of symbolic numbers.

        `largest` replaces a size that depends on data.
        """
        if isinstance(example, list | tuple):
            return type(example)(self.copy(one, largest) for one in example)
        if isinstance(example, torch.SymInt | torch.SymFloat | torch.SymBool):
            return _hint(example, largest)
        if not isinstance(example, torch.Tensor):
            return example
        sizes = [_hint(size, largest) for size in example.shape]
        with self._mode:
            if example.layout != torch.strided:
                return torch.empty(sizes, dtype=example.dtype, device=example.device)
            strides = [_hint(stride, largest) for stride in example.stride()]
            fake = torch.empty_strided(sizes, strides, dtype=example.dtype, device=example.device)
        # A view of a parameter's class: only the mark is needed.
        if isinstance(example, torch.nn.Parameter):
            fake.is_example_parameter = True  # type: ignore[attr-defined]
        return fake


class _Recorder(TorchDispatchMode):
    """Dispatch mode that reports ATen operators, decomposed where the listener wants that."""

    def __init__(self, listener: OperatorListener) -> None:
        super().__init__()
        self._listener = listener

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if self._listener.needs_decomposition(func):
            # `decompose` runs an operator that is made of others, and returns NotImplemented else.
            decompose = torch._decomp.decomposition_table.get(func, func.decompose)
            with self, contextlib.suppress(NotImplementedError):
                result = decompose(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        result = func(*args, **kwargs)
        self._listener.on_operator(func, args, kwargs, result)
        return result


def _hint(value: Any, largest: int) -> Any:
    """Return a number for a size or scalar: itself, or its hint if it is symbolic.

    A size that depends on data has no hint and becomes `largest`; another number becomes 1.
    """
    if isinstance(value, int | float):
        return value
    if has_free_unbacked_symbols(value):
        return largest if isinstance(value, torch.SymInt) else type(value.node.pytype)(1)
    return value.node.hint


def _largest(tensors: Sequence[torch.Tensor]) -> int:
    """Return the largest size of any dim of the tensors; 1 if there is no dim."""
    return max((size for tensor in tensors for size in tensor.shape), default=1)


@contextlib.contextmanager
def _unchanged_autocast() -> Iterator[None]:
    """Restore autocast after the block: a graph that ends early can leave it changed."""
    kinds = ("cpu", "cuda")
    before = [(torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in kinds]
    cache = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        for kind, (enabled, dtype) in zip(kinds, before, strict=True):
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(cache)

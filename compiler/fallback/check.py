"""Whether a compiled graph does on copies of its inputs what it does in eager."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal

import torch

from fullgraph.compiler.fallback.copies import copies
from fullgraph.compiler.isolation import has_drawn_random_numbers, random_states, set_random_states
from fullgraph.compiler.numerics import Mismatch, count_mismatches, find_mismatch, is_pointwise
from fullgraph.compiler.results import RecordedTensor, RunResults, record_tensor

Graph = Callable[..., Any]


@dataclass(frozen=True)
class Verdict:
    """What a check found, as plain data."""

    kind: Literal["same", "differs", "raises", "crashes", "hangs", "unknown"]
    reason: str = ""
    """Half a sentence, "raises RuntimeError: …"; "" where there is nothing to say."""

    @property
    def fails(self) -> bool:
        return self.kind not in ("same", "unknown")


def check(
    eager: torch.fx.GraphModule,
    compiled: Graph,
    inputs: Sequence[Any],
    *,
    same_numbers: bool,
    strides: bool = True,
) -> Verdict:
    """Compare outputs, gradients and mutation; float64 is the judge.

    `same_numbers` says whether `compiled` draws the random numbers that eager draws; if not, only
    the metadata of a graph that draws some is compared. Nothing of the user's changes: not the
    inputs, the graph's own buffers, the gradients, the random numbers.
    """
    runs = _Runs(eager, inputs)
    with _random_numbers_rewound(), _buffers_kept(eager):
        try:
            expected, drew = runs.of(eager)
        except Exception as error:
            return Verdict("unknown", f"eager {raises(error)}")
        try:
            got, _ = runs.of(compiled)
        except Exception as error:
            if _is_out_of_memory(error):
                return Verdict("unknown", "there was not enough memory to compare it with eager")
            return Verdict("raises", raises(error))
        if drew and not same_numbers:
            expected, got = (_with_tensors(_without_elements, each) for each in (expected, got))
        if not strides:  # whose memory an output is in is compared all the same
            expected, got = (_with_tensors(_without_strides, each) for each in (expected, got))
        found = find_mismatch(
            expected,
            got,
            pointwise=is_pointwise(eager),
            float64_results=runs.in_float64,
            is_noise=runs.is_noise,
        )
    return (
        Verdict("same") if found is None else Verdict("differs", f"gives something else: {found}")
    )


def raises(error: BaseException) -> str:
    """What an exception says, on one line."""
    return said(type(error).__qualname__, str(error))


def said(kind: str, message: str) -> str:
    """ "raises RuntimeError: the first line" """
    lines = [line for line in message.splitlines() if line.strip()]
    return f"raises {kind}" + (f": {lines[0].strip()[:300]}" if lines else "")


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        "can't allocate memory" in str(error)  # DefaultCPUAllocator's
    )


class _Runs:
    """Runs of one graph's versions from the same start."""

    def __init__(self, eager: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        self._eager, self._inputs = eager, inputs
        self._start = random_states()
        self._nudged: RunResults | None = None
        self._copy_parameters = may_write(eager)

    def of(self, graph: Graph, inputs: Sequence[Any] | None = None) -> tuple[RunResults, bool]:
        """What `graph` gives, and whether it drew random numbers. Raises what it raises."""
        set_random_states(self._start)
        with _buffers_kept(self._eager):
            results = _run(graph, self._inputs if inputs is None else inputs, self._copy_parameters)
        return results, has_drawn_random_numbers(self._start)

    def in_float64(self) -> RunResults | None:
        """What the graph gives in float64; None if it cannot be run so."""
        wide = [_changed(thing, _widened) for thing in self._inputs]
        with contextlib.suppress(Exception):
            return self.of(copy.deepcopy(self._eager).double(), wide)[0]
        return None

    def is_noise(self, found: Mismatch, expected: object, got: object) -> bool:
        """Whether eager, too, gives other elements there when its inputs change by rounding."""
        if self._nudged is None:
            nudged = [_changed(thing, _shaken) for thing in self._inputs]
            try:
                self._nudged = self.of(self._eager, nudged)[0]
            except Exception:
                return False
        parts = {
            "result": self._nudged.outputs,
            "gradient": self._nudged.gradients,
            "mutation": self._nudged.state,
        }
        near = parts[found.kind].get(found.where)
        if not (
            isinstance(near, RecordedTensor)
            and isinstance(expected, RecordedTensor)
            and isinstance(got, RecordedTensor)
        ):
            return False
        if near.shape != expected.shape:
            return True
        return count_mismatches(expected, got) <= NOISE * count_mismatches(expected, near)


NOISE = 4
"""How many times as many elements may differ as do when the inputs change by rounding."""


def _run(graph: Graph, inputs: Sequence[Any], copy_parameters: bool) -> RunResults:
    given = copies(inputs, parameters=copy_parameters)
    versions = [_version(thing) for thing in given.values]
    output = graph(*given.values)
    outputs = list(output) if isinstance(output, list | tuple) else [output]
    places = {_place(thing): f"input[{i}]" for i, thing in enumerate(given.values)}
    told = {
        f"output[{i}]": _told(thing, places.get(_place(thing), ""))
        for i, thing in enumerate(outputs)
    }
    written = [
        thing
        for thing, version in zip(given.values, versions, strict=True)
        if _version(thing) != version
    ]
    state = {
        f"input[{i}]": _told(thing)
        for i, thing in enumerate(given.values)
        if not (isinstance(thing, torch.nn.Parameter) and not copy_parameters)
    }
    return RunResults(told, _gradients([*outputs, *written], given.leaves), state)


def _gradients(roots: Sequence[Any], leaves: Sequence[torch.Tensor | None]) -> dict[str, Any]:
    """The gradients of the inputs, by name, for random gradients of the roots."""
    wanted = {f"input[{i}]": leaf for i, leaf in enumerate(leaves) if leaf is not None}
    ends = [t for t in roots if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    if not (wanted and ends and torch.is_grad_enabled()):
        return {}
    dice = torch.Generator().manual_seed(0)
    given = []
    for end in ends:
        dtype = torch.float32 if end.dtype.is_floating_point else torch.complex64
        random = torch.randn(end.shape, generator=dice, dtype=dtype, device="cpu")
        given.append(torch.empty_like(end, requires_grad=False).copy_(random))
    found = torch.autograd.grad(ends, list(wanted.values()), given, allow_unused=True)
    return {
        name: _told(gradient)
        for name, gradient in zip(wanted, found, strict=True)
        if gradient is not None
    }


def _told(thing: Any, alias: str = "") -> Any:
    if isinstance(thing, torch.Tensor):
        return record_tensor(thing, alias, copied=False)
    if isinstance(thing, bool | int | float | complex | str | type(None)):
        return thing
    return f"<{type(thing).__name__}>"


def _version(thing: Any) -> int:
    if isinstance(thing, torch.Tensor) and not thing.is_inference():
        return thing._version
    return 0


def _place(thing: Any) -> int:
    """Where a tensor's memory begins; a number of its own for what has none."""
    if isinstance(thing, torch.Tensor) and thing.layout is torch.strided:
        with contextlib.suppress(RuntimeError, NotImplementedError):
            return thing.untyped_storage().data_ptr() or -id(thing)
    return -id(thing)


def _with_tensors(
    change: Callable[[RecordedTensor], RecordedTensor], results: RunResults
) -> RunResults:
    """Return results with every recorded tensor replaced by `change` of it."""

    def changed(part: Mapping[str, object]) -> dict[str, object]:
        return {
            name: change(leaf) if isinstance(leaf, RecordedTensor) else leaf
            for name, leaf in part.items()
        }

    return RunResults(changed(results.outputs), changed(results.gradients), changed(results.state))


def _without_elements(tensor: RecordedTensor) -> RecordedTensor:
    return replace(tensor, elements=None)


def _without_strides(tensor: RecordedTensor) -> RecordedTensor:
    return replace(tensor, stride=None)


def _changed(thing: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A tensor with other elements and the same history; anything else as it is."""
    if not isinstance(thing, torch.Tensor):
        return thing
    with torch.enable_grad():
        new = change(thing.detach()).detach()
        if thing.requires_grad:
            new.requires_grad_()
        return new if thing.is_leaf or not thing.requires_grad else new.clone()


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def _shaken(tensor: torch.Tensor) -> torch.Tensor:
    """Every element a few roundings away from where it was, but for halves and whole numbers.

    Those are not there by chance, and often where a function jumps.
    """
    if not tensor.is_floating_point() or tensor.layout is not torch.strided:
        return tensor
    dice = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, tensor.shape, generator=dice).to(tensor.device) * 2 - 1
    near = tensor + tensor * signs * (2 * torch.finfo(tensor.dtype).eps)
    return torch.where(tensor.isfinite() & (2 * tensor != (2 * tensor).round()), near, tensor)


@contextlib.contextmanager
def _random_numbers_rewound() -> Iterator[None]:
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)


@contextlib.contextmanager
def _buffers_kept(module: torch.fx.GraphModule) -> Iterator[None]:
    """Put a graph's own buffers back; it has some where Dynamo did not make them inputs."""
    kept = [(buffer, buffer._version, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, version, before in kept:
                if buffer._version != version:
                    buffer.copy_(before)


def may_write(module: torch.fx.GraphModule) -> bool:
    """Whether a graph holds anything that might write into a parameter."""
    return any(not _only_reads(node) for node in module.graph.nodes)


def _only_reads(node: torch.fx.Node) -> bool:
    if node.op == "call_method":
        return not str(node.target).endswith("_")
    if node.op != "call_function":
        return node.op != "call_module"
    name, home = (getattr(node.target, key, None) or "" for key in ("__name__", "__module__"))
    if home == "_operator":
        inplace = name.startswith("i") and (name[1:] in _OPERATORS or name[1:] + "_" in _OPERATORS)
        return not inplace and name not in ("setitem", "delitem")
    known = home.startswith("torch") and isinstance(node.target, _FUNCTIONS)
    return known and not name.endswith("_") and "out" not in node.kwargs


_OPERATORS = frozenset(dir(operator))
_FUNCTIONS = (FunctionType, BuiltinFunctionType)

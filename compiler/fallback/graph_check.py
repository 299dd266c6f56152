"""Compares a compiled graph with eager, on copies of its inputs."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal

import torch

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.fallback.input_copies import copy_inputs
from fullgraph.compiler.isolation import has_drawn_random_numbers, random_states, set_random_states
from fullgraph.compiler.numerics import Mismatch, count_mismatches, find_mismatch, is_pointwise
from fullgraph.compiler.results import RecordedTensor, RunResults, record_tensor

GraphFn = Callable[..., Any]
Draws = Literal["nothing", "eager's", "other"]
"""Random numbers that a graph draws; "eager's" if the random states end as in eager."""


@dataclass(frozen=True)
class GraphVerdict:
    """Result of comparing one compiled graph with eager: "same", "differs", "raises", …

    It can be pickled.
    """

    kind: Literal["same", "differs", "raises", "crashes", "hangs", "unknown"]
    reason: str = ""
    """Predicate of a sentence about the graph, "raises RuntimeError: …"; may be empty."""
    draws: Draws = "nothing"

    @property
    def fails(self) -> bool:
        """Whether the graph must run on a lower rung."""
        return self.kind not in ("same", "unknown")


def check_graph(
    eager: torch.fx.GraphModule,
    compiled: GraphFn,
    inputs: Sequence[object],
    *,
    same_random: bool,
    strides: bool = True,
) -> GraphVerdict:
    """Compare the outputs, gradients and mutations of `compiled` with those of `eager`.

    Both run on copies of `inputs`. If results differ, a run of eager in float64 tells rounding from
    an error. If `same_random` is False, the two draw different random numbers: of a graph that
    draws any only metadata is compared, and the verdict is "unknown" if it is equal. `strides`:
    whether to compare strides. Inputs, buffers, gradients and random states stay unchanged.
    """
    runs = _Runs(eager, inputs)
    with _restore_random_states(), _restore_buffers(eager):
        try:
            expected, drew = runs.run(eager)
        except Exception as error:
            return GraphVerdict("unknown", f"eager {describe_raised(error)}")
        after = random_states()
        try:
            got, _ = runs.run(compiled)
        except Exception as error:
            if _is_out_of_memory(error):
                return GraphVerdict(
                    "unknown", "there was not enough memory to compare it with eager"
                )
            return GraphVerdict("raises", describe_raised(error))
        draws: Draws = "nothing"
        if drew:
            draws = "other" if has_drawn_random_numbers(after) else "eager's"
        if drew and not same_random:
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
    if found is not None:
        return GraphVerdict("differs", f"gives something else: {found}", draws)
    if drew and not same_random:
        reason = "draws other random numbers than eager: its values were not compared"
        return GraphVerdict("unknown", reason, draws)
    return GraphVerdict("same", draws=draws)


def describe_raised(error: BaseException) -> str:
    """Return "raises RuntimeError: …" with the first line of the error's message.

    For an operator that the backend `loops` does not have, return "refuses the graph: …".
    """
    if isinstance(error, UnsupportedOperator):
        return f"refuses the graph: {str(error).partition(': ')[2]}"
    return describe_error(type(error).__qualname__, str(error))


def describe_error(kind: str, message: str) -> str:
    """Return "raises RuntimeError: …" for the class name `kind` and the first line of `message`."""
    lines = [line for line in message.splitlines() if line.strip()]
    return f"raises {kind}" + (f": {lines[0].strip()[:300]}" if lines else "")


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether a device or the host ran out of memory."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        "can't allocate memory" in str(error)  # DefaultCPUAllocator's
    )


class _Runs:
    """Runner of a graph's eager and compiled versions, each time from the same random states."""

    def __init__(self, eager: torch.fx.GraphModule, inputs: Sequence[object]) -> None:
        self._eager, self._inputs = eager, inputs
        self._start = random_states()
        self._rounded: RunResults | None = None
        self._copy_parameters = may_write(eager)

    def run(
        self, graph: GraphFn, inputs: Sequence[object] | None = None
    ) -> tuple[RunResults, bool]:
        """Run `graph`; return its results and whether it drew random numbers."""
        set_random_states(self._start)
        with _restore_buffers(self._eager):
            results = _run_graph(
                graph, self._inputs if inputs is None else inputs, self._copy_parameters
            )
        return results, has_drawn_random_numbers(self._start)

    def in_float64(self) -> RunResults | None:
        """Return the results of eager in float64; None if the graph does not run in float64."""
        wide = [_change_elements(thing, _widen) for thing in self._inputs]
        with contextlib.suppress(Exception):
            return self.run(copy.deepcopy(self._eager).double(), wide)[0]
        return None

    def is_noise(self, found: Mismatch, expected: object, got: object) -> bool:
        """Return whether rounding the inputs differently changes eager's result about as much.

        `found` is the mismatch between the results `expected` and `got`.
        """
        if self._rounded is None:
            rounded = [_change_elements(thing, _round_differently) for thing in self._inputs]
            try:
                self._rounded = self.run(self._eager, rounded)[0]
            except Exception:
                return False
        parts = {
            "result": self._rounded.outputs,
            "gradient": self._rounded.gradients,
            "mutation": self._rounded.state,
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
        return count_mismatches(expected, got) <= NOISE_FACTOR * count_mismatches(expected, near)


NOISE_FACTOR = 4
"""Largest number of unequal elements that is noise, in multiples of a reference number.

The reference is the number of elements that change in eager when inputs are rounded differently.
"""


def _run_graph(graph: GraphFn, inputs: Sequence[object], copy_parameters: bool) -> RunResults:
    """Run a graph forward and backward on copies of `inputs`; return all that it computed.

    If `copy_parameters` is False, the inputs that are parameters are not copied.
    """
    given = copy_inputs(inputs, parameters=copy_parameters)
    versions = [_version_of(thing) for thing in given.values]
    output = graph(*given.values)
    outputs = list(output) if isinstance(output, list | tuple) else [output]
    places = {_address_of(thing): f"input[{i}]" for i, thing in enumerate(given.values)}
    recorded = {
        f"output[{i}]": _record_leaf(thing, places.get(_address_of(thing), ""))
        for i, thing in enumerate(outputs)
    }
    written = [
        thing
        for thing, version in zip(given.values, versions, strict=True)
        if _version_of(thing) != version
    ]
    state = {
        f"input[{i}]": _record_leaf(thing)
        for i, thing in enumerate(given.values)
        if not (isinstance(thing, torch.nn.Parameter) and not copy_parameters)
    }
    return RunResults(recorded, _gradients([*outputs, *written], given.leaves), state)


def _gradients(roots: Sequence[object], leaves: Sequence[torch.Tensor | None]) -> dict[str, object]:
    """Return the gradients of the inputs by name, such as "input[0]"; {} if there are none.

    The backward pass starts at `roots`, the tensors that the graph returned or wrote to, with
    random gradients from a fixed seed. `leaves` holds one leaf for each input: None for an input
    that requires no gradient.
    """
    wanted = {f"input[{i}]": leaf for i, leaf in enumerate(leaves) if leaf is not None}
    outputs = [t for t in roots if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    if not (wanted and outputs and torch.is_grad_enabled()):
        return {}
    dice = torch.Generator().manual_seed(0)
    given = []
    for output in outputs:
        dtype = torch.float32 if output.dtype.is_floating_point else torch.complex64
        random = torch.randn(output.shape, generator=dice, dtype=dtype, device="cpu")
        given.append(torch.empty_like(output, requires_grad=False).copy_(random))
    found = torch.autograd.grad(outputs, list(wanted.values()), given, allow_unused=True)
    return {
        name: _record_leaf(gradient)
        for name, gradient in zip(wanted, found, strict=True)
        if gradient is not None
    }


def _record_leaf(thing: object, alias: str = "") -> object:
    """Return a tensor as a `RecordedTensor`; return a number, string or None unchanged.

    Any other object becomes its class name, such as "<Config>". `alias` names the input whose
    memory the tensor shares; "" if there is none.
    """
    if isinstance(thing, torch.Tensor):
        return record_tensor(thing, alias, copied=False)
    if isinstance(thing, bool | int | float | complex | str | type(None)):
        return thing
    return f"<{type(thing).__name__}>"


def _version_of(thing: object) -> int:
    """Return the version counter of a tensor; 0 for other objects."""
    if isinstance(thing, torch.Tensor) and not thing.is_inference():
        return thing._version
    return 0


def _address_of(thing: object) -> int:
    """Return the address of a tensor's memory; a unique negative number if it has none."""
    if isinstance(thing, torch.Tensor) and thing.layout is torch.strided:
        with contextlib.suppress(RuntimeError, NotImplementedError):
            return thing.untyped_storage().data_ptr() or -id(thing)
    return -id(thing)


def _with_tensors(
    change: Callable[[RecordedTensor], RecordedTensor], results: RunResults
) -> RunResults:
    """Return `results` with `change` applied to every recorded tensor."""

    def changed(part: Mapping[str, object]) -> dict[str, object]:
        """Return one mapping of the results with `change` applied to its tensors."""
        return {
            name: change(leaf) if isinstance(leaf, RecordedTensor) else leaf
            for name, leaf in part.items()
        }

    return RunResults(changed(results.outputs), changed(results.gradients), changed(results.state))


def _without_elements(tensor: RecordedTensor) -> RecordedTensor:
    return replace(tensor, elements=None)


def _without_strides(tensor: RecordedTensor) -> RecordedTensor:
    return replace(tensor, stride=None)


def _change_elements(thing: object, change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """Return a copy of a tensor with changed elements; anything else unchanged.

    The copy has the same `is_leaf` and `requires_grad` as the tensor.
    """
    if not isinstance(thing, torch.Tensor):
        return thing
    with torch.enable_grad():
        new = change(thing.detach()).detach()
        if thing.requires_grad:
            new.requires_grad_()
        return new if thing.is_leaf or not thing.requires_grad else new.clone()


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64 or complex128; other dtypes unchanged."""
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def _round_differently(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with each element moved by a few ulps, except multiples of one half.

    Multiples of one half are often exact, and functions are often discontinuous there.
    """
    if not tensor.is_floating_point() or tensor.layout is not torch.strided:
        return tensor
    dice = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, tensor.shape, generator=dice).to(tensor.device) * 2 - 1
    near = tensor + tensor * signs * (2 * torch.finfo(tensor.dtype).eps)
    return torch.where(tensor.isfinite() & (2 * tensor != (2 * tensor).round()), near, tensor)


@contextlib.contextmanager
def _restore_random_states() -> Iterator[None]:
    """Restore the random states when the block ends."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)


@contextlib.contextmanager
def _restore_buffers(module: torch.fx.GraphModule) -> Iterator[None]:
    """Restore the buffers of the graph module when the block ends.

    Buffers that the graph takes as inputs are not among them.
    """
    kept = [(buffer, buffer._version, buffer.detach().clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, version, before in kept:
                if buffer._version != version:
                    buffer.copy_(before)


def may_write(module: torch.fx.GraphModule) -> bool:
    """Return whether an operator of the graph may write into its arguments."""
    return any(not _only_reads(node) for node in module.graph.nodes)


def _only_reads(node: torch.fx.Node) -> bool:
    """Return whether a node is known to write to no argument, judged by its operator's name."""
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

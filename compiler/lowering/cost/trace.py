"""Operator trace of a captured graph: what each operator reads, writes and computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from fullgraph.compiler.lowering.cost.operator_kinds import (
    Operator,
    flops_of_element,
    is_free,
    kind_of,
    name_of,
)
from fullgraph.compiler.operations import Kind, Operation, OperatorTrace, Read, Space, Value
from fullgraph.compiler.private import run_on_fake_tensors, storage_id, tensors_in


def trace_operators(module: torch.fx.GraphModule) -> OperatorTrace:
    """Return the operators of a graph of Dynamo, AOTAutograd or `make_fx`.

    Nodes need example values in `meta`: "example_value" or "val". The graph runs on fake tensors.
    An operator that the cost model has no rule for is decomposed if torch can. Raises what the
    graph raises on fake tensors.
    """
    tracer = _Tracer()
    run_on_fake_tensors(module, tracer)
    return tracer.trace()


class _Tracer:
    """Operator listener that builds the operator trace of one run."""

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._operations: list[Operation] = []
        self._current: dict[int, int] = {}  # storage → the value that it holds now
        self._alive: list[torch.Tensor] = []  # a storage's id is only unique while it lives
        self._input_storages: dict[int, None] = {}
        self._parts: dict[int, tuple[int, ...]] = {}  # of the results of `cat`

    def trace(self) -> OperatorTrace:
        """Return the trace of the operators recorded so far."""
        written = [self._current[storage] for storage in self._input_storages]
        outputs = [value for value in written if value not in self._inputs]
        outputs = [p for v in (*self._outputs, *outputs) for p in self._parts.get(v, (v,))]
        return OperatorTrace(
            tuple(self._values),
            tuple(self._inputs),
            tuple(dict.fromkeys(outputs)),
            tuple(self._operations),
        )

    # The methods of OperatorListener.

    def on_inputs(self, inputs: Sequence[torch.Tensor]) -> None:
        """Add a value for each input."""
        for tensor in inputs:
            self._value_of(tensor)

    def needs_decomposition(self, operator: Operator) -> bool:
        """Return whether the cost model has no rule for the operator."""
        return kind_of(operator) is None and not is_free(operator)

    def on_operator(
        self,
        operator: Operator | str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        result: object,
    ) -> None:
        """Record one call, unless it only makes a view or allocates memory."""
        operands, results = tensors_in((args, kwargs)), tensors_in(result)
        given = [] if isinstance(operator, str) else _arguments_of(operator, args, kwargs)
        written = [
            tensor
            for argument, value in given
            if argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tensors_in(value)
        ]
        self._alive += results
        storages = {storage_id(tensor) for tensor in operands}
        if isinstance(operator, str):
            kind: Kind | None = None
        elif is_free(operator):
            return
        else:
            kind = kind_of(operator)
            if not written and all(storage_id(tensor) in storages for tensor in results):
                return  # a view, or a number
        name = operator if isinstance(operator, str) else name_of(operator)
        if kind == "pointwise" and name == "cat" and operands[0].device.type == "cpu":
            self._copy_parts(operands, results[0])
            return
        reads = tuple(read for tensor in operands for read in self._reads_of(tensor))
        if kind == "extern" and name == "convolution":
            reads = (*map(self._copy_to_channels_last, operands[:2]), *reads[2:])
        new = written or [t for t in results if storage_id(t) not in storages]
        main = max(new, key=torch.Tensor.numel, default=None)
        space = _space_of(kind, given, operands, main)
        writes = tuple(dict.fromkeys(self._add_value(tensor) for tensor in new))
        flops = _count_flops(operator, kind, args, kwargs, result, space)
        dtype = str(main.dtype if main is not None else torch.float32).removeprefix("torch.")
        known = Operation(str(operator), kind or "extern", reads, writes, space, flops, dtype)
        self._operations.append(replace(known, is_known=kind is not None))

    def on_outputs(self, outputs: Sequence[torch.Tensor]) -> None:
        """Record which values the graph returns."""
        self._outputs = [self._value_of(tensor) for tensor in outputs]

    def _reads_of(self, tensor: torch.Tensor) -> list[Read]:
        """Return the reads of one operand: one, or one of each part of a result of `cat`."""
        value, size = self._value_of(tensor), _bytes_covered(tensor)
        parts = self._parts.get(value, (value,))
        return [Read(part, min(size, self._values[part].bytes)) for part in parts]

    def _copy_parts(self, operands: Sequence[torch.Tensor], result: torch.Tensor) -> None:
        """Record a call of `cat` as a copy of each operand into a part of the result."""
        parts = [
            self._add_copy("aten.cat.default", tensor) for tensor in operands if tensor.numel()
        ]
        self._parts[self._add_value(result)] = tuple(parts)

    def _copy_to_channels_last(self, tensor: torch.Tensor) -> Read:
        """Return the read of a convolution's operand.

        On CPU, an input of the graph in another format is first copied to channels-last.
        """
        value = self._value_of(tensor)
        has_layout = tensor.ndim != 4 or tensor.is_contiguous(memory_format=torch.channels_last)
        if has_layout or tensor.device.type != "cpu" or value not in self._inputs:
            return self._reads_of(tensor)[0]
        return Read(self._add_copy("aten.clone.default", tensor), _bytes_covered(tensor))

    def _add_copy(self, name: str, tensor: torch.Tensor) -> int:
        """Record a copy of a tensor into new memory; return the index of the copy's value."""
        size = tensor.numel() * tensor.element_size()
        reads = tuple(self._reads_of(tensor))
        self._values.append(Value(size, _signature(tensor)))
        copy, dtype = len(self._values) - 1, str(tensor.dtype).removeprefix("torch.")
        space = ((tensor.numel(), False),)
        self._operations.append(
            Operation(name, "pointwise", reads, (copy,), space, 0, dtype, is_stored=True)
        )
        return copy

    def _value_of(self, tensor: torch.Tensor) -> int:
        """Return the index of the value in a tensor's memory; add an input if it has none yet."""
        storage = storage_id(tensor)
        if storage not in self._current:
            self._alive.append(tensor)
            self._inputs.append(self._add_value(tensor))
            self._input_storages[storage] = None
        return self._current[storage]

    def _add_value(self, tensor: torch.Tensor) -> int:
        """Add a new value for a tensor's memory; return its index."""
        size = tensor.untyped_storage().nbytes()
        is_parameter = hasattr(tensor, "is_example_parameter")
        self._values.append(Value(size, _signature(tensor), is_parameter))
        self._current[storage_id(tensor)] = len(self._values) - 1
        return len(self._values) - 1


def _signature(tensor: torch.Tensor) -> str:
    """Return device, dtype, sizes and strides of a tensor: "cpu float32[2, 3] (3, 1)"."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{tensor.device} {dtype}{list(tensor.shape)} {tuple(tensor.stride())}"


def _bytes_covered(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor's elements; those repeated by `expand` count once."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in pairs if stride != 0) * tensor.element_size()


def _arguments_of(
    operator: Operator, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> list[tuple[torch.Argument, object]]:
    """Return the arguments of a call that are given, with their values."""
    arguments = operator._schema.arguments
    found = list(zip(arguments, args, strict=False))
    return found + [(one, kwargs[one.name]) for one in arguments if one.name in kwargs]


def _space_of(
    kind: Kind | None,
    given: Sequence[tuple[torch.Argument, object]],
    operands: Sequence[torch.Tensor],
    main: torch.Tensor | None,
) -> Space:
    """Return the iteration space of a call: (size, whether it is reduced) for each dim.

    For a reduction, these are the dims of its first operand, with neighbours merged where possible.
    Otherwise there is one dim: the number of elements of `main`, the largest tensor written, or 1
    if `main` is None.
    """
    if kind != "reduction" or not operands:
        return ((main.numel() if main is not None else 1, False),)
    sizes = operands[0].shape
    dims = next((value for one, value in given if one.name in ("dim", "dims")), None)
    dims = [dims] if isinstance(dims, int) else dims
    reduced = set(range(len(sizes)))
    if isinstance(dims, list | tuple) and dims and sizes:
        reduced = {dim % len(sizes) for dim in dims}
    marks = [(size, d in reduced) for d, size in enumerate(sizes) if size != 1]
    groups = groupby(marks, key=lambda mark: mark[1])
    return tuple((math.prod(size for size, _ in group), key) for key, group in groups)


def _count_flops(
    operator: Operator | str,
    kind: Kind | None,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    result: object,
    space: Space,
) -> int:
    """Return the flops of a call, by torch's `flop_registry` if the operator is in it.

    Otherwise they are estimated from the size of `space`; 0 if `kind` is None.
    """
    if isinstance(operator, str) or kind is None:
        return 0
    formula = flop_registry.get(operator.overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    if operator.overloadpacket is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu:
        query, key, value = tensors_in(args)[:3]
        return int(sdpa_flop_count(query.shape, key.shape, value.shape))
    if kind == "extern":
        return math.prod(size for size, _ in space)
    return math.prod(size for size, _ in space) * flops_of_element(operator)

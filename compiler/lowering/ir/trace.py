"""From a functional graph of canonical ATen operators to a graph of loops."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Sequence
from typing import cast

import sympy
import torch

from fullgraph.compiler.errors import UnsupportedOperator
from fullgraph.compiler.lowering.ir.builder import Call, GraphBuilder, dense_order, sizes_of
from fullgraph.compiler.lowering.ir.complex_numbers import as_complex, as_real, complex_lowering
from fullgraph.compiler.lowering.ir.index import variables_of
from fullgraph.compiler.lowering.ir.indexing import INDEXING
from fullgraph.compiler.lowering.ir.loops import (
    Assertion,
    Extern,
    LoopGraph,
    Output,
    Sizes,
    Subgraph,
    Update,
    View,
    strides_of,
    views_in,
)
from fullgraph.compiler.lowering.ir.operators import DTYPES
from fullgraph.compiler.lowering.ir.pointwise import POINTWISE
from fullgraph.compiler.lowering.ir.reductions import REDUCTIONS
from fullgraph.compiler.lowering.ir.sizes import index_of, number_of
from fullgraph.compiler.lowering.ir.views import VIEWS
from fullgraph.compiler.lowering.prims import (
    CONTROL_FLOW,
    canonical_kind,
    extern_operators,
    extern_reason,
    operator_name,
)
from fullgraph.compiler.private import tensors_in, without_fake_tensors

GENERATED = {**VIEWS, **POINTWISE, **REDUCTIONS, **INDEXING}
"""How each operator that is generated is lowered, by its name without namespace and overload."""
_WITH_EFFECTS = torch.ops.higher_order.with_effects
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)


def trace_loops(module: torch.fx.GraphModule) -> LoopGraph:
    """Return the loops of a functional graph of canonical and extern ATen operators.

    The nodes need fake tensors in `meta["val"]`. Raises `UnsupportedOperator` for others.
    """
    return _Tracer(module).trace()


class _Tracer:
    """State of one trace: what each node of the graph has become."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._module = module
        self._builder = GraphBuilder()
        self._values: dict[torch.fx.Node, object] = {}
        self._inputs: list[str | sympy.Expr] = []
        self._constants: dict[str, torch.Tensor] = {}
        self._updates: list[Update] = []
        self._assertions: list[Assertion] = []
        self._complex: set[str] = set()
        self._outputs: tuple[Output, ...] = ()
        self._output_strides: dict[int, Sizes] = {}
        self._device = _device_of(module)
        self._constant_nodes: set[torch.fx.Node] = set()
        self._on_cpu: set[str] = set()
        self._cpu_outputs: set[int] = set()

    def trace(self) -> LoopGraph:
        """Trace every node, in order."""
        for node in self._module.graph.nodes:
            sources = node.all_input_nodes
            if node.op == "get_attr" or (sources and self._constant_nodes.issuperset(sources)):
                self._constant_nodes.add(node)
            if node.op == "placeholder":
                self._add_input(node)
            elif node.op == "get_attr":
                self._add_constant(node)
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                values = _output_values(node)
                self._outputs = tuple(map(self._output, values, itertools.count()))
                self._cpu_outputs = {
                    number for number, value in enumerate(values) if self._is_off_device(value)
                }
        builder = self._builder
        return LoopGraph(
            builder.buffers,
            tuple(self._inputs),
            self._constants,
            tuple(builder.steps),
            tuple(self._updates),
            self._outputs,
            self._device,
            tuple(self._assertions),
            frozenset(self._complex),
            frozenset(self._on_cpu),
            frozenset(self._cpu_outputs),
            self._output_strides,
        )

    def _add_input(self, node: torch.fx.Node) -> None:
        value = node.meta["val"]
        if any(user.target is _WITH_EFFECTS for user in node.users):  # a token; it has no tensor
            value = sympy.Symbol(node.name)
            self._values[node] = value
            self._inputs.append(value)
        elif isinstance(value, torch.Tensor):
            self._check_tensor(node, value)
            if value.is_neg():
                raise _refuse(node, "a graph input", "has its negative bit set")
            view = self._add_buffer(node.name, value)
            self._values[node] = view
            self._inputs.append(view.buffer)
        elif isinstance(value, int | float | torch.SymInt | torch.SymFloat):
            number = self._values[node] = number_of(value)
            self._inputs.append(number)
        else:
            raise _refuse(node, "a graph input", f"is a {type(value).__name__}")

    def _add_constant(self, node: torch.fx.Node) -> None:
        value: object = self._module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            self._values[node] = value
            return
        if not isinstance(value, torch.Tensor):
            raise _refuse(node, f"the attribute {node.target}", "is not a tensor")
        self._check_tensor(node, value)
        view = self._add_buffer(node.name, value)
        is_complex = value.dtype.is_complex
        with without_fake_tensors():
            self._constants[view.buffer] = torch.view_as_real(value) if is_complex else value
        self._values[node] = view

    def _add_buffer(self, name: str, tensor: torch.Tensor) -> View:
        """Add the buffer of a tensor that torch allocates; complex ones are read as real."""
        sizes, dtype = sizes_of(tensor), tensor.dtype
        if tensor.device != self._device:
            self._on_cpu.add(name)
        strides = tuple(map(index_of, tensor.stride()))
        if not dtype.is_complex:
            return self._builder.add_buffer(name, sizes, dtype, strides)
        strides = (*(2 * stride for stride in strides), sympy.Integer(1))
        view = self._builder.add_buffer(name, (*sizes, sympy.Integer(2)), dtype.to_real(), strides)
        self._complex.add(view.buffer)
        return as_complex(view)

    def _check_tensor(self, node: torch.fx.Node, tensor: torch.Tensor) -> None:
        is_constant = node in self._constant_nodes
        can_move = tensor.device.type == "cpu" and (not tensor.dim() or is_constant)
        if tensor.device != self._device and not can_move:
            problem = f"is on {tensor.device}, and other tensors are on {self._device}"
            raise _refuse(node, _shown(node), problem)
        if tensor.dtype not in (*DTYPES, torch.complex64, torch.complex128):
            problem = f"has the dtype {tensor.dtype}, with which no kernel computes"
            raise _refuse(node, _shown(node), problem)
        if tensor.layout != torch.strided:
            raise _refuse(node, _shown(node), f"has the layout {tensor.layout}")

    def _is_off_device(self, value: object) -> bool:
        """Return whether a node's result is a tensor on the CPU, in a graph on another device."""
        example = value.meta.get("val") if isinstance(value, torch.fx.Node) else None
        return isinstance(example, torch.Tensor) and example.device != self._device

    def _value(self, argument: object) -> object:
        """Return an argument with nodes replaced by what they became."""
        if isinstance(argument, torch.fx.Node):
            return self._values[argument]
        if isinstance(argument, tuple):
            return tuple(self._value(item) for item in argument)
        return [self._value(item) for item in argument] if isinstance(argument, list) else argument

    def _call(self, node: torch.fx.Node) -> object:
        result = node.meta.get("val")
        if node.target is operator.getitem:
            source, item = node.args
            values = cast(Sequence[object], self._value(source))
            return values[cast(int, item)]
        if isinstance(result, _NUMBERS):
            return self._number(node, result)
        if canonical_kind(node.target) == "assertion":
            self._assert(node)
            return None
        if node.target is _WITH_EFFECTS:
            return self._with_effects(node)
        is_extern = extern_reason(node) is not None or self._has_gaps(node)
        is_known = isinstance(node.target, torch._ops.OpOverload) and (
            node.target.namespace in ("aten", "prims")
        )
        if not is_known and not is_extern:
            raise _refuse(node, _shown(node), "is no ATen operator, and not in the closed list")
        tensors = tensors_in(result)
        for tensor in tensors:
            self._check_tensor(node, tensor)
        name = operator_name(node.target)
        if name == "copy_":
            return self._update(node)
        if not tensors:
            raise _refuse(node, _shown(node), "returns no tensor")
        if is_extern:
            return self._extern(node)
        assert isinstance(node.target, torch._ops.OpOverload)
        call = Call(self._builder, node.name, node.target, self._arguments(node), result)
        dtypes = [one.dtype for one in tensors]
        dtypes += [one.dtype for one in views_in(list(call.arguments.values()))]
        if any(dtype.is_complex for dtype in dtypes):
            lower = complex_lowering(name, GENERATED, VIEWS)
        else:
            lower = GENERATED.get(name)
        if lower is None:
            raise _refuse(node, _shown(node), "has no lowering to loops")
        try:
            return lower(call)
        except NotImplementedError as error:
            raise _refuse(node, _shown(node), f"is not lowered: {error}") from None

    def _has_gaps(self, node: torch.fx.Node) -> bool:
        """Return whether `as_strided` reads an input whose memory no index describes."""
        view = self._value(node.args[0]) if operator_name(node.target) == "as_strided" else None
        if not isinstance(view, View) or view.buffer not in self._inputs:
            return False
        buffer = self._builder.buffers[view.buffer]
        return dense_order(buffer.sizes, buffer.strides) is None

    def _number(self, node: torch.fx.Node, result: object) -> sympy.Basic:
        """Return a number of a graph; `item` takes it from a tensor."""
        value = number_of(result)
        if extern_reason(node) is not None and value.free_symbols:
            (symbol,) = value.free_symbols  # that of a bool is 0 or 1
            assert isinstance(node.target, torch._ops.OpOverload)
            self._add_extern(node, node.target, node.args, (), symbol)
        return value

    def _assert(self, node: torch.fx.Node) -> None:
        """Record an assertion; those of metadata and of ranges hold since the graph was traced."""
        name = operator_name(node.target)
        if name not in ("_assert_scalar", "_assert_async"):
            return
        value = self._value(node.args[0])
        condition = self._with_strides(value) if isinstance(value, View) else sympy.sympify(value)
        message = str(node.args[1]) if len(node.args) > 1 else "an assertion does not hold"
        self._assertions.append(Assertion(condition, message))

    def _with_effects(self, node: torch.fx.Node) -> tuple[object, None]:
        """Add an extern call that returns no tensor, in the order of effects."""
        token, target, *args = node.args
        name = str(target).removeprefix("aten.")
        if name not in extern_operators() or not isinstance(target, torch._ops.OpOverload):
            raise _refuse(node, f"the operator {target} with effects", "has no lowering to loops")
        self._add_extern(node, target, args, ())
        return self._value(token), None

    def _add_extern(
        self,
        node: torch.fx.Node,
        target: torch._ops.OperatorBase,
        args: Sequence[object],
        results: tuple[str | None, ...],
        scalar: sympy.Symbol | None = None,
    ) -> None:
        values = [self._value(one) for one in args]
        if operator_name(target) in CONTROL_FLOW:
            values = [_subgraph_of(one) for one in values]
        operands = tuple(map(self._operand, values))
        kwargs = tuple((key, self._operand(self._value(one))) for key, one in node.kwargs.items())
        is_tuple = not isinstance(node.meta.get("val"), torch.Tensor)
        extern = Extern(node.name, target, operands, kwargs, results, is_tuple, scalar)
        self._builder.steps.append(extern)

    def _arguments(self, node: torch.fx.Node) -> dict[str, object]:
        """Return the arguments of a call by their names in the schema, with defaults."""
        target = node.target
        assert isinstance(target, torch._ops.OpOverload)
        arguments = target._schema.arguments
        given = {one.name: value for one, value in zip(arguments, node.args, strict=False)}
        given.update(node.kwargs)
        return {
            one.name: self._value(given.get(one.name, one.default_value))
            for one in arguments
            if one.name in given or one.has_default_value()
        }

    def _extern(self, node: torch.fx.Node) -> object:
        """Add an extern call; return views of its results."""
        result = node.meta["val"]
        if node.all_input_nodes and any(one.device != self._device for one in tensors_in(result)):
            raise _refuse(node, _shown(node), f"runs on the CPU in a graph on {self._device}")
        is_single = isinstance(result, torch.Tensor)
        views: list[View | None] = []
        for tensor in [result] if is_single else result:
            if isinstance(tensor, _NUMBERS):
                raise _refuse(node, _shown(node), "returns a number beside tensors")
            if not isinstance(tensor, torch.Tensor):
                views.append(None)
                continue
            name = node.name if is_single else f"{node.name}_{len(views)}"
            views.append(self._add_buffer(name, tensor))
        assert isinstance(node.target, torch._ops.OperatorBase)
        results = tuple(None if view is None else view.buffer for view in views)
        self._add_extern(node, node.target, node.args, results)
        return views[0] if is_single else tuple(views)

    def _operand(self, value: object) -> object:
        """Return an argument of an extern call; a view that strides cannot express is copied."""
        if isinstance(value, tuple):
            return tuple(self._operand(one) for one in value)
        if isinstance(value, list):
            return [self._operand(one) for one in value]
        return self._with_strides(value) if isinstance(value, View) else value

    def _with_strides(self, view: View) -> View:
        """Return a view that strides can express: the view itself, or a copy."""
        is_complex = view.dtype.is_complex
        real = as_real(view) if is_complex else view
        found = strides_of(real, self._builder.buffers[view.buffer])
        if found and (not is_complex or (found[0][-1] == 1 and (found[1] / 2).is_integer)):
            return view
        copy = self._builder.add_copy(f"{view.buffer}_copy", real)
        return as_complex(copy) if is_complex else copy

    def _update(self, node: torch.fx.Node) -> View:
        """Record an update of an input at the end of the graph."""
        if self._is_off_device(node.args[0]):
            raise _refuse(node, "an input on the CPU", f"is updated in a graph on {self._device}")
        target, source = (self._value(argument) for argument in node.args[:2])
        assert isinstance(target, View) and target.buffer in self._inputs
        assert isinstance(source, View)
        if target.dtype.is_complex:
            target, source = as_real(target), as_real(source)
        assert target.index == variables_of(self._builder.buffers[target.buffer].sizes)
        made = self._builder.add_copy(f"{target.buffer}_new", source)
        self._updates.append(Update(target.buffer, made.buffer))
        return target

    def _output(self, value: object, number: int) -> Output:
        """Return a node's result with the strides that AOTAutograd and the backward rely on."""
        found = self._value(value)
        if not isinstance(found, View):
            return None if found is None else sympy.sympify(found)
        assert isinstance(value, torch.fx.Node)
        view = self._with_strides(found)
        strides = tuple(map(index_of, value.meta["val"].stride()))
        if view.dtype.is_complex:
            strides = (*(2 * stride for stride in strides), sympy.Integer(1))
        real = as_real(view) if view.dtype.is_complex else view
        actual = strides_of(real, self._builder.buffers[real.buffer])
        assert actual is not None
        pairs = zip(real.sizes, actual[0], strides, strict=True)
        if actual[0] == strides:
            return view
        self._output_strides[number] = tuple(map(index_of, value.meta["val"].stride()))
        if all(one == other or size == 1 for size, one, other in pairs):
            return view
        copy = self._builder.add_copy(f"{view.buffer}_strided", real, strides)
        return as_complex(copy) if view.dtype.is_complex else copy


def _output_values(node: torch.fx.Node) -> tuple[object, ...]:
    """Return what a graph returns; a subgraph may return one value that is not in a tuple."""
    (value,) = node.args
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _subgraph_of(value: object) -> object:
    """Return the loops of a graph that is an argument; any other argument as it is."""
    if not isinstance(value, torch.fx.GraphModule):
        return value
    (result,) = value.graph.output_node().args
    return Subgraph(trace_loops(value), isinstance(result, list | tuple))


def _device_of(module: torch.fx.GraphModule) -> torch.device:
    """Return the device of a graph's tensors; scalars may be on the CPU in addition."""
    examples = [one for node in module.graph.nodes for one in tensors_in(node.meta.get("val"))]
    devices = [one.device for one in examples]
    others = (device for device in devices if device.type != "cpu")
    return next(others, torch.device("cpu"))


def _shown(node: torch.fx.Node) -> str:
    return f"the operator {node.target}" if node.op == "call_function" else f"`{node.name}`"


def _refuse(node: torch.fx.Node, subject: str, problem: str) -> UnsupportedOperator:
    """Return the error for a node that a stage does not have, with its line in the source."""
    frames = re.findall(r'File "(.+)", line (\d+)', node.meta.get("stack_trace") or "")
    place = f", called at {frames[-1][0]}:{frames[-1][1]}" if frames else ""
    return UnsupportedOperator(f"backend `loops`: {subject} {problem} (node `{node.name}`{place})")

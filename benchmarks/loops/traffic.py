"""Bytes that graphs move, and time of their nodes: as aot_eager runs them, and as `loops` do.

The bytes of a node are its operands and results: eager reads and writes each of them once. Those of
a fused kernel are what it reads from memory and what it writes to memory for others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from fullgraph.compiler.lowering.backend import lower, tracing_decompositions
from fullgraph.compiler.lowering.fusion import Kernel, Plan, estimate
from fullgraph.compiler.lowering.ir import Buffer, Loop, product
from fullgraph.compiler.lowering.partition import partition
from fullgraph.compiler.lowering.prims import extern_reason
from fullgraph.compiler.lowering.runtime import Program
from fullgraph.compiler.private import (
    compile_with_autograd,
    example_of,
    expression_of,
    inductor_partition,
    is_view_op,
    tensors_in,
)

Graph = torch.fx.GraphModule
GATHERS = frozenset(("index", "_unsafe_index", "embedding", "gather", "index_select"))
"""Operators that read as many elements of their first operand as they return."""
FREE = frozenset(
    ("_unsafe_view", "empty", "empty_like", "empty_strided", "new_empty", "empty_permuted")
)
"""Operators that move no bytes, though their results share no memory with an operand."""


class CountedGraph:
    """A compiled graph, with the number of its calls; without a program if it was refused."""

    def __init__(self, module: Graph) -> None:
        self.module = module
        self.program: Program | None = None
        self.calls = 0

    def counting(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function that counts its calls."""

        def run(args: list[object]) -> object:
            self.calls += 1
            return function(args)

        return run


class TimedGraph(CountedGraph):
    """A graph that eager's operators run, with the shortest time of each node."""

    def __init__(self, module: Graph) -> None:
        super().__init__(module)
        self.seconds: dict[torch.fx.Node, float] = {}

    def run(self, args: list[object]) -> object:
        """Run the graph on a list of arguments."""
        return _TimedRun(self.module, self.seconds).run(*args)


class _TimedRun(torch.fx.Interpreter):
    """Run of a graph that takes the time of each node."""

    def __init__(self, module: Graph, seconds: dict[torch.fx.Node, float]) -> None:
        super().__init__(module)
        self._seconds = seconds

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node and take its time."""
        start = time.thread_time()
        result = super().run_node(n)
        took = time.thread_time() - start
        if n.op == "call_function":
            self._seconds[n] = min(took, self._seconds.get(n, took))
        return result


def count_calls(graphs: Iterable[CountedGraph], step: Callable[[], object]) -> None:
    """Count the calls of each graph in one step: those of an earlier compilation have none."""
    for graph in graphs:
        graph.calls = 0
    step()


def time_nodes(graphs: list[TimedGraph], module: Graph, inputs: list[Any]) -> Any:
    """Compile as aot_eager does, and time the nodes of the graphs."""

    def compile_graph(graph: Graph, _: object) -> Callable[..., object]:
        graphs.append(TimedGraph(graph))
        return graphs[-1].counting(graphs[-1].run)

    return compile_with_autograd(
        module,
        inputs,
        forward=compile_graph,
        backward=compile_graph,
        decompositions={},
        partition=inductor_partition,
    )


def compile_counted(graphs: list[CountedGraph], module: Graph, inputs: list[Any]) -> Any:
    """Compile by the stages of the backend `loops`, and count the calls of the graphs."""

    def compile_graph(graph: Graph, _: object) -> Callable[..., object]:
        graphs.append(CountedGraph(graph))
        graphs[-1].program = program = lower(graph)
        return graphs[-1].counting(program.code.load())

    return compile_with_autograd(
        module,
        inputs,
        forward=compile_graph,
        backward=compile_graph,
        decompositions=tracing_decompositions(),
        partition=partition,
    )


def facts(graphs: list[CountedGraph]) -> dict[str, Any]:
    """Return nodes and bytes outside the list of externs, and what runs them; and bytes moved.

    *Elided* nodes run nowhere: they are index arithmetic of others. Bytes moved are those of a
    step whose calls were counted.
    """
    nodes, sizes, through_aten = Counter[str](), Counter[str](), Counter[str]()
    moved = Counter[str]()
    for graph in graphs:
        runners = _runners(graph.program)
        for node in computing_nodes(graph.module):
            if extern_reason(node) is None:
                is_update = graph.program is None or name_of(node) == "copy_"
                what = "aten" if is_update else runners.get(node.name, "elided")
                nodes[what] += 1
                sizes[what] += node_bytes(node)
                through_aten.update([name_of(node)] if what == "aten" else [])
        if graph.program and graph.calls:
            for what, size in plan_bytes(graph.program.plan, graph.module).items():
                moved[what] += graph.calls * size
    programs = [graph.program for graph in graphs if graph.program]
    return {
        "graphs": len(graphs),
        "nodes": nodes,
        "bytes": sizes,
        "through ATen": through_aten,
        "externs": sum(len(one.externs) for one in programs),
        "kernels": sum(one.kernels for one in programs),
        "moved": moved,
    }


def _runners(program: Program | None) -> dict[str, str]:
    """Return whether a generated kernel runs a node or ATen, by name; others run nowhere."""
    found = {}
    for step in program.plan.graph.steps if program else ():
        if isinstance(step, Loop):
            found.update(dict.fromkeys(step.origins, "generated"))
        else:
            found[step.name] = "aten"
    return found


def computing_nodes(module: Graph) -> Iterator[torch.fx.Node]:
    """Yield the nodes that make a tensor in memory of its own, or write to one."""
    for node in module.graph.nodes:
        is_call = isinstance(node.target, torch._ops.OpOverload) and tensors_in(example_of(node))
        if is_call and not is_view_op(node.target) and name_of(node) not in FREE:
            yield node


def node_bytes(node: torch.fx.Node) -> int:
    """Return the bytes of a node's operands and results: each is moved once."""
    operands, result = [*node.all_input_nodes], _bytes_of(node)
    if name_of(node) == "copy_":
        operands = operands[1:]
    sizes = [_bytes_of(one) for one in operands]
    if name_of(node) in GATHERS:
        sizes[0] = min(sizes[0], result)
    return sum(sizes) + result


def name_of(node: torch.fx.Node) -> str:
    """Return the name of what a node calls: "add"."""
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return str(node.target).split(".")[1] if is_operator else getattr(node.target, "__name__", "?")


def _bytes_of(node: torch.fx.Node) -> int:
    """Return the bytes of the distinct elements of a node's tensors."""
    total = 0
    for tensor in tensors_in(example_of(node)):
        strides = tensor.stride() if tensor.layout == torch.strided else [1] * tensor.dim()
        sizes = [n for n, stride in zip(tensor.shape, strides, strict=True) if stride != 0]
        total += estimate(product([*map(expression_of, sizes)])) * tensor.element_size()
    return total


def bytes_of_nodes(nodes: Iterable[torch.fx.Node]) -> Counter[str]:
    """Return the bytes that nodes move, of externs and of others."""
    found = Counter[str]()
    for node in nodes:
        found["others" if extern_reason(node) is None else "externs"] += node_bytes(node)
    return found


def plan_bytes(plan: Plan, module: Graph) -> Counter[str]:
    """Return the bytes that extern calls move, and kernels and updates of inputs."""
    buffers = plan.graph.buffers
    names = {step.name for step in plan.steps if not isinstance(step, Kernel)}
    found = bytes_of_nodes(node for node in module.graph.nodes if node.name in names)
    found["others"] += sum(2 * _size(buffers[update.name]) for update in plan.graph.updates)
    for step in plan.steps:
        if isinstance(step, Kernel):
            found["others"] += _kernel_bytes(step, buffers, plan.in_memory)
    return found


def _kernel_bytes(kernel: Kernel, buffers: dict[str, Buffer], in_memory: frozenset[str]) -> int:
    """Return the bytes that a kernel reads from memory and writes to it.

    Of a buffer that is read in part, as many elements as iterations that read different ones.
    """
    reads: dict[str, dict[object, int]] = {}
    written = 0
    for member in kernel.members:
        ranges, item = member.loop.ranges, buffers[member.name].dtype.itemsize
        for load in member.loop.loads:
            used = set().union(*(part.free_symbols for part in load.index))
            used = set(ranges) if load.indirect else used & ranges.keys()
            count = estimate(product([ranges[one] for one in used]))
            reads.setdefault(load.buffer, {})[load.index] = count
        if member.loop.target is not None:
            written += estimate(product(member.loop.sizes)) * item
        elif member.name in in_memory:
            written += _size(buffers[member.name])
    for name, counts in reads.items():
        if name not in kernel.writes:
            written += min(
                _size(buffers[name]), sum(counts.values()) * buffers[name].dtype.itemsize
            )
    return written


def _size(buffer: Buffer) -> int:
    """Return the bytes of a buffer."""
    return estimate(product(buffer.sizes)) * buffer.dtype.itemsize

"""A compiled graph as a list of steps."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.lowering.codegen import CodeGenerator, KernelSource
from fullgraph.compiler.lowering.fusion import Kernel, Plan
from fullgraph.compiler.lowering.ir import Assertion, Buffer, Extern, Update, View, product


@dataclass(frozen=True)
class Allocate:
    """Allocate a buffer, or take the memory of one that is no longer used."""

    buffer: Buffer
    reuses: Buffer | None
    """The buffer whose memory is taken; a scatter takes that of what it updates."""


@dataclass(frozen=True)
class Free:
    """Drop buffers after their last use."""

    names: tuple[str, ...]


Call = KernelSource | Extern | Update | Assertion
RuntimeStep = Allocate | Call | Free


def make_steps(plan: Plan, generator: CodeGenerator) -> tuple[RuntimeStep, ...]:
    """Return the steps that run a plan.

    A buffer is allocated just before its kernel, and its memory is used again after its last use by
    a later buffer of as many bytes.
    """
    buffers, in_memory = plan.graph.buffers, plan.in_memory
    calls: list[Call] = [
        generator.write(step, buffers, in_memory) if isinstance(step, Kernel) else step
        for step in plan.steps
    ]
    calls += (*plan.graph.assertions, *plan.graph.updates)
    last = {name: number for number, call in enumerate(calls) for name in _uses(call)}
    constants = set(plan.graph.constants)
    kept = {one.buffer for one in plan.graph.outputs if isinstance(one, View)} | constants
    known = {name for name in plan.graph.inputs if isinstance(name, str)} | constants
    own, unused = set[str](), list[Buffer]()
    kernels = [step for step in plan.steps if isinstance(step, Kernel)]
    updates = {one.name: one.loop.updates for kernel in kernels for one in kernel.members}
    steps: list[RuntimeStep] = []
    for number, call in enumerate(calls):
        if isinstance(call, KernelSource):
            for name in call.buffers:
                if name not in known:
                    updated = updates.get(name)
                    taken_over = Allocate(buffers[name], buffers[updated]) if updated else None
                    steps.append(taken_over or _allocate(buffers[name], unused))
                    own.add(name)
        known.update(_uses(call))
        steps.append(call)
        ended = [name for name in _uses(call) if last[name] == number and name not in kept]
        taken = set(updates.values())
        unused += [buffers[name] for name in ended if name in own and name not in taken]
        dropped = tuple(name for name in ended if name not in own)
        if dropped:
            steps.append(Free(dropped))
    return tuple(steps)


def _uses(call: Call) -> tuple[str, ...]:
    """Return the buffers that a call reads or writes."""
    if isinstance(call, KernelSource):
        return call.buffers
    if isinstance(call, Extern):
        return tuple(dict.fromkeys((*call.reads, *filter(None, call.results))))
    if isinstance(call, Assertion):
        return (call.condition.buffer,) if isinstance(call.condition, View) else ()
    return (call.name, call.source)


def _allocate(buffer: Buffer, unused: list[Buffer]) -> Allocate:
    """Return the step that allocates a buffer; a buffer whose memory it takes leaves `unused`."""
    size = product(buffer.sizes)
    for other in reversed(unused):
        if other.dtype == buffer.dtype and product(other.sizes) == size:
            unused.remove(other)
            return Allocate(buffer, other)
    return Allocate(buffer, None)

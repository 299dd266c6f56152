"""Kernels: loops that run in one loop nest, and the plan of a graph as kernels and extern calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import sympy

from fullgraph.compiler.lowering.fusion.inline import simplify_indices
from fullgraph.compiler.lowering.ir import (
    E,
    Extern,
    Loop,
    LoopGraph,
    Ranges,
    Sizes,
    ranges_of,
    substitute,
)

Phase = Literal["outer", "inner", "reduction", "scan"]
Mapping = dict[sympy.Symbol, sympy.Expr]


@dataclass(frozen=True, eq=False)
class Member:
    """A loop of a kernel.

    Its phase says where it runs: once an outer iteration, once an inner one, or as a reduction
    or a scan over the inner ones.
    """

    loop: Loop
    phase: Phase
    mapping: Mapping
    """The loop's variables in terms of the kernel's: o0, o1, … and r0, r1, …"""

    @property
    def name(self) -> str:
        """Name of the buffer that it writes."""
        return self.loop.name

    @property
    def index(self) -> Sizes:
        """Index of the element that is written."""
        return tuple(part.xreplace(self.mapping) for part in self.loop.written.index)

    def mapped(self, expression: E, ranges: Ranges) -> E:
        """Return an expression of the loop in terms of the kernel's variables."""
        return simplify_indices(substitute(expression, self.mapping), ranges)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Loops with one loop nest: outer loops, and inner loops in each of their iterations."""

    outer: Sizes
    inner: Sizes
    members: tuple[Member, ...]

    @property
    def ranges(self) -> Mapping:
        """Size of each of the kernel's loop variables."""
        return {**ranges_of(self.outer, "o"), **ranges_of(self.inner, "r")}

    @property
    def is_scatter(self) -> bool:
        """Whether it writes to computed positions, in order."""
        return self.members[0].loop.target is not None

    @property
    def is_scan(self) -> bool:
        """Whether each inner iteration accumulates those before it."""
        return self.members[0].loop.scan is not None

    @property
    def writes(self) -> tuple[str, ...]:
        """Buffers that the kernel computes."""
        return tuple(member.name for member in self.members)

    @property
    def reads(self) -> tuple[str, ...]:
        """Buffers of others that the kernel reads."""
        found = [name for one in self.members for name in one.loop.reads]
        return tuple(dict.fromkeys(name for name in found if name not in self.writes))

    def __str__(self) -> str:
        nest = f"for {', '.join(map(str, self.outer)) or '1'}"
        if self.inner:
            nest += f" × {', '.join(map(str, self.inner))}"
        ranges = self.ranges
        lines = [nest]
        for one in self.members:
            reduction = f"{one.loop.reduction} " if one.loop.reduction else ""
            index = ", ".join(map(str, one.index))
            body = one.mapped(one.loop.body, ranges)
            lines.append(f"  {one.phase}: {one.name}[{index}] = {reduction}{body}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Plan:
    """A graph as kernels and extern calls, in order."""

    graph: LoopGraph
    steps: tuple[Kernel | Extern, ...]

    @property
    def in_memory(self) -> frozenset[str]:
        """Buffers that something outside the kernel that writes them reads."""
        return frozenset(self.graph.kept).union(*(step.reads for step in self.steps))

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

"""Events of a compilation, as plain values.

Every class here is frozen, holds only strings, numbers and tuples, and can be pickled, so a
`Recording` made in a forked child reads the same in its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fullgraph.compiler.operations import OperatorTrace

Span = tuple[str, int, int | None, int | None]
"""File, line, first and last column of an expression."""


@dataclass(frozen=True)
class Position:
    """A span of source code. Lines are 1-based, columns 0-based UTF-8 offsets, as in `ast`.

    A column (and the end of the span) is None where this torch version does not report it.
    """

    file: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str = ""

    @property
    def key(self) -> tuple[str, int, int | None]:
        """File, line and first column: equal for positions that start at the same place."""
        return self.file, self.line, self.column

    @property
    def span(self) -> Span:
        """File, line, first and last column.

        The last column tells the two calls in `a.b().c()` apart, which start at the same place.
        """
        return self.file, self.line, self.column, self.end_column

    @property
    def lines(self) -> range:
        """The lines of the span; the first alone if its end is unknown."""
        return range(self.line, max(self.line, self.end_line or 0) + 1)

    @property
    def extent(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """First and last line and column; None if one of them is unknown.

        Compare extents, never single columns: a part that is unknown has no order.
        """
        if self.column is None or self.end_line is None or self.end_column is None:
            return None
        return (self.line, self.column), (self.end_line, self.end_column)

    def is_inside(self, outer: Position) -> bool:
        """Return whether this is a part of `outer`, as `x` is of `f(x)`.

        False if they are equal, or if it is unknown.
        """
        inner, around = self.extent, outer.extent
        if self.file != outer.file or inner is None or around is None or inner == around:
            return False
        return around[0] <= inner[0] and inner[1] <= around[1]


class Fate(StrEnum):
    """What a graph break does to the frame that Dynamo compiles: "resumed", "skipped", …"""

    RESUMED = "resumed"
    """The frame continues in a resume function: the break costs one more graph."""
    PREFIX = "prefix"
    """Code before the break is compiled; the rest of the frame runs in eager."""
    SKIPPED = "skipped"
    """The whole frame runs in eager; functions that it calls are compiled one by one."""
    RAISED = "raised"
    """The break raised an error (`fullgraph=True`)."""


@dataclass(frozen=True)
class Break:
    """Graph break: Dynamo could not capture an operation."""

    compile_id: str
    frame: Position
    """The frame being compiled: its file, first line and name."""
    stack: tuple[Position, ...]
    """From the compiled frame down through the inlined calls; never empty."""
    fate: Fate
    gb_type: str
    gb_id: str | None
    """The id in PyTorch's graph break registry, such as "GB0170"."""
    message: str
    context: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    """The `gb_type`s this break was wrapped in, outermost first, such as "Graph break in loop"."""
    module_paths: tuple[str, ...] = ()
    """Paths of the innermost running nn.Module, relative to the recorded root ("" is the root),
    and of its siblings in the same list with the same class: Dynamo may reuse graphs among them
    without an event. Empty outside of modules."""
    state: tuple[str, ...] = ()
    """Active modes: "no_grad", "inference_mode", "autocast(cpu, bfloat16)"."""
    called_from: Position | None = None
    """User expression that called torch's code from eager; None if `stack` has user code."""


@dataclass(frozen=True)
class Node:
    """Call node of an FX graph, with the user line that it came from."""

    target: str
    file: str | None
    line: int | None
    shape: str | None
    """dtype and shape of the output, "f32[2, 3]"; None if it is not a tensor."""


@dataclass(frozen=True)
class Graph:
    """Graph that Dynamo passed to the backend."""

    compile_id: str
    frame: Position
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    """Shapes of the graph's inputs, as in `Node.shape`."""
    outputs: int
    ended_by: str | None
    """`gb_type` of the break that ended the graph; None if the frame returned."""
    ended_at: Position | None
    phase: str = "forward"
    """"forward", or "backward" for a graph of compiled autograd."""
    splits: int = 1
    """Number of pieces that DDPOptimizer split the graph into; 1 if it did not."""
    operators: OperatorTrace | None = None
    """Operators that the graph calls; None if not recorded or if it fails on fake tensors."""
    lines: frozenset[tuple[str, int]] = frozenset()
    """(file, line) of its call nodes and those of its subgraphs."""

    @property
    def ops(self) -> int:
        """Number of call nodes."""
        return len(self.nodes)


@dataclass(frozen=True)
class Skip:
    """Frame that Dynamo left to eager without a graph break."""

    frame: Position
    reason: str


@dataclass(frozen=True)
class Recompile:
    """Recompile of a frame after the guards of every earlier version failed."""

    compile_id: str
    frame: Position
    guards: tuple[str, ...]
    """Failed guard of each earlier version, newest version first."""
    positions: tuple[Position, ...] = ()
    """User lines that installed these guards; () if torch does not report them."""


@dataclass(frozen=True)
class CompileFailure:
    """Error raised by the compiler: in Dynamo, a backend or code generation."""

    compile_id: str
    frame: Position
    stage: str
    """"dynamo", "backend", "inductor" or "backward"."""
    error: str
    """The exception's type."""
    message: str
    stack: tuple[Position, ...] = ()
    traceback: str = ""
    suppressed: bool = False
    """Whether torch suppressed the error (`suppress_errors`) and ran the frame in eager."""


@dataclass(frozen=True)
class Timing:
    """Compile time in seconds by stage; None where torch does not report it."""

    compile_id: str
    frame: Position
    dynamo: float | None
    aot_autograd: float | None
    backend: float | None
    total: float | None
    guards: int | None
    phase: str = "forward"


Event = Break | Graph | Skip | Recompile | CompileFailure | Timing


@dataclass(frozen=True)
class Recording:
    """Events received by `record()`, in order."""

    torch: str
    """torch's version."""
    events: tuple[Event, ...] = ()
    unknown: tuple[str, ...] = ()
    """Kinds of event that this version of torch does not report."""

    @property
    def breaks(self) -> tuple[Break, ...]:
        return tuple(e for e in self.events if isinstance(e, Break))

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return tuple(e for e in self.events if isinstance(e, Graph))

    @property
    def skips(self) -> tuple[Skip, ...]:
        return tuple(e for e in self.events if isinstance(e, Skip))

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        return tuple(e for e in self.events if isinstance(e, Recompile))

    @property
    def failures(self) -> tuple[CompileFailure, ...]:
        return tuple(e for e in self.events if isinstance(e, CompileFailure))

    @property
    def timings(self) -> tuple[Timing, ...]:
        return tuple(e for e in self.events if isinstance(e, Timing))

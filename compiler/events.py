"""What happened while something compiled, as plain values.

Every class here is frozen, holds only strings, numbers and tuples, and can be pickled, so a
`Recording` made in a forked child reads the same in its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Position:
    """A span of source code. Lines are 1-based, columns 0-based UTF-8 offsets, as in `ast`.

    A column (and the end of the span) is None where the torch version does not tell it.
    """

    file: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str = ""

    @property
    def key(self) -> tuple[str, int, int | None]:
        """What makes two positions the same place."""
        return self.file, self.line, self.column


class Fate(StrEnum):
    """What a graph break did to the frame that Dynamo was compiling."""

    RESUMED = "resumed"
    """The frame goes on in a resume function: the break costs one more graph."""
    PREFIX = "prefix"
    """What came before the break is compiled, the rest of the frame runs eager."""
    SKIPPED = "skipped"
    """The whole frame runs eager; functions it calls are compiled one by one."""
    RAISED = "raised"
    """The break was an error to the caller (`fullgraph=True`)."""


@dataclass(frozen=True)
class Break:
    """Dynamo met something that it cannot put into a graph."""

    compile_id: str
    frame: Position
    """The frame being compiled: its file, first line and name."""
    stack: tuple[Position, ...]
    """From the frame being compiled down through the inlined calls; never empty."""
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
    """The innermost nn.Module that was running, relative to the recorded root ("" is the root
    itself), and those beside it in the same list that run the same code: Dynamo may reuse one's
    graphs for the others and tell nothing. Empty outside of modules."""
    state: tuple[str, ...] = ()
    """What was on at the break: "no_grad", "inference_mode", "autocast(cpu, bfloat16)"."""
    called_from: Position | None = None
    """The user's expression whose eager evaluation led here, when all of `stack` is torch's."""


@dataclass(frozen=True)
class Node:
    """One operation of a graph: a call node of FX and the user's line it came from."""

    target: str
    file: str | None
    line: int | None
    shape: str | None
    """dtype and sizes of the output as one short text: "f32[2, 3]"; None if it is no tensor."""


@dataclass(frozen=True)
class Graph:
    """A graph that Dynamo handed to the backend."""

    compile_id: str
    frame: Position
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    """Shapes of the graph's inputs, written as in `Node.shape`."""
    outputs: int
    ended_by: str | None
    """Why the graph ended where it did; None when the frame returned."""
    ended_at: Position | None
    phase: str = "forward"
    """"forward", or "backward" for a graph of compiled autograd."""
    splits: int = 1
    """The number of pieces DDPOptimizer cut the graph into."""

    @property
    def ops(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Skip:
    """A frame that Dynamo left to eager without calling it a break."""

    frame: Position
    reason: str


@dataclass(frozen=True)
class Recompile:
    """A frame was compiled again because the guards of every earlier version failed."""

    compile_id: str
    frame: Position
    guards: tuple[str, ...]
    """The guard that failed, one for each earlier version, newest version first."""
    positions: tuple[Position, ...] = ()
    """The user's lines that asked for these guards, where the compiler tells them."""


@dataclass(frozen=True)
class Failure:
    """The compiler itself raised: an internal error, a backend's error, a failed codegen."""

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
    """Whether the frame went on in eager all the same."""


@dataclass(frozen=True)
class Timing:
    """What one compilation took, in seconds by stage; None is what torch did not tell."""

    compile_id: str
    frame: Position
    dynamo: float | None
    aot_autograd: float | None
    backend: float | None
    total: float | None
    guards: int | None
    phase: str = "forward"


Event = Break | Graph | Skip | Recompile | Failure | Timing


@dataclass(frozen=True)
class Recording:
    """Everything `recorder.record()` heard, in order."""

    torch: str
    """torch's version."""
    events: tuple[Event, ...] = ()
    unknown: tuple[str, ...] = ()
    """What this version of torch cannot tell, one sentence each."""

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
    def failures(self) -> tuple[Failure, ...]:
        return tuple(e for e in self.events if isinstance(e, Failure))

    @property
    def timings(self) -> tuple[Timing, ...]:
        return tuple(e for e in self.events if isinstance(e, Timing))

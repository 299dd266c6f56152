"""What `explain` found, as plain frozen values that every renderer draws."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.events import Position


@dataclass(frozen=True)
class Advice:
    """Something to try against a cause."""

    text: str
    """One imperative sentence: "Guard the call with `torch.compiler.is_compiling()`."."""
    kind: str
    """"code" (edit the source) or "config" (a setting of the compiler)."""
    before: str = ""
    after: str = ""
    """A small example, before and after; empty when the sentence says it all."""
    trap: str = ""
    """What changes or can go wrong when it is followed."""
    modes: tuple[str, ...] = ()
    """The modes in which this fix was run and left no break: "default", "fullgraph"."""


@dataclass(frozen=True)
class Cause:
    """One reason at one expression, however often it was met."""

    id: str
    """"C1", "C2", … in program order; hidden causes come after the others."""
    category: str
    gb_id: str | None
    gb_type: str
    position: Position
    expression: str
    """The source text of the span; "" when the source cannot be read."""
    source: tuple[tuple[int, str], ...]
    """Numbered lines around the expression, three on each side."""
    message: str
    """One plain sentence, with the real value or shape where it was seen."""
    detail: str = ""
    """The compiler's own explanation."""
    stack: tuple[Position, ...] = ()
    """From the outermost frame to the innermost, library frames included."""
    module_path: str | None = None
    """"layers[0..2]": the submodules in which it was met, relative to the model."""
    frame: str = "resumed"
    """"resumed", "prefix" or "skipped": the worst it did to a frame."""
    hidden: bool = False
    """Whether it shows only after another cause is out of the way."""
    behind: str | None = None
    """The id of the cause it was found behind."""
    branch: str | None = None
    """"not taken" when it lies on the side of a branch that the inputs do not take."""
    modes: tuple[str, ...] = ("default",)
    events: int = 1
    """How often Dynamo met it; 0 for a hidden cause, which the real program never meets."""
    graphs: tuple[str, ...] = ()
    """Ids of the graphs that ended at it."""
    ops_before: int | None = None
    ops_after: int | None = None
    """Ops of the graph that ends here and of the next one; None where it is not known."""
    state: tuple[str, ...] = ()
    """"no_grad", "autocast(cpu, bfloat16)" …: what was on at the break."""
    advice: tuple[Advice, ...] = ()
    consequences: tuple[str, ...] = ()
    """What else broke only because of it, one sentence each."""


@dataclass(frozen=True)
class GraphInfo:
    """One graph the backend was given."""

    id: str
    """"G1", "G2", … in the order of compilation."""
    compile_id: str
    function: str
    file: str
    line: int
    ops: int
    inputs: tuple[str, ...]
    first_line: int | None
    last_line: int | None
    """The user's lines that the graph covers in `file`; None when unknown."""
    ended_by: str | None
    """The id of the cause that ended it; None when the frame returned."""
    phase: str = "forward"
    splits: int = 1
    targets: tuple[str, ...] = ()
    """The ops' names in order."""


@dataclass(frozen=True)
class RecompileInfo:
    """One frame that was compiled more than once, with all its reasons."""

    function: str
    file: str
    line: int
    count: int
    guards: tuple[str, ...]
    """Distinct failed guards, in order."""
    positions: tuple[Position, ...]
    message: str
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True)
class Fallback:
    """Code that silently ran eager."""

    function: str
    file: str
    line: int
    reason: str
    """One plain sentence."""
    gb_id: str | None = None
    cause: str | None = None
    """The id of the cause behind it, if one is known."""
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True)
class Crash:
    """The compiler failed: a bug in it, not in the user's code."""

    stage: str
    error: str
    message: str
    position: Position | None
    mode: str = "default"
    traceback: str = ""


@dataclass(frozen=True)
class Mode:
    """What one way of calling torch.compile gives."""

    graphs: int | None
    breaks: int | None
    """Break events in default mode; the number of causes under fullgraph."""
    ok: bool | None = None
    """Whether the model is one graph without a break; None if it was not tried."""


@dataclass(frozen=True)
class Note:
    """A secondary fact at a place: a device synchronisation, a guard that will recompile."""

    kind: str
    """"sync", "guard", "state", "unmask", "restore", "unknown" or "output"."""
    message: str
    position: Position | None = None


@dataclass(frozen=True)
class Measurement:
    """What was timed, in seconds and bytes. Medians over `repeats` calls."""

    eager: float
    compiled: float
    compile: float
    repeats: int
    peak_eager: int | None
    peak_compiled: int | None
    pays_after: int | None
    """Calls after which compiling has paid for itself; None if it never does."""


@dataclass(frozen=True)
class ExplanationData:
    """Everything that `explain` found, as plain data without tensors, for renderers to draw."""

    torch: str
    target: str
    """What was explained, as a name: "Net" or "model.py:Net"."""
    backend: str
    verdict: str
    """One line: "4 graphs, 3 breaks from 2 causes · default mode · torch 2.13"."""
    default: Mode
    fullgraph: Mode
    causes: tuple[Cause, ...] = ()
    graphs: tuple[GraphInfo, ...] = ()
    recompiles: tuple[RecompileInfo, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    crashes: tuple[Crash, ...] = ()
    notes: tuple[Note, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    """How often the user's code ran, by purpose: (("default mode", 1), ("eager values", 1))."""
    output: str = ""
    """What the user's code printed in one run."""
    measurement: Measurement | None = None
    compile_seconds: tuple[tuple[str, float], ...] = ()
    """Compile time by stage, in seconds."""
    error: str | None = None
    """One sentence when the work could not be finished; the rest is what was found until then."""
    complete: bool = True
    """False while hidden causes are still being looked for."""

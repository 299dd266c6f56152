"""What `explain` found, as plain frozen values that every renderer draws."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.compiler.events import Position
from fullgraph.compiler.operations import Saving


@dataclass(frozen=True)
class Advice:
    """A suggestion on how to remove a cause."""

    text: str
    """One imperative sentence: "Guard the call with `torch.compiler.is_compiling()`."."""
    kind: str
    """"code" (edit the source) or "config" (a setting of the compiler)."""
    before: str = ""
    after: str = ""
    """A small example before and after the change; may be empty."""
    trap: str = ""
    """What can change or go wrong if the advice is followed."""
    modes: tuple[str, ...] = ()
    """The modes in which the example, not the user's model, was tested: "default", "fullgraph"."""


@dataclass(frozen=True)
class Edit:
    """One edit of the user's own source that removes a cause."""

    rule: str
    """The code of the rewrite rule that offers it: "FG401"."""
    file: str
    line: int
    before: tuple[str, ...]
    """The lines that it removes, without their common indentation."""
    after: tuple[str, ...]
    """The lines that it adds, without their common indentation."""
    why: str
    """One sentence: what the edit does, and why that removes the cause."""
    diff: str
    """The edit as a unified diff of the file; "" for a setting alone."""
    applicability: str = "safe"
    """"safe" (same meaning), "unsafe" (see `assumes`) or "display" (an idea to adapt)."""
    assumes: tuple[str, ...] = ()
    """What must hold for the meaning to stay, one clause each."""
    settings: tuple[str, ...] = ()
    """Statements that set configuration: "torch._dynamo.config.allow_rnn = True"."""
    removes: tuple[str, ...] = ()
    """Ids of all causes that this edit removes."""
    tried: str = ""
    """What a run of the user's model with the edit showed; "" if it was not run."""


@dataclass(frozen=True)
class Cause:
    """One reason for graph breaks at one expression, with all its events."""

    id: str
    """"C1", "C2", … in program order; hidden causes come after the others."""
    category: str
    gb_id: str | None
    gb_type: str
    position: Position
    expression: str
    """The source text of the span; "" when the source cannot be read."""
    source: tuple[tuple[int, str], ...]
    """(Line number, text) of the expression's lines, and of three before and after them."""
    message: str
    """One sentence, with the eager value or shape if it was seen."""
    detail: str = ""
    """The explanation that Dynamo gives."""
    stack: tuple[Position, ...] = ()
    """From the outermost frame to the innermost, library frames included."""
    module_path: str | None = None
    """"layers[0..2]": the submodules in which it occurred, relative to the model."""
    frame: str = "resumed"
    """The worst effect on a frame: "resumed" after the break, "prefix" (only the part before it is
    compiled) or "skipped" (all of it runs in eager)."""
    hidden: bool = False
    """Whether it shows only after another cause is removed."""
    behind: str | None = None
    """The id of the cause that hides it; None if unknown, or if it is not hidden."""
    branch: str | None = None
    """"not taken" if it lies on a branch that the inputs do not take; else None."""
    modes: tuple[str, ...] = ("default",)
    events: int = 1
    """Number of graph breaks; 0 for a hidden cause, which the unchanged program does not reach."""
    graphs: tuple[str, ...] = ()
    """Ids of the graphs that ended at it."""
    ops_before: int | None = None
    ops_after: int | None = None
    """Number of ops of the graph that ends here and of the next one; None if unknown."""
    state: tuple[str, ...] = ()
    """"no_grad", "autocast(cpu, bfloat16)" …: what was active at the break."""
    advice: tuple[Advice, ...] = ()
    edits: tuple[Edit, ...] = ()
    """Edits that the rewrite rules offer, best first."""
    url: str = ""
    """Address of the page about `gb_id` in torch's documentation; "" if there is none."""
    consequences: tuple[str, ...] = ()
    """What broke only because of this cause, one sentence each."""
    saving: Saving | None = None
    """Estimate of what joining the graphs around it would save in one run; None if unknown."""
    next_graph: str | None = None
    """The id of the first graph that was compiled after the break; None if none was."""


@dataclass(frozen=True)
class GraphInfo:
    """One graph that the backend received."""

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
    """The first and last line of user code that the graph covers in `file`; None if unknown."""
    ended_by: str | None
    """The id of the cause that ended it; None if the frame returned."""
    phase: str = "forward"
    splits: int = 1
    targets: tuple[str, ...] = ()
    """The ops' names in order."""


@dataclass(frozen=True)
class RecompileInfo:
    """The recompiles that one changing value caused, with the guards that failed."""

    function: str
    """The first frame that was compiled again, with its file and line."""
    file: str
    line: int
    count: int
    guards: tuple[str, ...]
    """Distinct failed guards, in order."""
    positions: tuple[Position, ...]
    message: str
    advice: tuple[Advice, ...] = ()
    root: str = ""
    """The value that changed, "self.count"; "" if it has no name."""
    category: str = ""
    """What kind of value it is: "recompile: number attribute"."""
    where: Position | None = None
    """The place in the user's source where it is read or written."""
    functions: tuple[str, ...] = ()
    """All functions that were compiled again because of it."""
    seconds: float | None = None
    """Compile time of these recompiles; None if torch does not report it."""
    edits: tuple[Edit, ...] = ()
    """Edits that the rewrite rules offer, best first."""

    def as_cause(self, id: str = "") -> Cause:
        """Return the changed value as a cause, for rules to offer edits and for rows to show."""
        return Cause(
            id=id,
            category=self.category,
            gb_id=None,
            gb_type="",
            position=self.where or Position(self.file, self.line),
            expression=self.root,
            source=(),
            message=self.message,
            advice=self.advice,
            edits=self.edits,
        )


@dataclass(frozen=True)
class Fallback:
    """A frame that ran in eager without a graph break."""

    function: str
    file: str
    line: int
    reason: str
    """One plain sentence."""
    gb_id: str | None = None
    cause: str | None = None
    """The id of the cause that led to it, if known."""
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True)
class Crash:
    """An error that torch.compile raises and eager does not."""

    stage: str
    error: str
    message: str
    position: Position | None
    mode: str = "default"
    traceback: str = ""
    conclusion: str = "This is a bug in the compiler, not in your code."
    """Whose error it is and what to do about it, as one sentence."""


@dataclass(frozen=True)
class Mode:
    """Number of graphs and breaks under torch.compile in one mode."""

    graphs: int | None
    breaks: int | None
    """Number of graph breaks in default mode; number of causes with `fullgraph=True`."""
    ok: bool | None = None
    """Whether the model is one graph without a break; None if not tried."""


@dataclass(frozen=True)
class Verification:
    """Outcome of a run under Inductor with `fullgraph=True`, compared with eager."""

    ok: bool
    detail: str = ""
    """How it differs or why it does not run, as a clause; "" if it behaves as in eager."""


@dataclass(frozen=True)
class Note:
    """A secondary fact: a device synchronisation, a guard that will recompile."""

    kind: str
    """"sync", "guard", "state", "unmask", "restore", "unknown" or "output"."""
    message: str
    position: Position | None = None


@dataclass(frozen=True)
class Measurement:
    """Times in seconds and memory in bytes; times are medians over `repeats` calls."""

    eager: float
    compiled: float
    compile: float
    repeats: int
    peak_eager: int | None
    peak_compiled: int | None
    pays_after: int | None
    """Number of calls after which compilation has paid off; None if it never does."""


@dataclass(frozen=True)
class ExplanationData:
    """Everything that `explain` found, as plain data without tensors, for renderers to draw."""

    torch: str
    target: str
    """What was explained, as a name: "Net" or "model.py:Net"."""
    backend: str
    verdict: str
    """One sentence: "Net runs as 3 graphs: 2 breaks from 2 causes, none hidden."."""
    default: Mode
    fullgraph: Mode
    causes: tuple[Cause, ...] = ()
    graphs: tuple[GraphInfo, ...] = ()
    recompiles: tuple[RecompileInfo, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    crashes: tuple[Crash, ...] = ()
    notes: tuple[Note, ...] = ()
    hidden_search: str = ""
    """How the search for hidden causes ended: "nothing new", at a limit ("rounds" or "seconds"),
    or "" without a search."""
    runs: tuple[tuple[str, int], ...] = ()
    """How often the user's code ran, by purpose: (("default mode", 1), ("eager values", 1))."""
    output: str = ""
    """What the user's code printed in one run."""
    measurement: Measurement | None = None
    compile_seconds: tuple[tuple[str, float], ...] = ()
    """Compile time by stage, in seconds."""
    verification: Verification | None = None
    """Whether Inductor with `fullgraph=True` behaves as eager does; None if it was not run."""
    error: str | None = None
    """Why the explanation could not be finished, as one sentence; None if it was."""
    traceback: str = ""
    """Python's traceback of that error, if the program raised it."""
    complete: bool = True
    """Whether this is the last explanation; False for the partial ones before it."""
    eager_ops: tuple[int, ...] = ()
    """How many operators of the first call ran in eager: before its first graph, and after each of
    its graphs in the forward pass; () if that was not counted."""

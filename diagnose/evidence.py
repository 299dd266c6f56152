"""Evidence: what the runs of a program recorded, from which an explanation is composed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from fullgraph.compiler.events import Break, Position, Recording
from fullgraph.compiler.isolation import JobOutcome
from fullgraph.compiler.observe import Observations, observe
from fullgraph.compiler.operations import Saving
from fullgraph.compiler.program import Program
from fullgraph.compiler.recording import RECOMPILE_LIMIT
from fullgraph.diagnose.causes import (
    BreakGroup,
    fold_consequences,
    group_breaks,
    group_hidden,
    merge_groups,
)
from fullgraph.diagnose.cost import TimingOutcome
from fullgraph.diagnose.explanation_data import Fallback, Note
from fullgraph.diagnose.hidden_search import HiddenSearch, add_values
from fullgraph.diagnose.trace import TIMEOUT, IsolatedJob, Trace


@dataclass(frozen=True)
class EagerRun:
    """Result of a run in eager: the observed values, and why it failed if it did."""

    values: Observations = field(default_factory=Observations)
    error: str | None = None
    """Why the program fails in eager too, as one sentence; None if it does not."""
    runs: int = 0
    unrestored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Everything that the steps of `explain` recorded so far; each step adds one field."""

    target: str
    backend: str
    function: Position | None
    """The function being explained; None if it has no Python code."""
    default: Trace
    """The trace in default mode."""
    eager: EagerRun = field(default_factory=EagerRun)
    capture: Trace | None = None
    """A trace that records everything that breaks under `fullgraph=True`; None if not run."""
    fullgraph: Trace | None = None
    """The trace of a call with `fullgraph=True`; None if not run."""
    search: HiddenSearch = field(default_factory=HiddenSearch)
    eager_ops: tuple[int, ...] = ()
    """The operators of the first call in no graph: before the first, after each; () if unknown."""
    timing: TimingOutcome | None = None
    savings: tuple[Saving | None, ...] = ()
    """What joining each graph of the first call with the next would save; () if not estimated."""
    fallbacks: tuple[Fallback, ...] = ()
    notes: tuple[Note, ...] = ()
    error: str | None = None
    """Why the program could not be explained, as one sentence; None if it could."""
    complete: bool = False

    @property
    def traceback(self) -> str:
        """The traceback of the error that the program raised; "" if there is none."""
        raised = self.default.raised
        return raised.traceback if self.error is not None and raised is not None else ""

    @property
    def fails_in_eager(self) -> bool:
        """Whether the program itself fails, compiled or not: what broke then is no cause."""
        return self.eager.error is not None and self.default.crash != TIMEOUT

    @property
    def is_broken(self) -> bool:
        """Whether default mode had a graph break, a compile failure, an exception or a crash."""
        trace = self.default
        recording = trace.recording
        return bool(recording.breaks or recording.failures or trace.raised or trace.crash)

    @property
    def works_under_fullgraph(self) -> bool | None:
        """Whether `fullgraph=True` works: it ran, or default mode had no break; None if unknown."""
        if self.fullgraph is not None:
            if self.fullgraph.crash == TIMEOUT:
                return None
            return self.fullgraph.raised is None and self.fullgraph.crash is None
        default = self.default
        if default.raised or default.crash or not default.recording.graphs:
            return None
        return True if not breaks_of(default.recording) else None

    @property
    def values(self) -> Observations:
        """Values that expressions had in eager, from the eager run and the search."""
        return add_values(self.eager.values, self.search.values)

    @property
    def groups(self) -> list[BreakGroup]:
        """The breaks of both modes and the hidden ones, grouped by cause."""
        hidden = self.search.hidden
        groups = group_breaks(self.default.recording, "default", self.function)
        groups = merge_groups(groups, group_hidden(h for h in hidden if h[1] == "default"))
        if self.capture is not None and not self.works_under_fullgraph:
            for trace in (self.capture, self.fullgraph):
                if trace is not None:
                    others = group_breaks(trace.recording, "fullgraph", self.function)
                    groups = merge_groups(groups, others)
            groups = merge_groups(groups, group_hidden(h for h in hidden if h[1] == "fullgraph"))
        return fold_consequences(groups)


def breaks_of(recording: Recording) -> list[Break]:
    """Return the graph breaks of a recording, without the events of a recompile limit."""
    return [brk for brk in recording.breaks if brk.gb_type != RECOMPILE_LIMIT]


def break_places(evidence: Evidence) -> list[Position]:
    """Return the places of the causes in default mode."""
    groups = group_breaks(evidence.default.recording, "default", evidence.function)
    return [group.place for group in groups]


def make_observation_job(program: Program, evidence: Evidence) -> IsolatedJob[Observations]:
    """Return the job that runs the program in eager and records the values at the causes."""
    places = break_places(evidence)
    return lambda emit, in_process: observe(lambda: program.run(program.target), places)


def with_eager_run(evidence: Evidence, program: Program, outcome: JobOutcome[object]) -> Evidence:
    """Return `evidence` with the values of an eager run, or with the reason why the run failed.

    `outcome` is what the job of `make_observation_job` returned.
    """
    values = outcome.value if isinstance(outcome.value, Observations) else Observations()
    eager = EagerRun(
        values,
        _why_eager_fails(program.name, evidence.default, outcome, values),
        evidence.eager.runs + 1,
        outcome.unrestored,
    )
    return replace(evidence, eager=eager, error=eager.error)


def _why_eager_fails(
    name: str, default: Trace, outcome: JobOutcome[object], values: Observations
) -> str | None:
    """Return one sentence on why the program fails in eager; None if it does not.

    `name` is the name of the program, `default` is its trace in default mode, and `outcome` and
    `values` come from its run in eager. If only the compiled run exceeded the time limit, the
    sentence says so.
    """
    place = default.raised.position if default.raised is not None else None
    if outcome.status == "signal":
        return f"{name} dies in eager, without torch.compile, by {outcome.signal}."
    if outcome.error is not None and outcome.error.type == "SystemExit":
        code = _EXIT_CODE.search(outcome.error.message)
        how = f"exit code {code[1]}" if code else f"SystemExit({outcome.error.message})"
        return (
            f"{name} ends the process in eager, without torch.compile, by {how}; "
            "fix that first, or give inputs that it accepts."
        )
    if default.crash == TIMEOUT and outcome.status == "timeout":
        return (
            f"{name} does not return within {outcome.seconds:.0f} s in eager, without "
            "torch.compile: allow more seconds, or give inputs for which it returns."
        )
    if default.crash == TIMEOUT and outcome.value is not None and not values.raised:
        return (
            f"torch.compile does not finish {name} in the time it has; a run in eager takes "
            f"{outcome.seconds:.1f} s: allow more seconds."
        )
    if outcome.error is not None:
        what = f"{outcome.error.type}: {outcome.error.message}".rstrip(": ")
    elif values.raised:
        what = values.raised
    else:
        return None
    line = f" at {place.file}:{place.line}" if place is not None else ""
    return (
        f"{name} raises in eager, without torch.compile: {what}{line}; "
        "fix that first, or give inputs that it accepts."
    )


_EXIT_CODE = re.compile(r"ended itself with exit code (-?\d+)")
"""What the isolation says of a process that `os._exit` ended."""

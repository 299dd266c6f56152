"""What is known about a program so far, and the explanation it makes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fullgraph.compiler.events import Break, Failure, Position, Recording
from fullgraph.compiler.observe.values import Observations
from fullgraph.compiler.private import current_stance, has_dispatch_mode, is_compile_disabled
from fullgraph.compiler.recording import RECOMPILE_LIMIT
from fullgraph.diagnose.causes import grouping as causal
from fullgraph.diagnose.causes.places import key, place_of
from fullgraph.diagnose.causes.recompiles import recompiles
from fullgraph.diagnose.explanation import (
    Cause,
    Crash,
    Explanation,
    Fallback,
    GraphInfo,
    Measurement,
    Mode,
    Note,
)
from fullgraph.diagnose.taxonomy import (
    Category,
    advise,
    describe_limit,
    describe_skip,
    is_consequence,
)
from fullgraph.diagnose.trace import Trace
from fullgraph.diagnose.unmask.unmask import Hidden

_WAITS = {
    Category.BRANCH,
    Category.SCALAR,
    Category.MASK,
    Category.NONZERO,
    Category.DYNAMIC_SHAPE,
    Category.COMPARISON,
    Category.ASSERT,
}
"""Categories whose expression needs a tensor's values on the host."""


@dataclass
class Draft:
    """Everything found so far."""

    target: str
    backend: str
    where: Position | None
    """The function being explained, for telling its own code from torch's."""
    default: Trace
    capture: Trace | None = None
    fullgraph: Trace | None = None
    values: Observations = field(default_factory=Observations)
    hidden: list[tuple[Hidden, str]] = field(default_factory=list)
    """Hidden breaks, and the mode each was found in."""
    notes: list[Note] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    output: str = ""
    measurement: Measurement | None = None
    error: str | None = None
    fallbacks: list[Fallback] = field(default_factory=list)
    complete: bool = False

    def see(self, values: Observations) -> None:
        """Add eager values of places that have none yet."""
        known = {key(place.position) for place in self.values.places}
        fresh = [place for place in values.places if key(place.position) not in known]
        self.values = replace(self.values, places=(*self.values.places, *fresh))

    def groups(self) -> list[causal.Group]:
        """The causes of both modes, and those behind them."""
        found = causal.groups(self.default.recording, "default", self.where)
        found = causal.merge(found, self._behind("default"))
        if self.capture is not None and not self.whole:
            for trace in (self.capture, self.fullgraph):
                if trace is not None:
                    met = causal.groups(trace.recording, "fullgraph", self.where)
                    found = causal.merge(found, met)
            found = causal.merge(found, self._behind("fullgraph"))
        return causal.folded(found)

    def _behind(self, mode: str) -> list[causal.Group]:
        return [
            causal.Group(hidden.place, [hidden.event], [mode], hidden=hidden)
            for hidden, found_in in self.hidden
            if found_in == mode and not is_consequence(hidden.event)
        ]

    @property
    def whole(self) -> bool | None:
        """Whether `fullgraph=True` works; None if it is not known."""
        if self.fullgraph is not None:
            return self.fullgraph.raised is None and self.fullgraph.crash is None
        default = self.default
        if default.raised or default.crash or not default.recording.graphs:
            return None
        return True if not _breaks(default.recording) else None

    def explanation(self) -> Explanation:
        """The explanation as far as it goes."""
        recording = self.default.recording
        found = causal.causes(self.groups(), recording.graphs, self.values)
        crashes = tuple(self._crashes())
        graphs = _graphs(recording, found)
        met = causal.groups(recording, "default", self.where)
        breaks = sum(len(group.breaks) for group in met)
        first = self.default.recording.events[: self.default.first_call]
        in_first = sum(1 for e in Recording("", tuple(first)).graphs if e.phase == "forward")
        default = Mode(in_first, breaks, not breaks and bool(graphs) and not crashes)
        both = [cause for cause in found if "fullgraph" in cause.modes]
        known = self.whole is not None
        fullgraph = Mode(
            in_first if self.whole and not breaks else (1 if self.whole else None),
            len(both) if known else None,
            self.whole,
        )
        explanation = Explanation(
            torch=recording.torch,
            target=self.target,
            backend=self.backend,
            verdict="",
            default=default,
            fullgraph=fullgraph,
            causes=found,
            graphs=graphs,
            recompiles=recompiles(recording),
            fallbacks=(*_fallbacks(recording, found), *self.fallbacks),
            crashes=crashes,
            notes=(*_syncs(found), *self.notes),
            runs=tuple(self.runs.items()),
            output=self.output,
            measurement=self.measurement,
            compile_seconds=_compile_seconds(recording) if self.measurement else (),
            error=self.error,
            complete=self.complete,
        )
        return _with_verdict(explanation)

    def _crashes(self) -> Iterable[Crash]:
        told: set[tuple[str, object]] = set()
        if self.error is not None:  # the user's own error, which the compiler only met first
            return
        for trace, mode in ((self.default, "default"), (self.fullgraph, "fullgraph")):
            if trace is None:
                continue
            failures = trace.recording.failures
            for failure in failures:
                crash = _crash(failure, mode)
                if (crash.error, crash.position) not in told:
                    told.add((crash.error, crash.position))
                    yield crash
            raised = trace.raised
            unexplained = (
                raised
                and not failures
                and "RecompileLimit" not in raised.type
                and (mode == "default" or not _breaks(trace.recording))
            )
            if raised and unexplained and (raised.type, raised.position) not in told:
                told.add((raised.type, raised.position))
                yield Crash(
                    "backend", raised.type, raised.message, raised.position, mode, raised.traceback
                )
            if trace.crash:
                stage = "backend" if trace.recording.graphs else "dynamo"
                yield Crash(stage, trace.crash, _how_it_ended(trace.crash), self.where, mode)


def _how_it_ended(crash: str) -> str:
    if crash == "timeout":
        return "It took longer than the time limit."
    if crash.startswith("SIG"):
        return f"The process was ended by {crash}."
    return crash


def _crash(failure: Failure, mode: str) -> Crash:
    position = failure.stack[-1] if failure.stack else failure.frame
    message = failure.message.strip().partition("\n")[0]
    return Crash(failure.stage, failure.error, message, position, mode, failure.traceback)


def _breaks(recording: Recording) -> list[Break]:
    return [brk for brk in recording.breaks if brk.gb_type != RECOMPILE_LIMIT]


def _graphs(recording: Recording, found: tuple[Cause, ...]) -> tuple[GraphInfo, ...]:
    ended = {id: cause.id for cause in reversed(found) for id in cause.graphs}
    infos = []
    for i, graph in enumerate(recording.graphs, 1):
        lines = [node.line for node in graph.nodes if node.line and node.file == graph.frame.file]
        infos.append(
            GraphInfo(
                f"G{i}",
                graph.compile_id,
                graph.frame.function,
                graph.frame.file,
                graph.frame.line,
                graph.ops,
                graph.inputs,
                min(lines, default=None),
                max(lines, default=None),
                ended.get(f"G{i}"),
                graph.phase,
                graph.splits,
                tuple(node.target for node in graph.nodes),
            )
        )
    return tuple(infos)


def _fallbacks(recording: Recording, found: tuple[Cause, ...]) -> Iterable[Fallback]:
    seen = set()
    for event in recording.breaks:
        if event.gb_type == RECOMPILE_LIMIT and event.frame not in seen:
            seen.add(event.frame)
            yield Fallback(
                event.frame.function,
                event.frame.file,
                event.frame.line,
                describe_limit(event) or event.explanation,
                event.gb_id,
                None,
                advise(event, causal.expression_at(place_of(event))),
            )
    for skip in recording.skips:
        reason = describe_skip(skip.reason)
        if reason is not None:
            yield Fallback(skip.frame.function, skip.frame.file, skip.frame.line, reason)


def _syncs(found: tuple[Cause, ...]) -> Iterable[Note]:
    for cause in found:
        if cause.category in {category.value for category in _WAITS}:
            yield Note(
                "sync",
                f"`{cause.expression}` needs a value on the host: on a GPU each call waits for "
                "the device.",
                cause.position,
            )


def _compile_seconds(recording: Recording) -> tuple[tuple[str, float], ...]:
    """Seconds of compilation by stage, each without the stages inside it."""
    dynamo, aot, inductor = (
        sum(getattr(t, name) or 0.0 for t in recording.timings)
        for name in ("dynamo", "aot_autograd", "backend")
    )
    stages = {"Dynamo": dynamo - aot, "AOTAutograd": aot - inductor, "Inductor": inductor}
    return tuple((name, seconds) for name, seconds in stages.items() if seconds > 0)


def nothing_compiled(target: object, trace: Trace, where: Position | None) -> Fallback | None:
    """Why a call left no trace in the compiler at all, if that is what happened."""
    recording = trace.recording
    if recording.graphs or recording.breaks or recording.failures or trace.crash:
        return None
    if any(describe_skip(skip.reason) for skip in recording.skips):
        return None
    place = where or Position("", 0)
    stance = current_stance()
    if callable(target) and is_compile_disabled(target):
        reason = "It is excluded from compilation by `torch.compiler.disable`."
    elif stance not in (None, "default"):
        reason = f"`torch.compiler.set_stance({stance!r})` is active: nothing is compiled."
    elif has_dispatch_mode():
        reason = "A TorchDispatchMode is active, under which torch.compile does not work."
    elif recording.timings:
        return None  # traced to its end: there is no tensor operation in it
    else:
        reason = "Nothing of it was compiled, and this version of torch does not tell why."
    return Fallback(place.function, place.file, place.line, reason)


def _with_verdict(e: Explanation) -> Explanation:
    return replace(e, verdict=verdict(e))


def verdict(e: Explanation) -> str:
    """The explanation in one line."""
    end = f" · default mode · torch {e.torch.partition('+')[0]}"
    if e.error is not None:
        return f"{e.error}{end}"
    shown = [c for c in e.causes if not c.hidden and "default" in c.modes]
    parts = [_count(e.default.graphs, "graph")]
    if e.default.breaks:
        parts.append(f"{_count(e.default.breaks, 'break')} from {_count(len(shown), 'cause')}")
    hidden = sum(c.hidden for c in e.causes)
    if hidden:
        parts.append(f"{hidden} more hidden behind them")
    versions = sum(r.count for r in e.recompiles)
    if versions:
        parts.append(_count(versions, "recompile"))
    if e.fallbacks:
        parts.append(f"{_count(len(e.fallbacks), 'function')} silently eager")
    if e.crashes:
        parts.append(f"the compiler crashed {_times(len(e.crashes))}")
    if len(parts) == 1 and e.default.graphs:
        whole = " in both modes" if e.fullgraph.ok else ""
        end = f" · torch {e.torch.partition('+')[0]}"
        return f"{e.target} is {_count(e.default.graphs, 'graph')}, without a break{whole}{end}"
    if len(parts) == 1:
        return f"{e.target} holds no tensor operation to compile{end}"
    return ", ".join(parts) + end


def _count(n: int | None, noun: str) -> str:
    return f"unknown {noun}s" if n is None else f"{n} {noun}{'' if n == 1 else 's'}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"

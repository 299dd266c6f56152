"""Composition of an explanation from the evidence about a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fullgraph.compiler.events import CompileFailure, Position, Recording
from fullgraph.compiler.private import current_stance, has_dispatch_mode, is_compile_disabled
from fullgraph.compiler.recording import RECOMPILE_LIMIT
from fullgraph.diagnose.causes import (
    changes_in_each_call,
    describe_causes,
    describe_recompiles,
    diagnose,
    expression_at,
    group_breaks,
    is_handled,
)
from fullgraph.diagnose.evidence import Evidence, breaks_of
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import (
    Cause,
    Crash,
    Fallback,
    GraphInfo,
    Mode,
    Note,
    RecompileInfo,
)
from fullgraph.diagnose.savings import add_estimates
from fullgraph.diagnose.taxonomy import Category, Usage, advise_on_fake, describe_skip, quote
from fullgraph.diagnose.trace import TIMEOUT, Trace
from fullgraph.diagnose.verdict import verdict

_ANSWERS_ALL = (
    "`__getattr__` of the model answers every name, also those that torch.compile looks for: let "
    "it raise AttributeError for names that it does not know."
)
_FAKE_ERROR = re.compile(r"fake tensors.*?: got \w+\(['\"](.*?)['\"]\)", re.DOTALL)
"""Finds an operator's own error in Dynamo's message on running it with fake tensors."""
_NEEDS_HOST_VALUE = {
    Category.BRANCH,
    Category.SCALAR,
    Category.MASK,
    Category.NONZERO,
    Category.DYNAMIC_SHAPE,
    Category.COMPARISON,
    Category.ASSERT,
}
"""Categories whose expression needs a tensor's values on the host."""


def compose_explanation(evidence: Evidence) -> Explanation:
    """Return the explanation of the evidence gathered so far."""
    recording = evidence.default.recording
    first_call = evidence.default.first_recording
    groups = [] if evidence.fails_in_eager else evidence.groups
    causes = describe_causes(groups, recording, evidence.values, evidence.function)
    causes = add_estimates(causes, evidence.savings)
    crashes = tuple(_find_crashes(evidence))
    graphs = _describe_graphs(recording, causes)
    recompiles = describe_recompiles(recording, evidence.function)
    default_groups = group_breaks(recording, "default", evidence.function)
    breaks = sum(len(group.breaks) for group in default_groups)
    first_graphs = sum(1 for graph in first_call.graphs if graph.phase == "forward")
    whole = evidence.works_under_fullgraph
    whole_graphs = (1 if breaks else first_graphs) if whole else None
    measurement = evidence.timing.measurement if evidence.timing else None
    explanation = Explanation(
        torch=recording.torch,
        target=evidence.target,
        backend=evidence.backend,
        verdict="",
        default=Mode(first_graphs, breaks, not breaks and bool(graphs) and not crashes),
        fullgraph=Mode(
            whole_graphs,
            None if whole is None else sum("fullgraph" in cause.modes for cause in causes),
            whole,
        ),
        causes=causes,
        graphs=graphs,
        eager_ops=evidence.eager_ops,
        recompiles=recompiles,
        fallbacks=(*_find_fallbacks(recording, recompiles), *evidence.fallbacks),
        crashes=crashes,
        notes=(*_note_syncs(causes), *_collect_notes(evidence)),
        hidden_search=evidence.search.stopped,
        runs=tuple(_count_runs(evidence)),
        output=evidence.default.output,
        measurement=measurement,
        compile_seconds=_compile_seconds(recording) if measurement else (),
        error=evidence.error,
        traceback=evidence.traceback,
        complete=evidence.complete,
    )
    return replace(explanation, verdict=verdict(explanation))


def _count_runs(evidence: Evidence) -> Iterator[tuple[str, int]]:
    """Yield each purpose for which the user's code ran, and how often it did."""
    counts = {
        "default mode": 1,
        "eager values": evidence.eager.runs,
        "fullgraph causes": int(evidence.capture is not None),
        "fullgraph=True": int(evidence.fullgraph is not None),
        "eager operators": int(evidence.fullgraph is not None),
        "unmasking": evidence.search.runs,
    }
    yield from ((purpose, count) for purpose, count in counts.items() if count)


def _collect_notes(evidence: Evidence) -> list[Note]:
    """Return the notes of all runs that the explanation needed, in the order of the runs.

    A note that some state could not be restored is given once, however many runs report it.
    """
    notes = list(evidence.notes)

    def add_unrestored(*steps: Iterable[str]) -> None:
        """Add a note for each sentence on unrestored state that has none yet."""
        known = {note.message for note in notes}
        sentences = dict.fromkeys(sentence for step in steps for sentence in step)
        notes.extend(Note("restore", s) for s in sentences if s not in known)

    traces = (evidence.default, evidence.capture, evidence.fullgraph)
    first, *others = [trace.unrestored for trace in traces if trace is not None]
    add_unrestored(first, evidence.eager.unrestored, *others)
    notes += evidence.search.notes
    add_unrestored(evidence.search.unrestored)
    if evidence.timing is not None:
        if evidence.timing.error is not None:
            notes.append(Note("unknown", f"It could not be timed: {evidence.timing.error}."))
        add_unrestored(evidence.timing.unrestored)
    return notes


def _find_crashes(evidence: Evidence) -> Iterator[Crash]:
    """Yield each crash of the compiler once; nothing if the user's code fails in eager too."""
    if evidence.error is not None:
        return
    seen: set[tuple[str, Position | None]] = set()
    for trace, mode in ((evidence.default, "default"), (evidence.fullgraph, "fullgraph")):
        if trace is None:
            continue
        for crash in _crashes_of(trace, mode, evidence.function):
            if (crash.error, crash.position) not in seen or crash.error == trace.crash:
                seen.add((crash.error, crash.position))
                yield crash


def _crashes_of(trace: Trace, mode: str, function: Position | None) -> Iterator[Crash]:
    """Yield the crashes in a trace: compile failures, an exception, an early end of the process.

    An exception is left out if there are compile failures, or if a recompile limit or a graph break
    under `fullgraph=True` raised it. `mode` is "default" or "fullgraph". If the process ended
    early, `function` is given as the place of the crash.
    """
    failures = trace.recording.failures
    for failure in failures:
        yield _describe_failure(failure, mode)
    raised = trace.raised
    if (
        raised
        and not failures
        and "RecompileLimit" not in raised.type
        and (mode == "default" or not breaks_of(trace.recording))
    ):
        crash = Crash(
            "backend", raised.type, raised.message, raised.position, mode, raised.traceback
        )
        if "already has a get_compiler_config attribute" in raised.message:
            crash = replace(crash, conclusion=_ANSWERS_ALL)
        yield crash
    if trace.crash and trace.crash != TIMEOUT:
        stage = "backend" if trace.recording.graphs else "dynamo"
        yield Crash(stage, trace.crash, _describe_end(trace.crash), function, mode)


def _describe_end(crash: str) -> str:
    """Return "The process was ended by SIGSEGV." for "SIGSEGV", and any other error unchanged."""
    if crash.startswith("SIG"):
        return f"The process was ended by {crash}."
    return crash


def _describe_failure(failure: CompileFailure, mode: str) -> Crash:
    """Return a compile failure as a `Crash`; `mode` is "default" or "fullgraph".

    In two cases the crash has a conclusion of its own: an operator works in eager but fails on fake
    tensors, or the user's code catches the exception.
    """
    position = failure.stack[-1] if failure.stack else failure.frame
    message = failure.message.strip().partition("\n")[0]
    crash = Crash(failure.stage, failure.error, message, position, mode, failure.traceback)
    code = quote(expression_at(position))
    if found := _FAKE_ERROR.search(failure.message):
        return replace(
            crash,
            message=f"{code} fails: {_first_line(found[1])}.",
            conclusion="It works in eager, but not on the fake tensors that Dynamo traces with. "
            + advise_on_fake(code),
        )
    if failure.stage == "dynamo" and is_handled(position):
        return replace(
            crash,
            conclusion="Your code handles this error, but Dynamo does not pass it to the `except`: "
            f"ask before {code} whether it can work.",
        )
    return crash


def _first_line(error: str) -> str:
    """Return the first line of an error, also of one with escaped line breaks, without its stop."""
    return error.replace("\\n", "\n").partition("\n")[0].rstrip(".")


def _describe_graphs(recording: Recording, causes: tuple[Cause, ...]) -> tuple[GraphInfo, ...]:
    """Return the graphs in order, each with the cause that ended it."""
    ended = {id: cause.id for cause in reversed(causes) for id in cause.graphs}
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


def _find_fallbacks(
    recording: Recording, recompiles: Sequence[RecompileInfo]
) -> Iterator[Fallback]:
    """Yield the frames that run in eager: they hit a recompile limit, or Dynamo skipped them.

    A higher limit is no advice where one of the `recompiles` of the frame comes with each call.
    """
    seen = set()
    for event in recording.breaks:
        if event.gb_type == RECOMPILE_LIMIT and event.frame not in seen:
            seen.add(event.frame)
            diagnosis, frame = diagnose(event), event.frame
            each = [
                f"`{one.root}`"
                for one in recompiles
                if changes_in_each_call(one) and one.root
                if one.file == frame.file and frame.function in one.functions
            ]
            why = f" {' and '.join(each)} recompiled it at each change." if each else ""
            yield Fallback(
                frame.function,
                frame.file,
                frame.line,
                diagnosis.sentence + why,
                event.gb_id,
                advice=() if each else diagnosis.advice,
            )
    for skip in recording.skips:
        reason = describe_skip(skip.reason)
        if reason is not None:
            yield Fallback(skip.frame.function, skip.frame.file, skip.frame.line, reason)


def _note_syncs(causes: tuple[Cause, ...]) -> Iterator[Note]:
    """Yield a note for each cause that makes the host wait for the device."""
    for cause in causes:
        usage = Usage(cause.expression)
        is_on_host = "NumPy" in cause.message or usage.is_of_numpy or usage.is_made_on_host
        if cause.category in _NEEDS_HOST_VALUE and not is_on_host:
            yield Note(
                "sync",
                f"`{cause.expression}` needs a value on the host: if its tensor is on a GPU, each "
                "call waits for the device.",
                cause.position,
            )


def _compile_seconds(recording: Recording) -> tuple[tuple[str, float], ...]:
    """Return compile seconds by stage: ("Dynamo", 1.2), ("AOTAutograd", 0.3), ("Inductor", 4.0).

    The time of a stage does not include the stages that it calls.
    """
    dynamo, aot, inductor = (
        sum(getattr(t, name) or 0.0 for t in recording.timings)
        for name in ("dynamo", "aot_autograd", "backend")
    )
    stages = {"Dynamo": dynamo - aot, "AOTAutograd": aot - inductor, "Inductor": inductor}
    return tuple((name, seconds) for name, seconds in stages.items() if seconds > 0)


def explain_silence(target: object, trace: Trace, function: Position | None) -> Fallback | None:
    """Return why Dynamo compiled no part of `target`; None if there is nothing to explain.

    It is None if the trace has a graph, a break, a failure or a crash, if it says why Dynamo
    skipped a frame, or if Dynamo found no tensor operation. `function` is where `target` is
    defined.
    """
    recording = trace.recording
    if recording.graphs or recording.breaks or recording.failures or trace.crash:
        return None
    if any(describe_skip(skip.reason) for skip in recording.skips):
        return None
    place = function or Position("", 0)
    stance = current_stance()
    if callable(target) and is_compile_disabled(target):
        reason = "It is excluded from compilation by `torch.compiler.disable`."
    elif stance not in (None, "default"):
        reason = f"`torch.compiler.set_stance({stance!r})` is active: nothing is compiled."
    elif has_dispatch_mode():
        reason = "A TorchDispatchMode is active, under which torch.compile does not work."
    elif recording.timings:
        return None  # Dynamo traced all of it and found no tensor operation
    else:
        reason = "Nothing of it was compiled, and this version of torch does not tell why."
    return Fallback(place.function, place.file, place.line, reason)

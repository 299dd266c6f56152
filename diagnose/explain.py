"""`explain`: every graph break once, by cause, at its expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fullgraph.compiler.display import progress_line
from fullgraph.compiler.events import Recording
from fullgraph.compiler.isolation import Deadline, preload_dynamic_shapes, preload_dynamo
from fullgraph.compiler.ladder import Backend, CompileOptions
from fullgraph.compiler.lowering.cost import CPU, check_device, find_device
from fullgraph.compiler.program import Loss, Program, parse_program
from fullgraph.compiler.sources import find_live_functions, index_live_functions
from fullgraph.diagnose.causes import ModeName, note_guards, without_recompiled
from fullgraph.diagnose.compose import compose_explanation, explain_silence
from fullgraph.diagnose.cost import time_program
from fullgraph.diagnose.eager_operators import make_counting_job
from fullgraph.diagnose.evidence import Evidence, break_places, make_observation_job, with_eager_run
from fullgraph.diagnose.explanation import Explanation
from fullgraph.diagnose.explanation_data import Note
from fullgraph.diagnose.hidden_search import search_hidden
from fullgraph.diagnose.report import next_step
from fullgraph.diagnose.savings import estimate_savings
from fullgraph.diagnose.trace import (
    IsolatedJob,
    Trace,
    isolate,
    isolate_together,
    make_trace_job,
    trace_of,
    trace_program,
)
from fullgraph.diagnose.verdict import AS_SCRIPT

ROUNDS, SECONDS = 12, 60.0
"""Default limits of the search for hidden breaks: rounds, and seconds of wall time."""


TRACED = 0.8
"""Share of a time limit for the first trace; a run in eager, if that failed, has the rest."""

Offer = Callable[[Program, Explanation, Deadline, bool], Explanation]
"""Adds rewrite edits to the explanation of a program, and a verification where it is True."""


def explain(
    model: Callable[..., object],
    inputs: object,
    *,
    kwargs: Mapping[str, object] | None = None,
    calls: Sequence[object] = (),
    loss: Loss = None,
    backend: Backend = "eager",
    mode: str | None = None,
    dynamic: bool | None = None,
    options: CompileOptions | None = None,
    unmask: bool = True,
    measure: bool = False,
    rounds: int = ROUNDS,
    seconds: float | None = None,
    verify: bool = False,
    device: str = CPU,
    progress: Callable[[Explanation], object] | None = None,
    offer: Offer | None = None,
) -> Explanation:
    """Explain what keeps `model(inputs)` from being one graph, where, and what to try.

    Args:
        model: an nn.Module or a function; a compiled one is replaced by its original.
        inputs: a tensor, a tuple of positional arguments, or a dict of keyword arguments.
        kwargs: keyword arguments beside positional `inputs`.
        calls: further inputs after the first, each in the form of `inputs`: other shapes or
            values, which may recompile.
        loss: a callable on the output, or True for its sum: the backward runs too.
        backend: a registered backend's name or a callable; `fullgraph backends` lists them.
        mode, dynamic, options: as torch.compile takes them.
        unmask: whether to look for causes hidden behind others, for at most `rounds` rounds.
        seconds: limit on the wall time of all runs together, after which what was found is
            returned. By default, the search for hidden causes has 60 seconds and the other runs
            have no limit.
        measure: whether to time eager against compiled, in this process.
        verify: whether to compile a program that `fullgraph=True` captures whole with Inductor,
            and to compare the outcome with eager.
        device: the device for which to estimate what joining graphs would save: "cpu" (this
            machine), "a100", "h100", "h200" or "rtx4090".
        progress: called with each partial explanation and with the last one.
        offer: called to add the rewrite rules' edits to an explanation and, with `verify`, the
            verification to the last one; `fullgraph.explain` passes it. The first partial
            explanation has no edits, so that it appears at once.

    On CPU the user's code runs in a forked child. Otherwise it runs in this process, and what it
    changed is restored: parameters, buffers, gradients, attributes, inputs, random streams, caches.
    `runs` of the result counts the runs. Raises FullgraphError for arguments that cannot be called;
    a model that raises gives an explanation with `error`.
    """
    check_device(device)
    program = parse_program(
        model,
        inputs,
        kwargs=kwargs,
        calls=calls,
        loss=loss,
        backend=backend,
        mode=mode,
        dynamic=dynamic,
        options=options,
    )
    deadline = Deadline(seconds)
    steps = explanations(
        program,
        unmask=unmask,
        measure=measure,
        rounds=rounds,
        seconds=SECONDS if seconds is None else seconds,
        deadline=deadline,
        device=device,
    )
    with progress_line("Tracing in default mode …") as show:
        for number, explanation in enumerate(steps):
            if offer is not None and (number or explanation.complete):
                verifies = verify and explanation.complete
                explanation = offer(program, explanation, deadline, verifies)
            if progress is not None:
                progress(explanation)
            show(next_step(explanation))
    return explanation


def explanations(
    program: Program,
    *,
    unmask: bool = True,
    measure: bool = False,
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    deadline: Deadline | None = None,
    traced: float = TRACED,
    device: str | None = None,
) -> Iterator[Explanation]:
    """Yield explanations of `program`, each with more evidence; the last one is `complete`.

    With `unmask`, hidden causes are searched for, within `rounds` and `seconds`. All runs end with
    `deadline` at the latest, the first trace with the share `traced` of it. `measure` times eager
    against compiled. With `device`, such as "a100", each cause has an estimate of what joining the
    graphs on both sides of it would save.
    """
    deadline = deadline or Deadline()
    with index_live_functions():
        evidence = trace_default_mode(
            program, deadline, traced=traced, operators=device is not None
        )
        if device is not None and evidence.error is None and evidence.default.recording.breaks:
            graphs = evidence.default.first_recording.graphs
            evidence = replace(evidence, savings=estimate_savings(graphs, find_device(device)))
        yield compose_explanation(evidence)
        if evidence.error is None and evidence.is_broken and not deadline.is_over:
            evidence = trace_fullgraph_mode(program, evidence, deadline.left())
            if not deadline.is_over:
                yield compose_explanation(evidence)
            if unmask and not deadline.is_over:
                seconds = deadline.within(seconds).left() or 0.0
                for search in search_hidden(program, _traces_to_unmask(evidence), rounds, seconds):
                    evidence = replace(evidence, search=search)
                    yield compose_explanation(evidence)
        if (
            deadline.is_over
            and evidence.error is None
            and evidence.is_broken
            and evidence.works_under_fullgraph is None
        ):
            text = f"The time limit of {deadline.seconds:.0f} s ended the runs; more may hide."
            note = Note("limit", text)
            evidence = replace(evidence, notes=(*evidence.notes, note))
        elif measure and not deadline.is_over and evidence.error is None:
            evidence = replace(evidence, timing=time_program(program))
        yield compose_explanation(replace(evidence, complete=True))


def explain_recording(recording: Recording, target: str, error: str | None = None) -> Explanation:
    """Return the explanation of a script that ran under the recorder.

    `target` names the script; `error` is a sentence on why it did not finish, None if it did.
    """
    shown = without_recompiled(recording)
    evidence = Evidence(
        target,
        AS_SCRIPT,
        None,
        Trace(shown, len(shown.events)),
        notes=_note_unknown(recording),
        error=error,
        complete=True,
    )
    explanation = compose_explanation(evidence)
    return replace(
        explanation,
        runs=(),
        fullgraph=replace(explanation.fullgraph, graphs=None, breaks=None, ok=None),
    )


def trace_default_mode(
    program: Program, deadline: Deadline, *, traced: float = 1.0, operators: bool = False
) -> Evidence:
    """Trace `program` in default mode; if that fails, test whether it also fails in eager.

    Both end with `deadline` at the latest, the trace with the share `traced` of it. With
    `operators`, the operators of the graphs before and after a break are recorded, too.
    """
    preload_dynamo()
    left = deadline.left()
    trace = trace_program(program, left and traced * left, operators=operators)
    silence = explain_silence(program.target, trace, program.position)
    evidence = Evidence(
        program.name,
        program.backend_name,
        program.position,
        trace,
        fallbacks=() if silence is None else (silence,),
        notes=(*_note_unknown(trace.recording), *note_guards(program, trace.counters)),
    )
    if trace.raised or trace.crash:
        _find_functions(evidence)
        eager = isolate(program, make_observation_job(program, evidence), deadline.left())
        evidence = with_eager_run(evidence, program, eager)
    return evidence


def trace_fullgraph_mode(
    program: Program, evidence: Evidence, seconds: float | None = None
) -> Evidence:
    """Return `evidence` with the breaks under `fullgraph=True`, and eager values if it has none.

    The program runs three or four times, in parallel if a fork is safe. Each run is stopped after
    `seconds`; None means no limit.
    """
    preload_dynamic_shapes()
    _find_functions(evidence)
    graphs = [one for one in evidence.default.first_recording.graphs if one.phase == "forward"]
    jobs: list[IsolatedJob[Any]] = [
        make_trace_job(program, capture=True),
        make_trace_job(program, fullgraph=True),
        make_counting_job(program, graphs),
    ]
    unobserved = () if evidence.values.places else (make_observation_job(program, evidence),)
    capture, fullgraph, counted, *eager = isolate_together(program, [*jobs, *unobserved], seconds)
    for outcome in eager:
        evidence = with_eager_run(evidence, program, outcome)
    return replace(
        evidence,
        capture=trace_of(capture),
        fullgraph=trace_of(fullgraph),
        eager_ops=counted.value if isinstance(counted.value, tuple) else (),
    )


def _find_functions(evidence: Evidence) -> None:
    """Find the live functions in the files of the causes; children forked later need not search."""
    find_live_functions(place.file for place in break_places(evidence))


def _traces_to_unmask(evidence: Evidence) -> dict[ModeName, Trace]:
    """Return, by mode, the traces in which a break may hide further breaks."""
    traces: dict[ModeName, Trace] = {"default": evidence.default}
    if evidence.capture is not None and not evidence.works_under_fullgraph:
        traces["fullgraph"] = evidence.capture
    return traces


def _note_unknown(recording: Recording) -> tuple[Note, ...]:
    return tuple(Note("unknown", f"This torch does not tell {what}.") for what in recording.unknown)

"""Phrases that all renderers share."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Sequence
from pathlib import PurePath

from fullgraph.compiler.display import printable as printable
from fullgraph.compiler.events import Position
from fullgraph.compiler.operations import Saving
from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.explanation_data import (
    Advice,
    Cause,
    ExplanationData,
    GraphInfo,
    Measurement,
    Note,
    RecompileInfo,
)

_FATES = {
    "resumed": "frame resumes after it",
    "prefix": "rest of the frame runs eager",
    "skipped": "whole frame runs eager",
}
_MANY_GRAPHS, _MANY_GUARDS = 12, 3
_STDLIB = sysconfig.get_path("stdlib")
MODES = {"default": "default mode", "fullgraph": "fullgraph=True"}

DEFAULT_ONLY = "These break default mode alone:"
"""Heading of the table of causes of a model that `fullgraph=True` captures."""


def count(number: int, noun: str) -> str:
    """Return "1 graph" or "2 graphs"; a noun that ends in "s" gets "es"."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def count_or_unknown(number: int | None, noun: str) -> str:
    """Return `count(number, noun)`, or "unknown graphs" for None."""
    return f"unknown {noun}s" if number is None else count(number, noun)


def is_library(file: str) -> bool:
    """Return whether `file` is installed, part of Python, or no file at all ("<frozen …>")."""
    parts = PurePath(file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    return file.startswith(("<", _STDLIB + os.sep))


def format_place(file: str, line: int, column: int | None = None) -> str:
    """Return "model.py:14:9", with a 1-based line and column as in editors."""
    text = f"{short_path(file)}:{line}"
    return text if column is None else f"{text}:{column + 1}"


def format_position(position: Position) -> str:
    """Return "model.py:14:9 in Net.forward"."""
    where = format_place(position.file, position.line, position.column)
    return f"{where} in {position.function}" if position.function else where


def describe_facts(cause: Cause, fullgraph_tried: bool = True) -> tuple[str, ...]:
    """Return short phrases about `cause`: "hit 3 times", "both modes".

    `fullgraph_tried` says whether the program was also compiled with `fullgraph=True`.
    """
    phrases = [describe_count(cause), describe_modes(cause, fullgraph_tried), describe_fate(cause)]
    if cause.ops_before is not None or cause.ops_after is not None:
        before = count_or_unknown(cause.ops_before, "op")
        phrases.append(f"{before} before, {_number_or_unknown(cause.ops_after)} after")
    if cause.branch:
        phrases.append(f"on the branch {cause.branch}")
    phrases += [f"under {state}" for state in cause.state]
    if cause.saving is not None:
        phrases.append(describe_saving(cause.saving))
    return tuple(phrases)


def describe_saving(saving: Saving) -> str:
    """Return "joining saves 2 kernels, 1.5 KiB and 3.1 µs a run on this CPU (estimate)"."""
    parts = []
    if saving.launches > 0:
        parts.append(count(saving.launches, "kernel"))
    if saving.bytes > 0:
        parts.append(format_bytes(saving.bytes))
    if saving.seconds > 0:
        parts.append(format_seconds(saving.seconds))
    saved = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    return f"joining saves {saved or 'nothing'} a run on {saving.device} (estimate)"


def _number_or_unknown(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def describe_fate(cause: Cause) -> str:
    """Return the effect of the cause on its frame: "frame resumes after it"."""
    return _FATES.get(cause.frame, cause.frame)


def describe_count(cause: Cause) -> str:
    """Return how often the cause occurred: "hit 3 times"."""
    if cause.hidden:
        return f"hidden by {cause.behind}" if cause.behind else "hidden"
    return "hit once" if cause.events == 1 else f"hit {cause.events:,} times"


def describe_modes(cause: Cause, fullgraph_tried: bool = True) -> str:
    """Return the modes in which the cause exists: "both modes", "default mode only".

    `fullgraph_tried` says whether the program was also compiled with `fullgraph=True`. If it was
    not, that mode is unknown, and " only" is left out.
    """
    both = len(set(cause.modes)) > 1
    return _mode_names(cause.modes) + (
        "" if both or not (fullgraph_tried and cause.modes) else " only"
    )


def _mode_names(modes: Sequence[str]) -> str:
    """Return "both modes" for "default" and "fullgraph"; for one mode, its name in reports.

    Return "an unknown mode" if `modes` is empty.
    """
    if {"default", "fullgraph"} <= set(modes):
        return "both modes"
    return " and ".join(MODES.get(mode, mode) for mode in modes) or "an unknown mode"


def describe_graph(info: GraphInfo) -> str:
    """Return a graph's id, size, lines and function: "G1 · 12 ops · net.py:11–12 · Net.forward"."""
    parts = [info.id, count(info.ops, "op"), graph_lines(info), info.function]
    if info.splits > 1:
        parts.append(f"cut into {info.splits} by DDPOptimizer")
    return " · ".join(filter(None, parts))


def describe_ops(graphs: Sequence[GraphInfo], eager_ops: int = 0) -> str:
    """Return "5 + 4 + 1 ops, 3 in eager" for the graphs of a strip; "" for too many."""
    if len(graphs) > _MANY_GRAPHS:
        return ""
    if not graphs:
        return f"{count(eager_ops, 'op')} in eager" if eager_ops else ""
    noun = "op" if [graph.ops for graph in graphs] == [1] else "ops"
    splits = sum(graph.splits for graph in graphs if graph.splits > 1)
    cut = f", cut into {splits} by DDPOptimizer" if splits else ""
    eager = f", {eager_ops:,} in eager" if eager_ops else ""
    return " + ".join(f"{graph.ops:,}" for graph in graphs) + f" {noun}{cut}{eager}"


def graph_lines(info: GraphInfo) -> str:
    """Return the user's lines in a graph, "net.py:11–14", or the first line of its frame."""
    if info.first_line is None:
        return f"{format_place(info.file, info.line)} (lines unknown)"
    first = format_place(info.file, info.first_line)
    return first if info.last_line in (None, info.first_line) else f"{first}–{info.last_line}"


def rank_advice(advice: Sequence[Advice]) -> tuple[Advice, ...]:
    """Return `advice`, changes of the source code first, then settings of the compiler."""
    return tuple(sorted(advice, key=lambda one: one.kind != "code"))


def describe_runs(explanation: ExplanationData) -> str | None:
    """Return "Your code ran 3 times: 1 × default mode, 2 × eager values."; None without runs."""
    if not explanation.runs:
        return None
    total = sum(times for _, times in explanation.runs)
    parts = ", ".join(f"{times} × {purpose}" for purpose, times in explanation.runs)
    return f"Your code ran {'once' if total == 1 else f'{total:,} times'}: {parts}."


def mood_of(explanation: ExplanationData) -> str:
    """Return "bad" after a crash or an error, "mixed" if there is anything to do, else "good"."""
    e = explanation
    if e.crashes or e.error:
        return "bad"
    return "mixed" if e.causes or e.recompiles or e.fallbacks else "good"


def describe_setting(explanation: ExplanationData) -> str:
    """Return the version of torch and the backend: "torch 2.13.0, backend eager"."""
    backend = f", backend {explanation.backend}" if explanation.backend else ""
    return f"torch {explanation.torch.partition('+')[0]}{backend}"


def short_notes(explanation: ExplanationData) -> tuple[str, ...]:
    """Return the notes that the rest of the report does not say, as sentences.

    All notes on causes that make the host wait for the device become one sentence.
    """
    by_place = {cause.position: cause.id for cause in explanation.causes}
    waits: list[str] = []
    notes: list[str] = []
    for note in explanation.notes:
        if note.kind == "sync" and note.position in by_place:
            waits.append(by_place[note.position])
        elif _is_said_elsewhere(note, explanation):
            continue
        elif note.position in by_place:
            notes.append(f"{by_place[note.position]}: {note.message}")
        elif note.position:
            notes.append(f"{note.message} ({format_position(note.position)})")
        else:
            notes.append(note.message)
    if waits:
        verb = "waits" if len(waits) == 1 else "wait"
        ids = ", ".join(waits[:3]) + (f" and {len(waits) - 3} more" if len(waits) > 3 else "")
        notes.insert(0, f"On a GPU, {ids} {verb} for the device in each call.")
    return tuple(notes)


def _is_said_elsewhere(note: Note, explanation: ExplanationData) -> bool:
    """Return whether the verdict or a recompile's entry already says what the note says."""
    if note.kind == "guard":
        return bool(explanation.recompiles)
    return note.kind == "unmask" and note.position is None


def first_guard(recompile: RecompileInfo) -> str:
    """Return the message of a recompile; if many guards failed, only its first sentence.

    The number of the other guards is then added: "4 more guards failed."
    """
    first, dot, _ = recompile.message.partition(". ")
    if not dot or len(recompile.guards) < _MANY_GUARDS:
        return recompile.message
    return f"{first}. {count(len(recompile.guards) - 1, 'more guard')} failed."


def recompile_place(recompile: RecompileInfo) -> str:
    """Return the place of the value that changed; if it is unknown, the place of the frame."""
    if recompile.where is not None:
        return format_position(recompile.where)
    return format_place(recompile.file, recompile.line)


def link_of(cause: Cause) -> str:
    """Return the address of the page about the break; "" if there is none that is safe to link."""
    is_safe = cause.url.startswith("https://") and not re.search(r"[^\x21-\x7e]", cause.url)
    return cause.url if is_safe else ""


def format_seconds(value: float) -> str:
    """Return seconds as "12.3 ms", with three significant digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:,.3g} {unit}" if value < 1000 else f"{value:,.0f} s"
    return f"{value * 1e9:.3g} ns"


def format_bytes(value: int | None) -> str:
    """Return bytes as "1.5 MiB"; "unknown" for None."""
    if value is None:
        return "unknown"
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 1 << shift:
            return f"{value / (1 << shift):,.1f} {unit}"
    return f"{value:,} B"


def measurement_rows(explanation: ExplanationData) -> tuple[tuple[str, str], ...]:
    """Return the measurement as (name, value) rows; none without a measurement."""
    m = explanation.measurement
    if m is None:
        return ()
    memory = f"eager {format_bytes(m.peak_eager)}, compiled {format_bytes(m.peak_compiled)}"
    return (
        ("eager", f"{format_seconds(m.eager)} a call"),
        ("compiled", f"{format_seconds(m.compiled)} a call{_describe_speedup(m)}"),
        ("compiling", format_seconds(m.compile)),
        *((f"  {stage}", format_seconds(took)) for stage, took in explanation.compile_seconds),
        ("peak memory", memory),
        ("pays after", "never" if m.pays_after is None else count(m.pays_after, "call")),
        ("measured as", f"medians of {count(m.repeats, 'call')}"),
    )


def _describe_speedup(m: Measurement) -> str:
    """Return ", 1.5 × as fast" or ", 1.2 × as slow" for compiled against eager; "" if unknown."""
    if not (m.eager > 0 and m.compiled > 0):
        return ""
    if m.compiled <= m.eager:
        return f", {m.eager / m.compiled:.3g} × as fast"
    return f", {m.compiled / m.eager:.3g} × as slow"


def first_and_last_lines(output: str, limit: int) -> str:
    """Return printed output, cut to about `limit` lines: the first and the last ones.

    A line "… 90 more lines …" replaces what is cut.
    """
    lines = output.rstrip("\n").split("\n")
    if len(lines) <= limit:
        return "\n".join(lines)
    last = max(1, limit // 3)
    between = lines[limit - last : -last]
    clipped = [int(n) for line in between for n in re.findall(r"^… (\d+) lines left out …$", line)]
    left_out = len(between) + sum(clipped) - len(clipped)
    gap = f"… {count(left_out, 'more line')} …"
    return "\n".join((*lines[: limit - last], gap, *lines[-last:]))

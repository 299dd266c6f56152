"""Causes as an explanation shows them, from groups of breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fullgraph.compiler.events import Fate, Graph, Position, Recording, Span
from fullgraph.compiler.observe import Observations, context_managers_at
from fullgraph.compiler.private import gb_url
from fullgraph.compiler.sources import short_path
from fullgraph.diagnose.causes.diagnosis import diagnose
from fullgraph.diagnose.causes.groups import BreakGroup
from fullgraph.diagnose.causes.places import exact_manager, expression_at, lines_around, place_of
from fullgraph.diagnose.explanation_data import Cause
from fullgraph.diagnose.taxonomy import is_hook_handle, is_looked_up_early, quote

_WORST = {Fate.RESUMED: 0, Fate.PREFIX: 1, Fate.SKIPPED: 2, Fate.RAISED: 0}


def describe_causes(
    groups: Sequence[BreakGroup],
    recording: Recording,
    values: Observations,
    function: Position | None = None,
) -> tuple[Cause, ...]:
    """Return the groups as causes with ids, sentences and advice; hidden causes come last.

    `recording` is that of default mode; `values` are the values that expressions had in eager.
    `function` is where the compiled function is defined.
    """
    ordered = sorted(groups, key=lambda group: group.hidden is not None)
    ids = {group.place.span: f"C{n}" for n, group in reversed([*enumerate(ordered, 1)])}
    return tuple(
        _describe_cause(group, f"C{n}", ids, recording, values, function)
        for n, group in enumerate(ordered, 1)
    )


def _describe_cause(
    group: BreakGroup,
    id: str,
    ids: dict[Span, str],
    recording: Recording,
    values: Observations,
    function: Position | None,
) -> Cause:
    """Return the `Cause` that describes a group of breaks; `id` becomes its id.

    `ids` holds the id of each cause by the span of its expression. The other parameters are those
    of `describe_causes`.
    """
    graphs = recording.graphs
    brk, place, hidden = group.first, group.place, group.hidden
    diagnosis = diagnose(brk, place, values.at(place), function=function)
    ended = [i for i in group.graphs if i < len(graphs)]
    return Cause(
        id=id,
        category=diagnosis.category.value,
        gb_id=brk.gb_id,
        gb_type=brk.gb_type,
        position=place,
        expression=diagnosis.expression,
        source=lines_around(place),
        message=diagnosis.sentence,
        detail=brk.explanation,
        stack=tuple(exact_manager(position) for position in brk.stack),
        module_path=module_range(p for b in group.breaks for p in b.module_paths),
        frame=_worst_fate(group),
        hidden=hidden is not None,
        behind=ids.get(hidden.behind.span) if hidden and hidden.behind else None,
        branch="not taken" if hidden and hidden.not_taken else None,
        modes=group.modes,
        events=0 if hidden else len(group.breaks),
        graphs=tuple(f"G{i + 1}" for i in ended),
        ops_before=graphs[ended[0]].ops if ended else None,
        ops_after=graphs[ended[0] + 1].ops if ended and ended[0] + 1 < len(graphs) else None,
        next_graph=_next_graph(group, recording),
        state=brk.state,
        advice=diagnosis.advice,
        url=gb_url(brk.gb_type),
        consequences=_describe_consequences(group),
    )


def _next_graph(group: BreakGroup, recording: Recording) -> str | None:
    """Return the id of the first graph that was compiled after a break; None if none was."""
    start = next((n for n, event in enumerate(recording.events) if event is group.first), None)
    if start is None:
        return None
    graphs = [isinstance(event, Graph) for event in recording.events]
    return f"G{sum(graphs[:start]) + 1}" if any(graphs[start:]) else None


def module_range(paths: Iterable[str]) -> str | None:
    """Merge submodule paths: "layers.0", "layers.1" → "layers[0..1]"; None if there are none."""
    names = sorted({p for p in paths if p}, key=_numeric_key)
    rows: dict[tuple[str, str], list[int]] = {}
    plain: list[str] = []
    for name in names:
        found = re.match(r"(.*?)\.?(\d+)((?:\.\D[^.]*)*)$", name)
        if found is None:
            plain.append(name)
        else:
            rows.setdefault((found[1], found[3]), []).append(int(found[2]))
    for (head, tail), numbers in rows.items():
        plain.append(f"{head}[{_format_ranges(numbers)}]{tail}")
    return ", ".join(plain) or None


def _format_ranges(numbers: list[int]) -> str:
    """Return "1..3, 7" for [1, 2, 3, 7]."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}..{r[-1]}" for r in runs)


def _numeric_key(path: str) -> list[tuple[int, str]]:
    """Return a sort key for module paths, by which "layers.2" comes before "layers.10"."""
    return [(int(p), "") if p.isdigit() else (-1, p) for p in path.split(".")]


def _worst_fate(group: BreakGroup) -> str:
    """Return the worst that these breaks did to a frame: "resumed", "prefix" or "skipped".

    These are values of `Fate`, the least bad first; `Fate.RAISED` counts as "resumed". Consequences
    of the group count, too, if they are in one of its frames.
    """
    frames = {(brk.frame.file, brk.frame.function) for brk in group.breaks}
    inside = [b for b in group.consequences if (b.frame.file, b.frame.function) in frames]
    worst = max((brk.fate for brk in (*group.breaks, *inside)), key=lambda fate: _WORST[fate])
    return Fate.RESUMED.value if worst is Fate.RAISED else worst.value


def _describe_consequences(group: BreakGroup) -> tuple[str, ...]:
    """Return one sentence on each break that would not exist without this group's cause."""
    sentences = []
    for brk in group.consequences:
        file = "" if brk.frame.file == group.place.file else f" of {short_path(brk.frame.file)}"
        what = f"`{brk.frame.function}` at line {brk.frame.line}{file}"
        why = "its caller ran eager"
        if is_looked_up_early(brk):
            what = f"`{expression_at(place_of(brk))}`"
            why = "its method was looked up before the break among its arguments"
        elif is_hook_handle(brk):
            what, why = "The code behind it", "the handle of the hook comes along"
        elif context_managers_at(place_of(brk)):
            what, why = quote(expression_at(place_of(brk))), "it enters what is made here"
        sentences.append(f"{what} broke too ({brk.gb_id or brk.gb_type}), because {why}.")
    return tuple(dict.fromkeys(sentences))

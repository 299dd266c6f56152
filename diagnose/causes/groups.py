"""Graph breaks grouped by cause: one reason at one expression, however often it occurred."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import networkx as nx

from fullgraph.compiler.events import Break, Fate, Graph, Position, Recording, Span
from fullgraph.compiler.observe import context_managers_at
from fullgraph.compiler.recording import RECOMPILE_LIMIT
from fullgraph.compiler.sources import Owner, is_user_code, owner_of
from fullgraph.diagnose.causes.places import calling_positions, place_of
from fullgraph.diagnose.taxonomy import (
    Category,
    category_of_gb_type,
    is_consequence,
    is_hook_handle,
    is_looked_up_early,
    registers_hook,
)

ModeName = Literal["default", "fullgraph"]
"""How torch.compile is called: in default mode, or with `fullgraph=True`."""

Reason = tuple[str, Span]
"""What makes two breaks the same cause: the `gb_type` and the expression."""


@dataclass(frozen=True)
class HiddenBreak:
    """A break that shows only after other breaks are replaced by their eager values."""

    event: Break
    place: Position
    behind: Position | None
    """The place that hid it: to replace it, or to force its branch, revealed the break. None if
    unknown."""
    not_taken: bool
    """Whether it lies on a branch that the inputs do not take."""


@dataclass(frozen=True)
class BreakGroup:
    """All breaks with one cause."""

    place: Position
    breaks: tuple[Break, ...]
    modes: tuple[ModeName, ...]
    consequences: tuple[Break, ...] = ()
    """Breaks that exist only because of this cause."""
    graphs: tuple[int, ...] = ()
    """Indices into the recording's graphs of those that ended at this cause."""
    hidden: HiddenBreak | None = None

    @property
    def first(self) -> Break:
        """The first break of the group."""
        return self.breaks[0]

    def in_modes(self, modes: Iterable[ModeName]) -> BreakGroup:
        """Return this group with `modes` added to its modes."""
        return replace(self, modes=tuple(dict.fromkeys((*self.modes, *modes))))


def reason_of(brk: Break) -> Reason:
    """Return the break's reason: its `gb_type` and the span of its place.

    Breaks with equal reasons have one cause.
    """
    return brk.gb_type, place_of(brk).span


def group_breaks(
    recording: Recording, mode: ModeName, function: Position | None = None
) -> list[BreakGroup]:
    """Group the breaks of one recording by cause, in the order in which they occurred.

    `mode` says how the recorded program was compiled: "default" or "fullgraph". `function` is where
    the function being explained is defined.
    """
    relation = relate_causes(recording, function)
    found = []
    for node, data in relation.nodes(data=True):
        if node[0] != "cause" or any(p[0] == "cause" for p in relation.predecessors(node)):
            continue
        followers = list(relation.successors(node))
        consequences = [relation.nodes[f]["breaks"] for f in followers if f[0] == "cause"]
        found.append(
            BreakGroup(
                _shown_place(data["breaks"][0], function),
                tuple(data["breaks"]),
                (mode,),
                tuple(brk for breaks in consequences for brk in breaks),
                tuple(follower[1] for follower in followers if follower[0] == "graph"),
            )
        )
    return found


def group_hidden(hidden: Iterable[tuple[HiddenBreak, ModeName]]) -> list[BreakGroup]:
    """Return one group for each hidden break that is not a consequence of another break.

    `hidden` holds each break with the mode in which it was found.
    """
    return [
        BreakGroup(found.place, (found.event,), (mode,), hidden=found)
        for found, mode in hidden
        if not is_consequence(found.event)
    ]


def merge_groups(groups: Sequence[BreakGroup], others: Iterable[BreakGroup]) -> list[BreakGroup]:
    """Return `groups`, followed by the groups in `others` that have a cause of their own.

    If a group in `others` has the same reason or the same place as an earlier group, only its modes
    are added to the earlier group.
    """
    merged = list(groups)
    by_reason = {reason_of(group.first): i for i, group in enumerate(groups)}
    by_place = {group.place.span: i for i, group in enumerate(groups)}
    for other in others:
        reason = reason_of(other.first)
        index = by_reason.get(reason, by_place.get(other.place.span))
        if index is None:
            by_reason[reason] = len(merged)
            merged.append(other)
        else:
            merged[index] = merged[index].in_modes(other.modes)
    return merged


def fold_consequences(groups: Sequence[BreakGroup]) -> list[BreakGroup]:
    """Merge groups that are only consequences of another group into that group.

    A break at a `with` is a consequence of a break in the call that made its context manager. A
    break on the handle of a hook is a consequence of the break that registered the hook.
    """
    current = dict(enumerate(groups))
    makers = {
        place.span: index
        for index, group in reversed([*enumerate(groups)])
        for place in (group.place, *calling_positions(group.first))
    }
    for index in [*current]:
        group = current[index]
        made_by = [makers[p.span] for p in context_managers_at(group.place) if p.span in makers]
        if not made_by and is_hook_handle(group.first):
            made_by = [i for i in current if i < index and registers_hook(current[i].first)]
        maker = next((i for i in made_by if i != index), None)
        if maker is None:
            continue
        del current[index]
        if maker in current:
            into = current[maker].in_modes(group.modes)
            current[maker] = replace(
                into,
                consequences=(*into.consequences, *group.breaks),
                graphs=(*into.graphs, *group.graphs),
            )
    return list(current.values())


def relate_causes(recording: Recording, function: Position | None = None) -> nx.DiGraph:
    """Relate the causes, frames and compiled graphs of one recording in a directed graph.

    Its nodes are ("cause", reason), ("frame", file, line, name) and ("graph", index). A reason
    is a `gb_type` and the span of a place. The attribute `breaks` of a cause lists its breaks.
    Edges lead from
    - a cause to each frame that it broke,
    - a frame to each graph that was compiled from it,
    - a cause to each graph that ended at it,
    - a cause to each cause that exists only as its consequence.

    `function` is where the function being explained is defined.
    """
    relation: nx.DiGraph = nx.DiGraph()
    frames: dict[str, Reason] = {}
    index = 0
    for event in recording.events:
        if isinstance(event, Break) and event.gb_type != RECOMPILE_LIMIT:
            if _is_noise(event, function):
                continue
            cause = reason_of(event)
            node = relation.nodes.get(("cause", cause))
            if node is None:
                relation.add_node(("cause", cause), breaks=[event])
            else:
                node["breaks"].append(event)
            relation.add_edge(("cause", cause), _frame_key(event.frame), fate=event.fate)
            frames[event.compile_id] = cause
        elif isinstance(event, Graph):
            relation.add_edge(_frame_key(event.frame), ("graph", index))
            if event.ended_by is not None and event.compile_id in frames:
                relation.add_edge(("cause", frames[event.compile_id]), ("graph", index))
            index += 1
    _link_consequences(relation, function)
    return relation


def _frame_key(position: Position) -> tuple[object, ...]:
    return "frame", position.file, position.line, position.function


def _is_generator(brk: Break) -> bool:
    """Return whether the break is in a generator that Dynamo compiled as a frame of its own."""
    return len(brk.stack) == 1 and category_of_gb_type(brk.gb_type) is Category.GENERATOR


def _is_noise(brk: Break, function: Position | None) -> bool:
    """Return whether a break is in code that the user did not ask to compile.

    Such code is Python's own, or a generator of a library: sympy runs generators while a backward
    is compiled. A break in `function`, the function being explained, is never noise.
    """
    if brk.frame == function:
        return False
    if _is_generator(brk) and owner_of(brk.frame.file) is not Owner.USER:
        return True
    return all(owner_of(position.file) is Owner.PYTHON for position in brk.stack)


def _shown_place(brk: Break, function: Position | None) -> Position:
    """Return the place that reports show for a break.

    It is the definition of `function` if that is user code and the break's own place is not.
    """
    place = place_of(brk)
    if function is not None and not is_user_code(place.file) and is_user_code(function.file):
        return function
    return place


def _link_consequences(relation: nx.DiGraph, function: Position | None) -> None:
    """Add to `relation` an edge from each cause to the causes that are only its consequences."""
    nodes = [n for n in relation if n[0] == "cause"]
    firsts: dict[object, Break] = {n: relation.nodes[n]["breaks"][0] for n in nodes}
    skipping = [
        n
        for n in nodes
        if any(
            d.get("fate", Fate.RESUMED) is not Fate.RESUMED for *_, d in relation.out_edges(n, True)
        )
    ]
    for node, brk in firsts.items():
        place = place_of(brk)
        if is_consequence(brk) or (_is_generator(brk) and brk.frame != function):
            roots = [n for n in skipping if n != node]
            near = [n for n in roots if place_of(firsts[n]).file == place.file]
            inner = [n for n in nodes if n != node and place_of(firsts[n]).is_inside(place)]
            roots = (inner if is_looked_up_early(brk) else []) or near or roots
        elif any(is_user_code(position.file) for position in brk.stack):
            continue
        else:  # torch's own code, run by an expression that broke
            roots = [n for n in nodes if n != node and place_of(firsts[n]).span == place.span]
        if roots and not nx.has_path(relation, node, roots[0]):
            relation.add_edge(roots[0], node)

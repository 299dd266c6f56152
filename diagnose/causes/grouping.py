"""From events to causes: one reason at one expression, however often it was met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import networkx as nx

from fullgraph.compiler.events import Break, Fate, Graph, Position, Recording
from fullgraph.compiler.observe.slots import entered
from fullgraph.compiler.observe.values import Observations
from fullgraph.compiler.recording import RECOMPILE_LIMIT
from fullgraph.compiler.sources import Owner, is_user_code, owner_of, read_source
from fullgraph.diagnose.causes.places import Key, callers, exact, key, place_of
from fullgraph.diagnose.explanation import Cause
from fullgraph.diagnose.taxonomy import (
    Category,
    advise,
    classify,
    is_consequence,
    is_handle,
    is_looked_up_early,
    quote,
    sentence,
)
from fullgraph.diagnose.taxonomy.keywords import by_keywords
from fullgraph.diagnose.unmask.unmask import Hidden

Reason = tuple[str, Key]
"""What makes two breaks the same cause: the `gb_type` and the expression."""

_WORST = {Fate.RESUMED: 0, Fate.PREFIX: 1, Fate.SKIPPED: 2, Fate.RAISED: 0}


@dataclass
class Group:
    """The breaks of one cause."""

    place: Position
    breaks: list[Break]
    modes: list[str]
    consequences: list[Break] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)
    """Indices of the graphs that ended here."""
    hidden: Hidden | None = None

    @property
    def first(self) -> Break:
        return self.breaks[0]


def reason(brk: Break) -> Reason:
    """The key of the cause a break belongs to."""
    return brk.gb_type, key(place_of(brk))


def related(recording: Recording, target: Position | None = None) -> nx.DiGraph:
    """Causes, frames and graphs of one recording, and what led to what.

    Nodes are ("cause", reason), ("frame", file, line, name) and ("graph", index); the graph's
    attributes hold nothing else. An edge leads from a cause to each frame it broke, from a frame
    to each graph compiled from it, from a cause to each graph that ended at it, and from a cause
    to each cause that is only its consequence. `target` is the function being explained.
    """
    relation: nx.DiGraph = nx.DiGraph()
    frames: dict[str, Reason] = {}
    index = 0
    for event in recording.events:
        if isinstance(event, Break) and event.gb_type != RECOMPILE_LIMIT:
            if _is_noise(event, target):
                continue
            cause = reason(event)
            node = relation.nodes.get(("cause", cause))
            if node is None:
                relation.add_node(("cause", cause), breaks=[event])
            else:
                node["breaks"].append(event)
            relation.add_edge(("cause", cause), _frame(event.frame), fate=event.fate)
            frames[event.compile_id] = cause
        elif isinstance(event, Graph):
            relation.add_edge(_frame(event.frame), ("graph", index))
            if event.ended_by is not None and event.compile_id in frames:
                relation.add_edge(("cause", frames[event.compile_id]), ("graph", index))
            index += 1
    _hang_consequences(relation, target)
    return relation


def groups(recording: Recording, mode: str, target: Position | None = None) -> list[Group]:
    """The causes of one recording, in the order they were met."""
    relation = related(recording, target)
    found = []
    for node, data in relation.nodes(data=True):
        if node[0] != "cause" or any(p[0] == "cause" for p in relation.predecessors(node)):
            continue
        group = Group(_place(data["breaks"][0], target), list(data["breaks"]), [mode])
        for follower in relation.successors(node):
            if follower[0] == "graph":
                group.graphs.append(follower[1])
            elif follower[0] == "cause":
                group.consequences += relation.nodes[follower]["breaks"]
        found.append(group)
    return found


def merge(base: list[Group], others: Iterable[Group]) -> list[Group]:
    """`base` with the modes of `others`, and behind it those that it does not have."""
    known = {reason(g.first): g for g in base}
    places = {key(g.place): g for g in base}
    merged = list(base)
    for other in others:
        group = known.get(reason(other.first)) or places.get(key(other.place))
        if group is None:
            merged.append(other)
            known[reason(other.first)] = other
        else:
            group.modes += [mode for mode in other.modes if mode not in group.modes]
    return merged


def folded(found: Sequence[Group]) -> list[Group]:
    """`found` without those that break only by what another one made: a `with` whose manager
    was made by a call that broke, or in which something did, and code that the handle of a hook
    comes along to."""
    kept: list[Group] = []
    makers = {
        key(place): group
        for group in reversed(found)
        for place in (group.place, *callers(group.first))
    }
    for group in found:
        made = [makers[spot] for spot in map(key, entered(group.place)) if spot in makers]
        if not made and is_handle(group.first):
            made = [g for g in kept if classify(g.first) == Category.REGISTRATION]
        maker = next((one for one in made if one is not group), None)
        if maker is None:
            kept.append(group)
        else:
            maker.consequences += group.breaks
            maker.modes += [mode for mode in group.modes if mode not in maker.modes]
            maker.graphs += group.graphs
    return kept


def causes(
    found: Sequence[Group], graphs: Sequence[Graph], values: Observations
) -> tuple[Cause, ...]:
    """The groups as causes with ids, sentences and advice; hidden ones come last."""
    ordered = sorted(found, key=lambda g: g.hidden is not None)
    ids = {key(group.place): f"C{n}" for n, group in reversed([*enumerate(ordered, 1)])}
    return tuple(_cause(group, f"C{n}", ids, graphs, values) for n, group in enumerate(ordered, 1))


def expression_at(place: Position) -> str:
    """The source text of a place; its whole line where the column is not known, "" if unread."""
    file = read_source(place.file)
    if file is None:
        return ""
    node = file.node(place)
    if node is not None:
        return file.segment(node)
    line = file.text.splitlines()[place.line - 1 : place.line]
    if not line:
        return ""
    if place.column is None or place.end_column is None or place.end_line != place.line:
        return line[0].strip()
    return line[0].encode()[place.column : place.end_column].decode(errors="replace")


def _cause(
    group: Group,
    id: str,
    ids: dict[Key, str],
    graphs: Sequence[Graph],
    values: Observations,
) -> Cause:
    brk = group.first
    place = group.place
    expression = expression_at(place)
    seen = values.at(place)
    hidden = group.hidden
    ended = [i for i in group.graphs if i < len(graphs)]
    behind = ids.get(key(hidden.behind)) if hidden and hidden.behind else None
    return Cause(
        id=id,
        category=classify(brk, expression),
        gb_id=brk.gb_id,
        gb_type=brk.gb_type,
        position=place,
        expression=expression,
        source=_lines_around(place),
        message=sentence(brk, expression, seen.values[0] if seen and seen.values else None),
        detail=brk.explanation,
        stack=tuple(exact(position) for position in brk.stack),
        module_path=module_range(p for b in group.breaks for p in b.module_paths),
        frame=_fate(group),
        hidden=hidden is not None,
        behind=behind,
        branch="not taken" if hidden and hidden.not_taken else None,
        modes=tuple(group.modes),
        events=0 if hidden else len(group.breaks),
        graphs=tuple(f"G{i + 1}" for i in ended),
        ops_before=graphs[ended[0]].ops if ended else None,
        ops_after=graphs[ended[0] + 1].ops if ended and ended[0] + 1 < len(graphs) else None,
        state=brk.state,
        advice=advise(brk, expression),
        consequences=_consequences(group),
    )


def module_range(paths: Iterable[str]) -> str | None:
    """Submodule paths in one row: "layers.0", "layers.1", "layers.2" → "layers[0..2]"."""
    names = sorted({p for p in paths if p}, key=_numeric)
    rows: dict[tuple[str, str], list[int]] = {}
    plain: list[str] = []
    for name in names:
        found = re.match(r"(.*?)\.?(\d+)((?:\.\D[^.]*)*)$", name)
        if found is None:
            plain.append(name)
        else:
            rows.setdefault((found[1], found[3]), []).append(int(found[2]))
    for (head, tail), numbers in rows.items():
        plain.append(f"{head}[{_ranges(numbers)}]{tail}")
    return ", ".join(plain) or None


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}..{r[-1]}" for r in runs)


def _numeric(path: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in path.split(".")]


def _fate(group: Group) -> str:
    frames = {(brk.frame.file, brk.frame.function) for brk in group.breaks}
    met = [b for b in group.consequences if (b.frame.file, b.frame.function) in frames]
    fates = [brk.fate for brk in (*group.breaks, *met)]
    worst = max(fates, key=lambda fate: _WORST[fate])
    return Fate.RESUMED.value if worst is Fate.RAISED else worst.value


def _lines_around(place: Position, around: int = 3) -> tuple[tuple[int, str], ...]:
    file = read_source(place.file)
    if file is None:
        return ()
    lines = file.text.splitlines()
    last = min(place.end_line or place.line, place.line + 8)
    numbers = range(max(1, place.line - around), min(len(lines), last + around) + 1)
    return tuple((n, lines[n - 1]) for n in numbers)


def _consequences(group: Group) -> tuple[str, ...]:
    told = []
    for brk in group.consequences:
        what, why = f"`{brk.frame.function}` at line {brk.frame.line}", "its caller ran eager"
        if is_looked_up_early(brk):
            what = f"`{expression_at(place_of(brk))}`"
            why = "its method was looked up before the break among its arguments"
        elif is_handle(brk):
            what, why = "The code behind it", "the handle of the hook comes along"
        elif entered(place_of(brk)):
            what, why = quote(expression_at(place_of(brk))), "it enters what is made here"
        told.append(f"{what} broke too ({brk.gb_id or brk.gb_type}), because {why}.")
    return tuple(dict.fromkeys(told))


def _frame(position: Position) -> tuple[object, ...]:
    return "frame", position.file, position.line, position.function


def _is_generator(brk: Break) -> bool:
    """Whether a generator began as a frame of its own: inlined into its caller it is fine."""
    return len(brk.stack) == 1 and by_keywords(brk.gb_type) is Category.GENERATOR


def _is_noise(brk: Break, target: Position | None) -> bool:
    """Whether eager code broke that nobody asked to compile: Python's own, or a generator that
    a library runs (sympy does, while a backward is compiled inside the region)."""
    if brk.frame == target:
        return False
    if _is_generator(brk) and owner_of(brk.frame.file) is not Owner.USER:
        return True
    return all(owner_of(position.file) is Owner.PYTHON for position in brk.stack)


def _place(brk: Break, target: Position | None) -> Position:
    """The place of a break; that of the function itself where only torch's wrapper around it is
    to be seen."""
    place = place_of(brk)
    if target is not None and not is_user_code(place.file) and is_user_code(target.file):
        return target
    return place


def _inside(inner: Position, outer: Position) -> bool:
    """Whether one span lies within another of the same file."""
    if inner.file != outer.file or None in (inner.column, outer.column, outer.end_column):
        return False
    start, end = (inner.line, inner.column), (inner.end_line, inner.end_column)
    first, last = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return (first, last) != (start, end) and first <= start and end <= last


def _hang_consequences(relation: nx.DiGraph, target: Position | None) -> None:
    """Edges from causes to what broke only because they left code to eager."""
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
        if is_consequence(brk) or (_is_generator(brk) and brk.frame != target):
            roots = [n for n in skipping if n != node]
            near = [n for n in roots if place_of(firsts[n]).file == place.file]
            inner = [n for n in nodes if n != node and _inside(place_of(firsts[n]), place)]
            roots = (inner if is_looked_up_early(brk) else []) or near or roots
        elif any(is_user_code(position.file) for position in brk.stack):
            continue
        else:  # torch's own code, run by an expression that broke
            roots = [n for n in nodes if n != node and key(place_of(firsts[n])) == key(place)]
        if roots and not nx.has_path(relation, node, roots[0]):
            relation.add_edge(roots[0], node)

"""The whole edit of a flow: where the mask gets a name, and what the edit assumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Definitions, NotApplicable, names_mutated, walk
from fullgraph.rewrites.rule import Refusal, Rewrite
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_expression,
    build_statement,
    parenthesize,
    replace_nodes,
    round_trips,
)
from fullgraph.rewrites.transforms.eager_only import compiling_condition
from fullgraph.rewrites.transforms.masks.aliases import find_clone
from fullgraph.rewrites.transforms.masks.continuation import copy_continuation
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.full_shape import FullShapeWriter
from fullgraph.rewrites.transforms.masks.mask_device import mask_on_device
from fullgraph.rewrites.transforms.masks.operators import is_normalization, parse_operation
from fullgraph.rewrites.transforms.masks.reads import can_insert_before, is_name, is_repeatable
from fullgraph.rewrites.transforms.masks.sink_text import SinkWriter
from fullgraph.rewrites.transforms.masks.sinks import MetadataSink, Sink, StoreSink

_FILLS = ("0", "1", "0.5")
_MOST_LINES = 4
"""How many statements may stand twice, for compiled and for eager code."""


def find_sinks(flow: Flow) -> list[Sink]:
    """Return the uses of selected elements after which their number is no longer visible.

    Leaves out uses of metadata such as `.dtype`.
    """
    return [
        sink
        for found in flow.trees.values()
        for sink in found
        if not isinstance(sink, MetadataSink)
    ]


def rewrite_flow(flow: Flow, why: str, mask: cst.BaseExpression | None = None) -> Rewrite | Refusal:
    """Return the rewrite of a flow at full shape, or a refusal.

    `why` explains the rewrite. `mask` is the code to write for the mask; if it is None, that is the
    mask's source, or a new name if the mask is needed more than once.
    """
    reason: NotApplicable | None = None
    for fill in _FILLS:
        try:
            return _rewrite_with_fill(flow, fill, why, mask)
        except NotApplicable as error:
            reason = reason or error
    return Refusal(str(reason))


def _rewrite_with_fill(
    flow: Flow, fill: str, why: str, given_mask: cst.BaseExpression | None
) -> Rewrite:
    """Return the rewrite with the padding value `fill`, such as "0".

    `why` explains it to the user. `given_mask` is the code to write for the mask; None to choose
    it. Raises NotApplicable if `fill` does not suit all uses.
    """
    own, (mask, moved) = flow.first.mask, mask_on_device(flow)
    text = FullShapeWriter(flow, given_mask or mask, fill)
    written = SinkWriter(flow, text)
    edits = _parenthesize_edits(flow, written.edits())
    place = _first_statement(flow)
    named = given_mask is None and not is_name(mask) and text.masks > 1
    if named:
        named = can_insert_before(flow.site.document, place, flow.reads)
        if not named and not (is_repeatable(flow.site, mask) and _is_unchanged(flow, edits, own)):
            raise NotApplicable("the mask cannot be given a name before it is used")
    if named:
        name = flow.site.document.unused_local(place, "mask", "keep", "selected")
        text = FullShapeWriter(flow, cst.Name(name), fill)
        written = SinkWriter(flow, text)
        edits = _parenthesize_edits(flow, written.edits())
        _check(flow, [*flow.reads, *_index_calls(flow)], own)
        guarded = _keep_in_eager(flow, edits, cst.Name(name))
        replacements = _with_mask(flow, guarded or edits, place, name, mask)
    else:
        if not is_repeatable(flow.site, mask) and text.masks > 1:
            raise NotApplicable("the mask is not the same when it is worked out again")
        _check(flow, [*flow.reads, *_index_calls(flow), *edits], own)
        guarded = _keep_in_eager(flow, edits, given_mask)
        replacements = dict(guarded or {**edits, **_without_clones(flow, edits)})
    if flow.mixed:
        line = flow.site.document.statement(flow.first.node)
        replacements = copy_continuation(flow.site, line, flow.continuation, edits, replacements)
    replacements |= moved
    assumes = list(written.assumes)
    if guarded is None and (call := next(_products_of_rows(flow, edits), None)) is not None:
        code = flow.site.document.code(call)
        assumes.append(f"eager code may compute `{code}` for all rows")
    if flow.unsure:
        code = flow.site.document.code(flow.first.base)
        assumes.append(f"the mask is boolean and has the shape of `{code}`")
    return Rewrite(
        replacements,
        why,
        assumes=tuple(assumes),
        imports=("torch",),
        has_shortcut=guarded is not None,
    )


def _products_of_rows(flow: Flow, edits: Iterable[cst.CSTNode]) -> Iterator[cst.Call]:
    """Yield the matrix products of the selected rows alone, in the statements of `edits`."""
    document = flow.site.document
    for statement in dict.fromkeys(document.statement(node) for node in edits):
        for node in walk(statement):
            made = parse_operation(flow.site, node) if isinstance(node, cst.Call) else None
            if made is None or made.name != "linear" or is_normalization(flow.site, made):
                continue
            if any(one in flow.reads or one in flow.names for one in walk(made.tensor)):
                yield made.call


def _keep_in_eager(
    flow: Flow, edits: Mapping[cst.CSTNode, cst.CSTNode], mask: cst.BaseExpression | None
) -> dict[cst.CSTNode, Replacement] | None:
    """Return edits by which eager code multiplies the selected rows alone, as it did.

    The statements become `if torch.compiler.is_compiling(): … else: …`. `mask` is the code of the
    mask for eager code; None to keep it. The result is None if they multiply no rows, or do not
    follow one another.
    """
    document = flow.site.document
    if next(_products_of_rows(flow, edits), None) is None or flow.mixed:
        return None
    changed = {document.statement(node) for node in edits}
    block = getattr(document.parent(next(iter(changed))), "body", ())
    places = [i for i, line in enumerate(block) if line in changed]
    lines = block[min(places, default=0) : max(places, default=0) + 1]
    plain = all(isinstance(line, cst.SimpleStatementLine) for line in lines)
    if len(places) < len(changed) or len(lines) > _MOST_LINES or not plain:
        return None
    kept = dict[cst.CSTNode, Replacement]()
    for read in (*flow.reads.values(), *(one.target for one in _stores(flow))):
        if mask is not None and isinstance(read.node, cst.Subscript) and read.indices is not None:
            index = cst.SubscriptElement(cst.Index(mask))
            kept[read.node] = read.node.with_changes(slice=[index])
        elif mask is not None:
            kept[read.mask] = mask
    first, *others = lines
    compiled, eager = (
        [replace_nodes(line.deep_clone() if not new else line, new) for line in lines]
        for new in (edits, kept)
    )
    bare = [block[0].with_changes(leading_lines=()) for block in (compiled, eager)]
    guard = cst.If(
        build_expression(compiling_condition(document)),
        cst.IndentedBlock([bare[0], *compiled[1:]]),
        cst.Else(cst.IndentedBlock([bare[1], *eager[1:]])),
        first.leading_lines,
    )
    return {first: guard, **dict.fromkeys(others, cst.RemoveFromParent())}


def _without_clones(
    flow: Flow, edits: Mapping[cst.CSTNode, cst.CSTNode]
) -> dict[cst.CSTNode, Replacement]:
    """Return edits that read `x` in place of a clone `y` that `y = torch.where(…)` replaces."""
    found = dict[cst.CSTNode, Replacement]()
    for store in _stores(flow):
        match new := edits.get(store.statement):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value):
                place = flow.site.document.statement(store.statement)
                known = flow.definitions
                clone = find_clone(flow.site, known, name, place) if known is not None else None
                if clone is not None:
                    line, source = clone
                    words = {
                        word
                        for one in walk(value)
                        for word in (getattr(one, "attr", None), getattr(one, "keyword", None))
                    }
                    uses = {
                        one: source
                        for one in walk(value)
                        if one not in words and m.matches(one, m.Name(name.value))
                    }
                    found[line] = cst.RemoveFromParent()
                    found[store.statement] = new.with_changes(value=replace_nodes(value, uses))
    return found


def _stores(flow: Flow) -> Iterator[StoreSink]:
    """Yield the assignments through the mask."""
    return (one for one in find_sinks(flow) if isinstance(one, StoreSink))


def _index_calls(flow: Flow) -> list[cst.CSTNode]:
    """Return the calls such as `m.nonzero()` whose results index a tensor in place of the mask."""
    return [found.indices for found in flow.reads.values() if found.indices is not None]


def _parenthesize_edits(
    flow: Flow, edits: Mapping[cst.CSTNode, cst.CSTNode]
) -> dict[cst.CSTNode, cst.CSTNode]:
    """Return `edits` with parentheses around new expressions that need them."""
    found = dict(edits)
    for node, new in edits.items():
        parent = flow.site.document.parent(node)
        if not isinstance(new, cst.BaseExpression) or not isinstance(parent, cst.BaseExpression):
            continue
        if not round_trips(replace_nodes(parent, {node: new}), cst.parse_expression):
            found[node] = parenthesize(new)
    return found


def _first_statement(flow: Flow) -> cst.CSTNode:
    """Return the statement that contains the first masked read."""
    document = flow.site.document
    first = min(flow.reads, key=lambda node: document.position(node).line)
    return document.statement(first)


def _with_mask(
    flow: Flow,
    edits: Mapping[cst.CSTNode, Replacement],
    place: cst.CSTNode,
    name: str,
    mask: cst.BaseExpression,
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the statement `name = mask` inserted before the statement `place`."""
    assert isinstance(place, cst.SimpleStatementLine)
    inside = {n: new for n, new in edits.items() if place in flow.site.document.ancestors(n)}
    first = build_statement("{name} = {mask}", name=name, mask=mask)
    first = first.with_changes(leading_lines=place.leading_lines)
    rest = edits[place] if place in edits else replace_nodes(place, inside)
    outside = {node: new for node, new in edits.items() if node not in inside and node is not place}
    assert isinstance(rest, cst.BaseStatement)
    rest = rest.with_changes(leading_lines=())
    return {place: cst.FlattenSentinel([first, rest]), **outside}


def _is_unchanged(flow: Flow, edits: Iterable[cst.CSTNode], mask: cst.BaseExpression) -> bool:
    """Return whether the mask certainly has the same value at every edit."""
    try:
        _check(flow, [*flow.reads, *edits], mask)
    except NotApplicable:
        return False
    return True


def _check(flow: Flow, places: Iterable[cst.CSTNode], mask: cst.BaseExpression) -> None:
    require_unchanged_mask(flow.site.document, flow.definitions, places, mask)


def require_unchanged_mask(
    document: Document,
    known: Definitions | None,
    places: Iterable[cst.CSTNode],
    mask: cst.BaseExpression,
) -> None:
    """Raise NotApplicable if a mask may change between `places`, the expressions that need it.

    `known` are the reaching definitions of the function; if it is None, nothing is checked.
    """
    if known is None:
        return
    names = {one.value for one in walk(mask) if isinstance(one, cst.Name)}
    statements = dict.fromkeys(document.statement(place) for place in places)
    states = [known.before.get(one, {}) for one in statements]
    for name in names:
        if len({state.get(name, frozenset()) for state in states}) > 1:
            raise NotApplicable(f"`{name}` is another one by the time the mask is needed again")
    lines = [document.position(one).line for one in statements]
    for one in known.before:
        between = min(lines) <= document.position(one).line < max(lines)
        simple = isinstance(one, cst.SimpleStatementLine)
        if between and simple and set(_names_changed(one)) & names:
            raise NotApplicable(
                f"`{document.code(one)}` changes the mask before it is needed again"
            )


def _names_changed(node: cst.CSTNode) -> Iterable[str]:
    return (path.partition(".")[0] for path in names_mutated(node))

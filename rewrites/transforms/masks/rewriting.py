"""The whole edit of a flow: where the mask gets a name, and what the edit assumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst

from fullgraph.rewrites.analysis import Definitions, NotApplicable, names_mutated, walk
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_statement,
    parenthesize,
    replace_nodes,
    round_trips,
)
from fullgraph.rewrites.transforms.masks.continuation import copy_continuation
from fullgraph.rewrites.transforms.masks.flow import Flow
from fullgraph.rewrites.transforms.masks.full_shape import FullShapeWriter
from fullgraph.rewrites.transforms.masks.reads import can_insert_before, is_name, is_repeatable
from fullgraph.rewrites.transforms.masks.sink_text import SinkWriter
from fullgraph.rewrites.transforms.masks.sinks import MetadataSink, Sink

_FILLS = ("0", "1", "0.5")


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
    mask = flow.first.mask.with_changes(lpar=(), rpar=())
    text = FullShapeWriter(flow, given_mask or mask, fill)
    written = SinkWriter(flow, text)
    edits = _parenthesize_edits(flow, written.edits())
    place = _first_statement(flow)
    named = given_mask is None and not is_name(mask) and text.masks > 1
    if named:
        named = can_insert_before(flow.site.document, place, flow.reads)
        if not named and not (is_repeatable(flow.site, mask) and _is_unchanged(flow, edits, mask)):
            raise NotApplicable("the mask cannot be given a name before it is used")
    if named:
        name = flow.site.document.unused_local(place, "mask", "keep", "selected")
        text = FullShapeWriter(flow, cst.Name(name), fill)
        written = SinkWriter(flow, text)
        edits = _parenthesize_edits(flow, written.edits())
        _check(flow, [*flow.reads, *_index_calls(flow)], mask)
        replacements = _with_mask(flow, edits, place, name, mask)
    else:
        if not is_repeatable(flow.site, mask) and text.masks > 1:
            raise NotApplicable("the mask is not the same when it is worked out again")
        _check(flow, [*flow.reads, *_index_calls(flow), *edits], mask)
        replacements = dict(edits)
    if flow.mixed:
        line = flow.site.document.statement(flow.first.node)
        replacements = copy_continuation(flow.site, line, flow.continuation, edits, replacements)
    assumes = list(written.assumes)
    if flow.unsure:
        code = flow.site.document.code(flow.first.base)
        assumes.append(f"the mask is boolean and has the shape of `{code}`")
    return Rewrite(
        replacements,
        why,
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        tuple(assumes),
        imports=("torch",),
    )


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
    edits: Mapping[cst.CSTNode, cst.CSTNode],
    place: cst.CSTNode,
    name: str,
    mask: cst.BaseExpression,
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the statement `name = mask` inserted before the statement `place`."""
    assert isinstance(place, cst.SimpleStatementLine)
    inside = {n: new for n, new in edits.items() if place in flow.site.document.ancestors(n)}
    first = build_statement("{name} = {mask}", name=name, mask=mask)
    first = first.with_changes(leading_lines=place.leading_lines)
    rest = replace_nodes(place, inside).with_changes(leading_lines=())
    outside = {node: new for node, new in edits.items() if node not in inside}
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

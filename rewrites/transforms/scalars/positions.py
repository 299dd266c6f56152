"""Slices with the same bounds in several statements, whose positions get a name."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import find_all, names_bound, names_mutated, names_read, walk
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_statement,
    leading_lines,
    replace_nodes,
)
from fullgraph.rewrites.transforms.scalars.use_edits import UseEdits


def equal_slices(document: Document, piece: cst.Slice) -> list[cst.Slice]:
    """Return the slices with the bounds of `piece` in the simple statements of its block.

    Only `piece` if the bounds may have another value in one of them.
    """
    line = document.statement(piece)
    block = getattr(document.parent(line), "body", ())
    pattern, found = m.Slice(), []
    for place, one in enumerate(block if line in block else ()):
        for node in find_all(one, pattern) if isinstance(one, cst.SimpleStatementLine) else ():
            if isinstance(node, cst.Slice) and node.deep_equals(piece):
                found.append((place, node))
    if len(found) < 2 or find_all(piece, m.Call()):
        return [piece]
    between = block[found[0][0] : found[-1][0]]
    changed = {*names_bound(*between), *names_mutated(*between)}
    return [piece] if changed & names_read(piece) else [node for _, node in found]


def name_positions(uses: UseEdits) -> dict[cst.CSTNode, Replacement]:
    """Return the replacements of `uses`, with the lines that go before statements.

    Positions that several slices share have a name there:
    `x[:, n : n + k] = …` and `y[:, n : n + k] = …` become `positions = n + torch.arange(k)` and
    `x[:, positions] = …`, `y[:, positions] = …`.
    """
    document, edits, seen = uses.document, uses.replacements(), set()
    before: dict[cst.CSTNode, list[cst.BaseStatement]] = {
        line: [one for lines in made.values() for one in lines]
        for line, made in uses.lines_before.items()
    }
    for piece in uses.positions:
        same = [one for one in equal_slices(document, piece) if one in uses.positions]
        if piece in seen or len(same) < 2:
            continue
        seen |= {*same}
        tensors = list(dict.fromkeys(document.code(uses.positions[one].value) for one in same))
        for other in tensors[1:]:
            uses.assume(f"`{other}` is on the device of `{tensors[0]}`")
        name = document.unused_local(piece, "positions", "places")
        edits |= dict.fromkeys(same, cst.Index(cst.Name(name)))
        line = document.statement(same[0])
        value = cst.ensure_type(uses.others[same[0]], cst.Index).value
        first = build_statement("{name} = {value}", name=name, value=value)
        before.setdefault(line, []).append(first)
    for place, lines in before.items():
        edits = _with_lines(uses, edits, place, lines)
    return edits


def _with_lines(
    uses: UseEdits,
    edits: dict[cst.CSTNode, Replacement],
    line: cst.CSTNode,
    lines: list[cst.BaseStatement],
) -> dict[cst.CSTNode, Replacement]:
    """Return the replacements with `lines` before a statement."""
    if not lines:
        return edits
    inside = {node: new for node, new in edits.items() if line in uses.document.ancestors(node)}
    rest = replace_nodes(line, inside).with_changes(leading_lines=())
    first, *others = [
        replace_nodes(
            one, {node: uses.with_edits(node) for node in uses.texts if node in {*walk(one)}}
        )
        for one in lines
    ]
    first = first.with_changes(leading_lines=leading_lines(line))
    kept = {node: new for node, new in edits.items() if node not in inside}
    return {**kept, line: cst.FlattenSentinel([first, *others, rest])}

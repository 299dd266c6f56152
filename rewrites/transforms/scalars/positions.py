"""Slices with the same bounds in several statements, whose positions get a name."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import names_bound, names_mutated, names_read
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
        for node in m.findall(one, pattern) if isinstance(one, cst.SimpleStatementLine) else ():
            if isinstance(node, cst.Slice) and node.deep_equals(piece):
                found.append((place, node))
    if len(found) < 2 or m.findall(piece, m.Call()):
        return [piece]
    between = block[found[0][0] : found[-1][0]]
    changed = {*names_bound(*between), *names_mutated(*between)}
    return [piece] if changed & names_read(piece) else [node for _, node in found]


def name_positions(uses: UseEdits) -> dict[cst.CSTNode, Replacement]:
    """Return the replacements of `uses`, in which positions that several slices share have a name.

    `x[:, n : n + k] = …` and `y[:, n : n + k] = …` become `positions = n + torch.arange(k)` and
    `x[:, positions] = …`, `y[:, positions] = …`.
    """
    document, edits, seen = uses.document, uses.replacements(), set()
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
        inside = {node: new for node, new in edits.items() if line in document.ancestors(node)}
        value = cst.ensure_type(uses.others[same[0]], cst.Index).value
        first = build_statement("{name} = {value}", name=name, value=value)
        first = first.with_changes(leading_lines=leading_lines(line))
        rest = replace_nodes(line, inside).with_changes(leading_lines=())
        edits = {node: new for node, new in edits.items() if node not in inside}
        edits[line] = cst.FlattenSentinel([first, rest])
    return edits

"""Write assignments that fill a whole new tensor as one `torch.where`.

`z = torch.zeros_like(x)`, then `z[m] = f(x[m])` and perhaps `z[~m] = x[~m]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    assigned_value,
    find_all,
    names_mutated,
    operation_of,
    removable_line,
    walk,
)
from fullgraph.rewrites.rule import Rewrite
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    replace_nodes,
)
from fullgraph.rewrites.transforms.masks.flow import Flow, find_flow
from fullgraph.rewrites.transforms.masks.mask_device import mask_on_device
from fullgraph.rewrites.transforms.masks.reads import find_read, is_name
from fullgraph.rewrites.transforms.masks.rewriting import find_sinks, rewrite_flow
from fullgraph.rewrites.transforms.masks.sinks import StoreSink

_FILLS = {"zeros_like": "0", "ones_like": "1", "empty_like": ""}
"""What the elements of a new tensor are, by the function that makes it; "" if undefined."""


@dataclass(frozen=True, eq=False)
class Store:
    """Assignment `z[m] = …`, rewritten as `z = torch.where(m, chosen, z)`, and its flow's edits."""

    flow: Flow
    sink: StoreSink
    line: cst.SimpleStatementLine
    mask: cst.BaseExpression
    chosen: cst.BaseExpression
    edits: dict[cst.CSTNode, Replacement]


def fill_through_where(flow: Flow, why: str) -> Rewrite | None:
    """Return the rewrite of a flow's one assignment, where the tensor is new and not yet used.

    An assignment through the opposite mask, on the next line or the one before, is rewritten with
    it. None for other flows. `why` explains the rewrite to the user.
    """
    known, store = flow.definitions, _rewrite_store(flow, why)
    if known is None or store is None:
        return None
    partner = next(filter(None, (_rewrite_store(one, why) for one in _partners(store))), None)
    stores = [store] if partner is None else [store, partner]
    if not all(_fits(one) for one in stores):
        return None
    stores.sort(key=lambda one: flow.site.document.position(one.line).line)
    created = _creation_line(known, stores)
    if created is None:
        return None
    line, fill = created
    gone, last = [line], stores[-1]
    other: cst.BaseExpression | str = fill
    if len(stores) == 2:
        gone += [stores[0].line, *_unused_mask_lines(stores)]
        first, last = stores
        if _negated(flow, first.flow.first.mask) is None:
            first, last = last, first
        other = first.chosen
    elif not fill or not last.sink.target.is_float:
        return None
    if any(find_all(one, m.Comment()) for one in gone):
        return None
    edits: dict[cst.CSTNode, Replacement] = {
        node: new for one in stores for node, new in one.edits.items()
    }
    edits |= dict.fromkeys(gone, cst.RemoveFromParent())
    where = flow.site.document.imported_name("torch.where") or "torch.where"
    new = build_expression(
        "{where}({mask}, {chosen}, {other})",
        where=where,
        mask=last.mask,
        chosen=last.chosen,
        other=other,
    )
    target = cst.ensure_type(last.sink.target.base, cst.Name)
    statement = cst.Assign([cst.AssignTarget(target)], new)
    if len(stores) == 1 and (named := _name_mask(store, statement)) is not None:
        edits[store.line] = named
    else:
        edits[stores[-1].sink.statement] = statement
    return Rewrite(edits, why, imports=("torch",))


def _name_mask(store: Store, statement: cst.Assign) -> Replacement | None:
    """Return `statement` after a line that names the mask, in place of the line of a store.

    None if the mask is a name already, or written once.
    """
    mask = mask_on_device(store.flow)[0]
    uses = [one for one in walk(statement) if one.deep_equals(mask)]
    if len(uses) < 2 or is_name(mask):
        return None
    name = store.flow.site.document.unused_local(store.line, "mask", "keep", "selected")
    first = build_statement("{name} = {mask}", name=name, mask=mask)
    short = replace_nodes(statement, {one: cst.Name(name) for one in uses})
    return cst.FlattenSentinel(
        [
            first.with_changes(leading_lines=store.line.leading_lines),
            store.line.with_changes(body=[short], leading_lines=()),
        ]
    )


def _rewrite_store(flow: Flow, why: str) -> Store | None:
    """Return a flow's only sinks' rewrite if it is one assignment to a name; else None."""
    sinks = [one for one in find_sinks(flow) if isinstance(one, StoreSink)]
    if not sinks or any(one.statement is not sinks[0].statement for one in sinks) or flow.unsure:
        return None
    made = rewrite_flow(flow, why, mask_on_device(flow)[0])
    statement = sinks[0].statement
    line = flow.site.document.parent(statement)
    if not isinstance(made, Rewrite) or made.assumes or not isinstance(statement, cst.Assign):
        return None
    new = made.replacements.get(statement)
    if not isinstance(new, cst.Assign) or not isinstance(line, cst.SimpleStatementLine):
        return None
    match new:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name())],
            value=cst.Call(args=[cst.Arg(value=mask), cst.Arg(value=chosen), cst.Arg()]),
        ) if len(line.body) == 1:
            edits = {node: one for node, one in made.replacements.items() if node is not statement}
            return Store(flow, sinks[0], line, mask, chosen, edits)
    return None


def _partners(store: Store) -> Iterator[Flow]:
    """Yield the flows into an assignment beside `store`, to the same name by the opposite mask."""
    flow, document = store.flow, store.flow.site.document
    block = getattr(document.parent(store.line), "body", ())
    place = next((i for i, one in enumerate(block) if one is store.line), 0)
    beside = [block[i] for i in (place - 1, place + 1) if 0 <= i < len(block)]
    function = document.function(store.line)
    for node in walk(function) if function is not None else ():
        read = find_read(flow.site, node) if isinstance(node, cst.Subscript) else None
        if read is None or not _are_opposite(flow, flow.first.mask, read.mask):
            continue
        other = find_flow(replace(flow.site, node=node))
        if not isinstance(other, Flow):
            continue
        ends = [one for one in find_sinks(other) if isinstance(one, StoreSink)]
        base = store.sink.target.base
        if any(
            document.parent(one.statement) in beside and one.target.base.deep_equals(base)
            for one in ends
        ):
            yield other


def _are_opposite(flow: Flow, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Return whether one of two masks is `~` the other, or a name for that."""
    pairs = ((one, _negated(flow, other)), (other, _negated(flow, one)))
    return any(opposite is not None and mask.deep_equals(opposite) for mask, opposite in pairs)


def _negated(flow: Flow, mask: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `m` for the mask `~m`, or for a name that is assigned `~m` only; else None."""
    if isinstance(mask, cst.Name) and flow.definitions is not None:
        found = [
            bindings.get(mask.value, frozenset()) for bindings in flow.definitions.before.values()
        ]
        names = {name for bindings in found for name in bindings}
        value = assigned_value(flow.site.document, next(iter(names))) if len(names) == 1 else None
        inner = _negated(flow, value) if isinstance(value, cst.UnaryOperation | cst.Call) else None
        changed = set(names_mutated(flow.definitions.function))
        is_fixed = isinstance(inner, cst.Name) and not {mask.value, inner.value} & changed
        return inner if is_fixed else None
    made = operation_of(flow.site, mask)
    if made is None or made.name not in ("bitwise_not", "logical_not") or made.in_place:
        return None
    inner = made.operands[0]
    return inner if isinstance(inner, cst.Name) else None


def _unused_mask_lines(stores: list[Store]) -> list[cst.SimpleStatementLine]:
    """Return the line `n = ~m` of a mask that only `stores` use, if there is one."""
    flow, lines = stores[0].flow, []
    known = flow.definitions
    own = {node for one in stores for node in walk(one.line)}
    for mask in (one.flow.first.mask for one in stores):
        if known is None or not isinstance(mask, cst.Name) or _negated(flow, mask) is None:
            continue
        (binding,) = known.before[stores[0].line][mask.value]
        value = assigned_value(flow.site.document, binding)
        line = removable_line(flow.site.document, value) if value is not None else None
        if line is not None and all(use in own for use in known.uses(binding)):
            lines.append(line)
    return lines


def _fits(store: Store) -> bool:
    """Return whether what is assigned certainly has the dtype of the tensor, at its full shape."""
    site, target = store.flow.site, store.sink.target
    whole = site.observed(target.base)
    part = site.observed(store.sink.statement.value)
    bases = [site.observed(read.base) for read in store.flow.reads.values()]
    if whole is None or part is None or not target.plain or len(whole.dtypes) != 1:
        return False
    shapes = [one.shapes if one is not None else None for one in bases]
    same = all(one == whole.shapes for one in shapes) and len(whole.shapes) == 1
    return same and part.is_tensor and part.dtypes == whole.dtypes


def _creation_line(
    known: Definitions, stores: list[Store]
) -> tuple[cst.SimpleStatementLine, cst.BaseExpression | str] | None:
    """Return the line that makes the tensor which `stores` fill, and what its elements are.

    None if the tensor is used before the last of them, or not made in their block.
    """
    flow, last = stores[-1].flow, stores[-1]
    document, name = flow.site.document, stores[0].sink.target.base
    found = known.before.get(stores[0].line, {}).get(getattr(name, "value", ""), frozenset())
    value = assigned_value(flow.site.document, next(iter(found))) if len(found) == 1 else None
    made = operation_of(flow.site, value) if value is not None else None
    line = removable_line(flow.site.document, value) if value is not None else None
    if made is None or line is None or made.name not in _FILLS or made.keywords:
        return None
    reads = [read for one in stores for read in one.flow.reads.values()]
    if not any(made.operands[0].deep_equals(read.base) for read in reads):
        return None  # it may have another dtype on other inputs
    if document.parent(line) is not document.parent(last.line):
        return None
    ours = {node for one in stores for node in walk(one.sink.target.node)}
    early = [
        use
        for use in known.uses(next(iter(found)))
        if use not in ours and document.position(use).line <= document.position(last.line).line
    ]
    return None if early else (line, _FILLS[made.name])

"""Results of code that moves into a custom operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import NotApplicable, Site, find_all, walk
from fullgraph.rewrites.source import Document, dotted_name
from fullgraph.rewrites.transforms.boundaries.arguments import OperatorArgument, OperatorBody
from fullgraph.rewrites.transforms.boundaries.origins import OriginFinder, Origins

_VERB = re.compile(r"^_*(?:compute_|count_|find_|get_)?|_(?:at|for|from|in|of)(?:_.*)?$")
"""What is left out of a function's name to name its result: "position" for `position_of`."""


@dataclass(frozen=True)
class OperatorResult:
    """Result of a new custom operator."""

    name: str
    """Name for the result, if it is a number."""
    seen: ValueSummary
    """The observed values."""
    elsewhere: tuple[ValueSummary | None, ...]
    """The values in each run on inputs of other sizes; None if that run did not come so far."""
    levels: Mapping[str, int]
    """The names that it is computed from, each with the number of definitions in between.

    `{"y": 0, "x": 1}` for `y = 2 * x; return y`."""
    origins: Origins


def results_of(
    site: Site,
    helper: OperatorBody,
    arguments: Sequence[OperatorArgument],
    renamed: dict[cst.CSTNode, cst.CSTNode],
    finder: OriginFinder,
) -> list[OperatorResult]:
    """Return the results of `helper`, a whole function.

    Adds to `renamed`, the edits of the body, a `.clone()` of each returned argument, since an
    operator must not return its inputs. Raises NotApplicable if it cannot return the results.
    """
    document, name = site.document, helper.name
    given = {one.code for one in arguments if one.is_tensor}
    columns: list[list[cst.BaseExpression]] = []
    for one in find_all(helper.body, m.Return()):
        if document.function(one) is not helper.function:
            continue
        value = cst.ensure_type(one, cst.Return).value
        if value is None:
            raise NotApplicable(f"`{name}` returns nothing")
        parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
        if columns and len(columns) != len(parts):
            raise NotApplicable(f"`{name}` returns different numbers of results")
        columns = columns or [[] for _ in parts]
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
            if isinstance(part, cst.Name) and part.value in given and helper.may_be_argument(part):
                renamed[part] = cst.parse_expression(f"{part.value}.clone()")
    if not columns:
        raise NotApplicable(f"`{name}` returns nothing")
    return [result_of(site, helper, column, finder) for column in columns]


def result_of(
    site: Site, helper: OperatorBody, parts: Sequence[cst.BaseExpression], finder: OriginFinder
) -> OperatorResult:
    """Return one result of `helper`; `parts` are its expressions, one for each `return`.

    Raises NotApplicable if an operator cannot return such values.
    """
    seen = [one for one in map(site.observed, parts) if one is not None]
    runs = zip(*map(site.observed_at_other_sizes, parts), strict=False)
    first = parts[0]
    return OperatorResult(
        first.value if isinstance(first, cst.Name) else _VERB.sub("", helper.name) or "number",
        merge_results(helper.name, seen),
        tuple(_merge([one for one in run if one is not None]) for run in runs),
        levels_of(site.document, helper.body, parts),
        Origins().union(*map(finder.origins_of, parts)),
    )


def levels_of(
    document: Document, body: cst.CSTNode, parts: Sequence[cst.BaseExpression]
) -> dict[str, int]:
    """Return how many definitions lie between each name or attribute and a result of `body`.

    `{"y": 0, "x": 1}` for `y = 2 * x; return y`; names more than 5 definitions away are left out.
    `parts` are the expressions of one result, one for each `return`.
    """
    levels: dict[str, int] = {}
    found: list[cst.CSTNode] = list(parts)
    definitions = tuple(_definitions(document, body))
    for level in range(6):
        paths = [n for one in found for n in walk(one) if isinstance(n, cst.Name | cst.Attribute)]
        new = {document.code(path) for path in paths if dotted_name(path)} - levels.keys()
        levels.update(dict.fromkeys(new, level))
        found = [value for target, value in definitions if target in new]
    return levels


def _definitions(document: Document, body: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (target, value) for each assignment, loop and `append` in `body`.

    ("y", `2 * x`) for `y = 2 * x`, ("row", `rows`) for `for row in rows:`, and ("values", `x`) for
    `values.append(x)`. How often a loop appends decides the size: also ("values", `rows`).
    """
    inside = {id(node) for node in walk(body)}
    for node in walk(body):
        pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        if isinstance(node, cst.Assign):
            for target in (one.target for one in node.targets):
                pairs += _unpack(target, node.value)
        elif isinstance(node, cst.AugAssign):
            pairs.append((node.target, node.value))
        elif isinstance(node, cst.For):
            pairs += _unpack(node.target, node.iter)
        elif m.matches(node, m.Call(func=m.Attribute(attr=m.Name("append")), args=[m.Arg()])):
            call = cst.ensure_type(node, cst.Call)
            values = cst.ensure_type(call.func, cst.Attribute).value
            pairs.append((values, call.args[0].value))
            loops = [one for one in document.ancestors(node) if isinstance(one, cst.For)]
            pairs += [(values, loop.iter) for loop in loops if id(loop) in inside]
        yield from ((dotted_name(target), value) for target, value in pairs if dotted_name(target))


def _unpack(target: cst.CSTNode, value: cst.CSTNode) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
    """Return (name, value) for each name that a target binds."""
    if not isinstance(target, cst.Tuple):
        return [(target, value)]
    if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
        pairs = zip(target.elements, value.elements, strict=True)
        return [(one.value, part.value) for one, part in pairs]
    return [(one.value, value) for one in target.elements]


def _merge(seen: Sequence[ValueSummary]) -> ValueSummary | None:
    """Return the observed values of several expressions as those of one; None if there are none."""
    if not seen:
        return None
    types = tuple({kind: None for one in seen for kind in one.types})
    tensors = tuple({tensor: None for one in seen for tensor in one.tensors})
    values = tuple({value: None for one in seen for value in one.values})
    return ValueSummary(types, sum(one.count for one in seen), tensors, values)


def merge_results(name: str, seen: Sequence[ValueSummary]) -> ValueSummary:
    """Return the observed values that several `return`s give for one result, merged.

    `name` is used in messages. Raises NotApplicable if an operator cannot return the values: only
    tensors of one dtype and number of dimensions, and nonnegative ints.
    """
    merged = _merge(seen)
    if merged is None:
        raise NotApplicable(f"a result of `{name}` was not seen")
    if merged.requires_grad:
        raise NotApplicable(f"a gradient flows through `{name}`")
    if merged.is_tensor:
        if len(merged.dtypes) > 1 or len(merged.dims) > 1:
            raise NotApplicable(f"`{name}` returns tensors of different kinds")
        if any(one.layout != "strided" for one in merged.tensors):
            raise NotApplicable(f"`{name}` returns a tensor that is not strided")
    elif set(merged.types) != {"int"} or any(isinstance(v, int) and v < 0 for v in merged.values):
        raise NotApplicable(f"`{name}` returns {' or '.join(merged.types)}, which no operator does")
    return merged

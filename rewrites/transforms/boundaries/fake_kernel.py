"""Facts of an operator's results, and the fake kernel that makes results of their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import NotApplicable, Site, walk
from fullgraph.rewrites.source import Document, dotted_name


@dataclass(frozen=True)
class OperatorArgument:
    """Argument that is passed to a new custom operator, such as `self.eps`."""

    name: str
    code: str
    """Source of the value that is passed: "self.eps"."""
    annotation: str
    seen: ValueSummary | None
    """The observed values; None if there are none."""

    @property
    def is_tensor(self) -> bool:
        return self.annotation == "torch.Tensor" and self.seen is not None

    @property
    def is_floating(self) -> bool:
        return self.seen is not None and any(is_floating_dtype(one) for one in self.seen.dtypes)


@dataclass(frozen=True)
class OperatorBody:
    """Body of a function, or some of its statements, to move into a custom operator."""

    name: str
    function: cst.FunctionDef
    body: cst.BaseSuite
    at: cst.CSTNode
    """The body, or its last statement: a node of the document."""
    given: frozenset[str]
    """The variables from outside that the code may read."""


def results_of(
    site: Site,
    helper: OperatorBody,
    arguments: Sequence[OperatorArgument],
    renamed: dict[cst.CSTNode, cst.CSTNode],
) -> list[tuple[ValueSummary, Mapping[str, int]]]:
    """Return for each result of `helper` its observed values and the names it is computed from.

    The names are a dict such as {"y": 0, "x": 1} for `y = 2 * x; return y`: the number of
    definitions between name and result. Adds to `renamed`, the edits of the body, a `.clone()` of
    each returned argument, since an operator must not return its inputs. Raises NotApplicable if it
    cannot return the results.
    """
    document, name = site.document, helper.name
    given = {one.code for one in arguments if one.is_tensor}
    columns: list[list[cst.BaseExpression]] = []
    for one in m.findall(helper.body, m.Return()):
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
            if isinstance(part, cst.Name) and part.value in given:
                renamed[part] = cst.parse_expression(f"{part.value}.clone()")
    if not columns:
        raise NotApplicable(f"`{name}` returns nothing")
    return [
        (
            merge_results(name, [one for one in map(site.observed, column) if one is not None]),
            levels_of(document, helper.body, column),
        )
        for column in columns
    ]


def levels_of(
    document: Document, body: cst.CSTNode, parts: Sequence[cst.BaseExpression]
) -> dict[str, int]:
    """Return how many definitions lie between each name or attribute and a result of `body`.

    `{"y": 0, "x": 1}` for `y = 2 * x; return y`; names more than 3 definitions away are left out.
    `parts` are the expressions of one result, one for each `return`.
    """
    levels: dict[str, int] = {}
    found: list[cst.CSTNode] = list(parts)
    for level in range(4):
        paths = [n for one in found for n in walk(one) if isinstance(n, cst.Name | cst.Attribute)]
        new = {document.code(path) for path in paths if dotted_name(path)} - levels.keys()
        levels.update(dict.fromkeys(new, level))
        found = [value for target, value in _definitions(body) if dotted_name(target) in new]
    return levels


def _definitions(body: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield (target, value) for each assignment and each `append` in `body`.

    (`y`, `2 * x`) for `y = 2 * x`, and (`values`, `x`) for `values.append(x)`.
    """
    for node in walk(body):
        if isinstance(node, cst.Assign):
            for target in (one.target for one in node.targets):
                if isinstance(target, cst.Tuple) and isinstance(node.value, cst.Tuple):
                    pairs = zip(target.elements, node.value.elements, strict=False)
                    yield from ((one.value, value.value) for one, value in pairs)
                elif isinstance(target, cst.Tuple):
                    yield from ((one.value, node.value) for one in target.elements)
                else:
                    yield target, node.value
        elif m.matches(node, m.Call(func=m.Attribute(attr=m.Name("append")), args=[m.Arg()])):
            call = cst.ensure_type(node, cst.Call)
            yield cst.ensure_type(call.func, cst.Attribute).value, call.args[0].value


def merge_results(name: str, seen: Sequence[ValueSummary]) -> ValueSummary:
    """Return the observed values that several `return`s give for one result, merged.

    `name` is used in messages. Raises NotApplicable if an operator cannot return the values: only
    tensors of one dtype and number of dimensions, and nonnegative ints.
    """
    if not seen:
        raise NotApplicable(f"a result of `{name}` was not seen")
    types = tuple({kind: None for one in seen for kind in one.types})
    tensors = tuple({tensor: None for one in seen for tensor in one.tensors})
    values = tuple({value: None for one in seen for value in one.values})
    merged = ValueSummary(types, sum(one.count for one in seen), tensors, values)
    if merged.requires_grad:
        raise NotApplicable(f"a gradient flows through `{name}`")
    if merged.is_tensor:
        if len(merged.dtypes) > 1 or len(merged.dims) > 1:
            raise NotApplicable(f"`{name}` returns tensors of different kinds")
        if any(one.layout != "strided" for one in tensors):
            raise NotApplicable(f"`{name}` returns a tensor that is not strided")
    elif set(types) != {"int"} or any(isinstance(v, int) and v < 0 for v in values):
        raise NotApplicable(f"`{name}` returns {' or '.join(types)}, which no operator does")
    return merged


class FakeKernel:
    """Writer of the results of a fake kernel: `x.new_empty((x.shape[0], size))`.

    Sizes are taken from the arguments where possible. At most one is dynamic, named `size`.
    """

    def __init__(
        self, torch: str, arguments: Sequence[OperatorArgument], *, depends_on_data: bool
    ) -> None:
        """`depends_on_data`: whether the code calls an operator such as `unique`."""
        self.torch = torch
        self.arguments = arguments
        self.depends_on_data = depends_on_data
        self.shapes: list[str] = []
        """Source of the results' shapes, for assumptions."""
        self.sizes: set[object] = set()
        """The observed values of each dynamic size."""

    def result(self, seen: ValueSummary, levels: Mapping[str, int]) -> str:
        """Return code that makes an empty result of the observed dtype, device and dimensions.

        If several arguments have a size that the result has, use the one with the lowest level.
        """
        if seen.is_number:
            return self._dynamic_size(frozenset(v for v in seen.values if isinstance(v, int)))
        (dims,) = seen.dims
        rows = seen.tensors
        sizes = [
            self._size(frozenset(one.shape[i] for one in rows), i, dims, levels)
            for i in range(dims)
        ]
        shape = f"({sizes[0]},)" if dims == 1 else f"({', '.join(sizes)})"
        if dims and any(one != "size" for one in sizes):
            self.shapes.append(f"`{shape}`")
        like = next((one for one in self.arguments if one.is_tensor), None)
        dtype, device = rows[0].dtype, rows[0].device
        options = f", dtype={self.torch}.{dtype}"
        if like is None or like.seen is None:
            where = "" if device == "cpu" else f', device="{device}"'
            return f"{self.torch}.empty({shape}{options}{where})"
        options = "" if like.seen.dtypes == {dtype} else options
        there = {one.device for one in like.seen.tensors} == {device}
        where = "" if there else f', device="{device}"'
        return f"{like.name}.new_empty({shape}{options}{where})"

    def _size(
        self, values: frozenset[int], index: int, dims: int, levels: Mapping[str, int]
    ) -> str:
        """Return code for one size of a result: that of an argument which had the same sizes.

        `values` are the observed sizes, `index` is the dimension, and `dims` is how many dimensions
        the result has. The size is dynamic if no argument had these sizes, and so is the first one
        if it may depend on data: one observed value that an argument has too may be chance.
        """
        if self.depends_on_data and index == 0 and len(values) == 1:
            return self._dynamic_size(values)
        found: list[tuple[int, int, str]] = []
        for one in self.arguments:
            if one.seen is None:
                continue
            level = levels.get(one.code, len(levels))
            if one.annotation == "int" and set(one.seen.values) == values:
                found.append((level, 1, one.name))
            rows = [tensor.shape for tensor in one.seen.tensors] if one.is_tensor else []
            for at in range(min(map(len, rows), default=0)):
                alike = one.seen.dims == {dims} and at == index
                if {row[at] for row in rows} == values and (alike or values != {1}):
                    found.append((level, 2 - 2 * alike, f"{one.name}.shape[{at}]"))
        return min(found)[2] if found else self._dynamic_size(values)

    def _dynamic_size(self, values: frozenset[int]) -> str:
        self.sizes.add(values)
        if len(self.sizes) > 1:
            raise NotApplicable("several of its sizes depend on data")
        return "size"


def is_floating_dtype(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype

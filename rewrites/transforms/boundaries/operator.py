"""A helper's body as a custom operator, with a fake kernel from the observed shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.observe import ValueSummary
from fullgraph.rewrites.analysis import NotApplicable, Site, walk
from fullgraph.rewrites.source import Document, Replacement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.outline import parameter_type_of, set_apart

_CHANGES = re.compile(r"[^_]_$|^(append|extend|insert|pop|update|clear|backward|add|setdefault)$")
"""Last names of calls that change an object."""
_RANDOM = re.compile(r"\brandom\b|\brand(n|int|perm)?\b|\bmultinomial\b|\bbernoulli\b")
_OPERATOR = """\
@{torch}.library.custom_op("{space}::{stem}", mutates_args=(){tags})
def {name}({parameters}) -> {result}:
    pass
"""
_FAKE = """\
@{name}.register_fake
def {fake}({names}):
{size}    return {results}
"""
_SIZE = "    size = {torch}.library.get_ctx().new_dynamic_size()\n"


@dataclass(frozen=True)
class _Argument:
    """Argument of the operator."""

    name: str
    code: str
    annotation: str
    seen: ValueSummary | None

    @property
    def is_tensor(self) -> bool:
        return self.annotation == "torch.Tensor" and self.seen is not None

    @property
    def is_floating(self) -> bool:
        return self.seen is not None and any(_is_floating(one) for one in self.seen.dtypes)


@dataclass
class OperatorEdit:
    """The edit that makes a helper call an operator, with what it assumes."""

    replacements: dict[cst.CSTNode, Replacement]
    assumes: list[str] = field(default_factory=list)
    dynamic: bool = False
    """Whether a size of a result is unknown until run time."""


@dataclass(frozen=True)
class _Piece:
    """Code that becomes the body of an operator."""

    name: str
    function: cst.FunctionDef
    body: cst.BaseSuite
    at: cst.CSTNode
    """The body, or its last statement: a node of the document."""
    given: frozenset[str]
    """The variables that it may read from outside."""


def define_operator(site: Site, helper: cst.FunctionDef) -> OperatorEdit:
    """Return the edit that moves the body of `helper` into an operator. Raises NotApplicable."""
    document, name = site.document, helper.name.value
    if not isinstance(helper.body, cst.IndentedBlock):
        raise NotApplicable(f"the body of `{name}` stands on its first line")
    if helper.params.star_kwarg or isinstance(helper.params.star_arg, cst.Param):
        raise NotApplicable(f"`{name}` takes any number of arguments")
    given = frozenset(one.value for one in _parameter_names(helper))
    piece = _Piece(name, helper, helper.body, helper.body, given)
    _check_effects(document, piece)
    arguments, renamed = _arguments_of(site, piece)
    results = _results_of(site, piece, arguments, renamed)
    doc, rest = _split_docstring(helper.body)
    edit, call = _operator_edit(site, piece, rest, arguments, renamed, results)
    returned = cst.parse_statement(f"return {call}\n", config=document.module.config_for_parsing)
    edit.replacements[helper.body] = helper.body.with_changes(body=[*doc, returned])
    return edit


def define_operator_of_statements(site: Site) -> OperatorEdit:
    """Return the edit that moves the statements around a cause into an operator: the fewest that
    take and give tensors and numbers. Raises NotApplicable."""
    document, statement = site.document, site.statement
    block, function = document.parent(statement), document.function(statement)
    if not isinstance(block, cst.IndentedBlock) or not isinstance(function, cst.FunctionDef):
        raise NotApplicable("no function lies around it")
    start = next(number for number, one in enumerate(block.body) if one is statement)
    reason = NotApplicable("no statements around it take and give tensors alone")
    for end in range(start, min(start + 4, len(block.body))):
        try:
            return _edit_of_statements(site, function, block.body[start : end + 1])
        except NotApplicable as escape:
            reason = reason if end > start else escape
    raise reason


def _edit_of_statements(
    site: Site, function: cst.FunctionDef, statements: Sequence[cst.BaseStatement]
) -> OperatorEdit:
    """Return the edit that moves neighbouring statements of a function into an operator."""
    document = site.document
    flow = m.Return() | m.Break() | m.Continue() | m.Yield() | m.Await() | m.Del()
    if any(m.findall(one, flow) for one in statements):
        raise NotApplicable("control goes on elsewhere from there")
    body = cst.IndentedBlock(list(statements))
    inside = _names_in(document, body)
    own, last = {id(one) for one in inside}, document.position(statements[-1])
    stored = {one.value for one in inside if _is_stored(document, one)}
    others = [one for one in _names_in(document, function.body) if id(one) not in own]
    later = [
        one
        for one in others
        if one.value in stored and document.position(one).line > (last.end_line or last.line)
    ]
    if not later:
        raise NotApplicable("it gives nothing to the code after it")
    results: dict[str, ValueSummary] = {}
    converted: dict[str, cst.Call] = {}
    taken: dict[cst.CSTNode, Replacement] = {}
    for one in later:
        value: cst.BaseExpression = one
        if (call := _conversion_of(site, one)) is not None:
            value = converted[one.value] = call
            taken[call] = one
        seen = None if _is_stored(document, one) else site.observed(value)
        if seen is not None:
            results.setdefault(one.value, seen)
    if any(one.value in converted and _conversion_of(site, one) is None for one in later):
        raise NotApplicable("the code after it needs arrays and tensors")
    if {one.value for one in later} != results.keys():
        raise NotApplicable("what it gives to the code after it was not seen")
    before = {one.value for one in others if _is_stored(document, one)}
    given = frozenset(before | {one.value for one in _parameter_names(function)})
    if given & stored:
        raise NotApplicable(f"it changes `{min(given & stored)}`")
    name = f"{next(iter(results))}_of_{function.name.value.strip('_')}"
    piece = _Piece(name, function, body, statements[-1], given)
    _check_effects(document, piece)
    arguments, renamed = _arguments_of(site, piece)
    parts = [cst.Name(one) for one in results]
    facts = [
        (_merge_results(name, [seen]), _levels_of(document, body, [part]))
        for part, seen in zip(parts, results.values(), strict=True)
    ]
    config = document.module.config_for_parsing
    names = ", ".join(results)
    values = (document.code(converted[one]) if one in converted else one for one in results)
    returned = cst.parse_statement(f"return {', '.join(values)}\n", config=config)
    first = statements[0].with_changes(leading_lines=())
    rest = [first, *statements[1:], returned]
    edit, text = _operator_edit(site, piece, rest, arguments, renamed, facts)
    if edit.dynamic:
        raise NotApplicable("the size of its result depends on data")
    line = cst.parse_statement(f"{names} = {text}\n", config=config)
    edit.replacements[statements[0]] = line.with_changes(
        leading_lines=statements[0].leading_lines  # type: ignore[attr-defined]
    )
    edit.replacements.update(dict.fromkeys(statements[1:], cst.RemoveFromParent()))
    edit.replacements.update(taken)
    return edit


def _conversion_of(site: Site, name: cst.Name) -> cst.Call | None:
    """Return the call that makes a tensor of the array `name`; None if there is none."""
    argument = site.document.parent(name)
    call = site.document.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    makers = ("torch.from_numpy", "torch.tensor", "torch.as_tensor")
    seen = site.observed(name) if site.callee_name(call) in makers else None
    return call if seen is not None and seen.is_ndarray else None


def _operator_edit(
    site: Site,
    piece: _Piece,
    statements: Sequence[cst.BaseStatement],
    arguments: Sequence[_Argument],
    renamed: Mapping[cst.CSTNode, cst.CSTNode],
    results: Sequence[tuple[ValueSummary, Mapping[str, int]]],
) -> tuple[OperatorEdit, str]:
    """Return the edit that defines the operator, and the text of its call."""
    document, name = site.document, piece.name
    if not Path(document.file).stem.isidentifier():
        raise NotApplicable("an operator cannot be named after this file")
    torch = document.imported_name("torch") or "torch"
    stem = name.strip("_")
    operator, fake = document.unused_name(f"_{stem}_op"), document.unused_name(f"_{stem}_fake")
    kernel = _FakeKernel(torch, arguments)
    texts = [kernel.result(seen, levels) for seen, levels in results]
    kinds = ["int" if seen.is_number else f"{torch}.Tensor" for seen, _ in results]
    random = any(_RANDOM.search(document.code(one)) for one in statements if one in document.ranges)
    head = _OPERATOR.format(
        torch=torch,
        space=Path(document.file).stem,
        stem=stem,
        tags=f", tags=({torch}.Tag.nondeterministic_seeded,)" if random else "",
        name=operator,
        parameters=", ".join(
            f"{one.name}: {one.annotation.replace('torch.', f'{torch}.')}" for one in arguments
        ),
        result=kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]",
    )
    fake_text = _FAKE.format(
        name=operator,
        fake=fake,
        names=", ".join(one.name for one in arguments),
        size=_SIZE.format(torch=torch) if kernel.sizes else "",
        results=", ".join(texts),
    )
    config = document.module.config_for_parsing
    body = cst.IndentedBlock(list(statements))
    body = replace_nodes(body, renamed) if renamed else body
    definition = cst.ensure_type(cst.parse_statement(head, config=config), cst.FunctionDef)
    floating = any(map(_is_floating, (kind for seen, _ in results for kind in seen.dtypes)))
    given = ", ".join(
        f"{one.code}.detach()" if floating and one.is_tensor and one.is_floating else one.code
        for one in arguments
    )
    definitions = [
        set_apart(definition.with_changes(body=body)),
        set_apart(cst.parse_statement(fake_text, config=config)),
    ]
    assumes = [f"`{operator}` reads nothing but tensors and numbers that it is given"]
    if shapes := dict.fromkeys(kernel.shapes):
        assumes.append(f"its results have the shape {', '.join(shapes)} on all inputs")
    if floating:
        assumes.append("no gradient flows through it")
    edits = _insert_before(document, piece.function, definitions)
    return OperatorEdit(edits, assumes, bool(kernel.sizes)), f"{operator}({given})"


def _check_effects(document: Document, helper: _Piece) -> None:
    """Raise NotApplicable if code visibly changes what it is given, or globals."""
    name, given = helper.name, helper.given
    if m.findall(helper.body, m.Global() | m.Nonlocal()):
        raise NotApplicable(f"`{name}` changes variables outside of it")
    own = {one.value for one in _names_in(document, helper.body) if _is_stored(document, one)}
    for node in walk(helper.body):
        changed: cst.CSTNode | None = None
        if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign):
            changed = (
                node.target if isinstance(node.target, cst.Attribute | cst.Subscript) else None
            )
            if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
                changed = node.target if node.target.value in given else None
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            changed = node.func.value if _CHANGES.search(node.func.attr.value) else None
        root = _root_of(changed) if changed is not None else None
        if isinstance(root, cst.Name) and root.value in given and root.value not in own - {"self"}:
            raise NotApplicable(f"`{name}` changes `{document.code(changed or root)}`")


def _arguments_of(
    site: Site, helper: _Piece
) -> tuple[list[_Argument], dict[cst.CSTNode, cst.CSTNode]]:
    """Return what code needs from outside, and how it reads that inside the operator."""
    document, given = site.document, helper.given
    names = _names_in(document, helper.body)
    stored = {one.value for one in names if _is_stored(document, one)}
    used = {one.value for one in names} - {"self"}
    found: dict[str, _Argument] = {}
    renamed: dict[cst.CSTNode, cst.CSTNode] = {}
    for name in sorted(names, key=lambda one: document.position(one).key[1:]):
        if name.value not in given or _is_stored(document, name):
            continue
        part: cst.BaseExpression = name
        while True:
            code = document.code(part)
            known = found.get(code) or _argument_for(site, helper, part, code, used)
            above = document.parent(part)
            if known is not None or not isinstance(above, cst.Attribute):
                break
            part = above
        if known is None or (part is not name and name.value in stored):
            raise NotApplicable(f"`{document.code(part)}` cannot be handed to an operator")
        found[code] = known
        used.add(known.name)
        if part is not name:
            renamed[part] = cst.Name(known.name)
    return list(found.values()), renamed


def _argument_for(
    site: Site, helper: _Piece, part: cst.BaseExpression, code: str, used: set[str]
) -> _Argument | None:
    """Return an expression as an argument of the operator; None if it cannot be one."""
    form = parameter_type_of(site, helper.at, part)
    if form is None or form.restored:
        return None
    seen = site.observed(part)
    annotation = form.annotation
    if annotation.startswith("torch.types.Number"):
        kinds = {one for one in seen.types if one != "NoneType"} if seen is not None else set()
        if len(kinds) == 1:
            annotation = annotation.replace("torch.types.Number", kinds.pop())
    if isinstance(part, cst.Name):
        return _Argument(part.value, code, annotation, seen)
    stem = part.attr.value.lstrip("_") if isinstance(part, cst.Attribute) else "value"
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return _Argument(next(one for one in names if one not in used), code, annotation, seen)


def _results_of(
    site: Site,
    helper: _Piece,
    arguments: Sequence[_Argument],
    renamed: dict[cst.CSTNode, cst.CSTNode],
) -> list[tuple[ValueSummary, Mapping[str, int]]]:
    """Return the facts of each result, and how directly it is made of each expression.

    Returned arguments are copied: an operator must not return what it is given.
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
            _merge_results(name, [one for one in map(site.observed, column) if one is not None]),
            _levels_of(document, helper.body, column),
        )
        for column in columns
    ]


def _levels_of(
    document: Document, body: cst.CSTNode, parts: Sequence[cst.BaseExpression]
) -> dict[str, int]:
    """Return in how many steps the expressions of code lead to one of its results."""
    levels: dict[str, int] = {}
    found: list[cst.CSTNode] = list(parts)
    for level in range(4):
        paths = [n for one in found for n in walk(one) if isinstance(n, cst.Name | cst.Attribute)]
        new = {document.code(path) for path in paths if dotted_name(path)} - levels.keys()
        levels.update(dict.fromkeys(new, level))
        found = [value for target, value in _definitions(body) if dotted_name(target) in new]
    return levels


def _definitions(body: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield names with what is assigned or appended to them."""
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


def _merge_results(name: str, seen: Sequence[ValueSummary]) -> ValueSummary:
    """Return the facts of one result over all `return`s that were seen, if it can be one."""
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


class _FakeKernel:
    """Text of the fake kernel: sizes that arguments explain, and one size that data decide."""

    def __init__(self, torch: str, arguments: Sequence[_Argument]) -> None:
        self.torch = torch
        self.arguments = arguments
        self.shapes: list[str] = []
        self.sizes: set[object] = set()

    def result(self, seen: ValueSummary, levels: Mapping[str, int]) -> str:
        """Return the expression for a result with these facts; of several arguments with a size,
        the one that leads to it in the fewest steps gives it."""
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
        """Return the argument's size or number that equals a result's size in what was seen."""
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


def _insert_before(
    document: Document, helper: cst.FunctionDef, definitions: list[cst.BaseStatement]
) -> dict[cst.CSTNode, Replacement]:
    """Return the edit that inserts definitions before the class or function at the top level."""
    body = document.module.body
    outer = next(one for one in (helper, *document.ancestors(helper)) if one in body)
    index = next(number for number, one in enumerate(body) if one is outer)
    if not index:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return {body[index - 1]: cst.FlattenSentinel([body[index - 1], *definitions])}


def _split_docstring(
    body: cst.IndentedBlock,
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the docstring of a function, and its other statements."""
    text = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
    count = 1 if m.matches(body.body[0], text) else 0
    return list(body.body[:count]), list(body.body[count:])


def _parameter_names(helper: cst.FunctionDef) -> list[cst.Name]:
    listed = helper.params
    return [one.name for one in (*listed.posonly_params, *listed.params, *listed.kwonly_params)]


def _names_in(document: Document, node: cst.CSTNode) -> list[cst.Name]:
    """Return the variables in a node, without the names of attributes and keywords."""
    found = []
    for one in walk(node):
        if isinstance(one, cst.Name):
            parent = document.parent(one)
            attribute = isinstance(parent, cst.Attribute) and parent.attr is one
            if not attribute and not (isinstance(parent, cst.Arg) and parent.keyword is one):
                found.append(one)
    return found


def _is_stored(document: Document, name: cst.CSTNode) -> bool:
    """Whether a name is bound here, by an assignment, loop or `as`."""
    node, parent = name, document.parent(name)
    packed = cst.Tuple | cst.List | cst.Element | cst.StarredElement
    while isinstance(parent, packed):
        node, parent = parent, document.parent(parent)
    if isinstance(parent, cst.AssignTarget | cst.AsName | cst.Param):
        return True
    loops = cst.For | cst.CompFor | cst.NamedExpr | cst.AnnAssign
    return isinstance(parent, loops) and parent.target is node


def _root_of(node: cst.CSTNode) -> cst.CSTNode:
    while isinstance(node, cst.Attribute | cst.Subscript | cst.Call):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node


def _is_floating(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype

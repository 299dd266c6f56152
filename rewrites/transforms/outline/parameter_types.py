"""As what an operator takes a value: by what was seen of it, else by what the source says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Seen, Site
from fullgraph.rewrites.source import Document, dotted_name


@dataclass(frozen=True)
class Form:
    """A type that operators take."""

    annotation: str
    """With `torch` spelled out: "torch.Tensor"."""
    restored: str = ""
    """What makes of it the value that it was, with "{}" for its name; "" if it stays the same."""


_TENSOR = Form("torch.Tensor")
_NUMBER = Form("torch.types.Number")
"""An int may be a float on another day."""
_BY_TYPES = {
    frozenset({"bool"}): Form("bool"),
    frozenset({"int"}): _NUMBER,
    frozenset({"float"}): _NUMBER,
    frozenset({"int", "float"}): _NUMBER,
    frozenset({"str"}): Form("str"),
    frozenset({"torch.dtype"}): Form("torch.dtype"),
    frozenset({"torch.device"}): Form("torch.device"),
    frozenset({"torch.Size"}): Form("list[int]", "torch.Size({})"),
}
_BY_ITEMS = {
    ("list", "torch.Tensor"): Form("list[torch.Tensor]"),
    ("tuple", "torch.Tensor"): Form("list[torch.Tensor]", "tuple({})"),
    ("list", "int"): Form("list[int]"),
    ("tuple", "int"): Form("list[int]", "tuple({})"),
}
_BY_ANNOTATION = {
    "torch.Tensor": _TENSOR,
    "int": _NUMBER,
    "float": _NUMBER,
    "bool": Form("bool"),
    "str": Form("str"),
}
_COUNTED = m.Call(func=m.Name("range") | m.Name("enumerate"))


def form_of(site: Site, statement: cst.CSTNode, part: cst.BaseExpression) -> Form | None:
    """As what an operator takes `part`, an expression of `statement`; None if it cannot."""
    seen = seen_as(site, statement, part)
    form = form_seen(seen) if seen is not None else _written(site, statement, part)
    if form == _TENSOR and _may_be_none(site.document, statement, part):
        return replace(form, annotation="torch.Tensor | None")
    return form


def form_seen(seen: Seen) -> Form | None:
    """As what an operator takes what was seen."""
    types = frozenset(seen.types) - {"NoneType"}
    optional = types != frozenset(seen.types)
    if types and all("Tensor" in t or "Parameter" in t for t in types):
        plain = (t.kind in ("Tensor", "Parameter") and t.layout == "strided" for t in seen.tensors)
        form = _TENSOR if all(plain) else None
    elif len(types) == 1 and len(set(seen.items)) == 1 and types != {"torch.Size"}:
        form = _BY_ITEMS.get((*types, seen.items[0]))  # type: ignore[arg-type]
    else:
        form = _BY_TYPES.get(types)
    if form is None or not optional:
        return form
    return None if form.restored else Form(f"{form.annotation} | None")


def seen_as(site: Site, statement: cst.CSTNode, node: cst.BaseExpression) -> Seen | None:
    """What an expression of `statement` was; if it was not evaluated, what its text was before,
    or, for a name that is bound once, at any time."""
    if (here := site.seen(node)) is not None:
        return here
    document = site.document
    function = document.function(statement)
    if function is None:
        return None
    code, line = document.code(node), document.position(statement).end_line or 0
    alike = list(m.findall(function, m.Name() | m.Attribute()))
    facts = [
        (document.position(one).line <= line, site.seen(one))
        for one in alike
        if document.code(one) == code
    ]
    before = [seen for early, seen in facts if seen is not None and early]
    after = [seen for early, seen in facts if seen is not None and not early]
    if before:
        return before[-1]
    once = isinstance(node, cst.Name) and len(list(_values(document, function, code))) <= 1
    return after[0] if after and once else None


def without_item(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """`t` for `t.item()` where `t` has no dimension; else the node itself."""
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        receiver = node.func.value
        seen = site.seen(receiver)
        known = seen is not None and seen.is_tensor and seen.dims == {0}
        if known and node.func.attr.value == "item":
            return receiver
    return node


def _written(site: Site, statement: cst.CSTNode, part: cst.BaseExpression) -> Form | None:
    """What the source says of a value that was not seen."""
    document, code = site.document, site.document.code(part)
    if code.endswith(".__name__"):
        return Form("str")
    function = document.function(statement)
    if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name):
        function = _initializer(document, statement)
    forms: set[Form | None] = set()
    for value in _values(document, function, code) if function is not None else ():
        forms.add(_of_value(site, function, value))
    return forms.pop() if len(forms) == 1 else None


def _of_value(site: Site, function: cst.CSTNode | None, value: cst.CSTNode) -> Form | None:
    """As what an operator takes what a variable was given: a value, a parameter, or a count."""
    if isinstance(value, cst.Param):
        if value.annotation is not None:
            named = site.document.qualified(value.annotation.annotation)
            return _BY_ANNOTATION.get(named)
        if value.default is not None:
            return _of_value(site, function, value.default)
        forms = {_of_value(site, None, one) for one in _handed_over(site.document, value)}
        return forms.pop() if len(forms) == 1 else None
    if isinstance(value, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString):
        return Form("str")
    if isinstance(value, cst.Integer | cst.Float) or m.matches(value, _COUNTED):
        return _NUMBER
    if m.matches(value, m.Name("True") | m.Name("False")):
        return Form("bool")
    if isinstance(value, cst.Name) and function is not None:
        given = list(_values(site.document, function, value.value))
        if len(given) == 1 and isinstance(given[0], cst.Param):
            return _of_value(site, function, given[0])
    seen = site.seen(value) if value in site.document.ranges else None
    return form_seen(seen) if seen is not None else None


def _values(document: Document, function: cst.CSTNode, code: str) -> Iterator[cst.CSTNode]:
    """What a variable is given in a function: its parameter, values, what a loop counts by."""
    for param in _parameters(function):
        if param.name.value == code:
            yield param
    for node in m.findall(function, m.Assign() | m.AnnAssign() | m.AugAssign() | m.For()):
        if isinstance(node, cst.Assign):
            targets: list[cst.CSTNode] = [one.target for one in node.targets]
        else:
            targets = [node.target]  # type: ignore[attr-defined]
        for target in targets:
            given = node.iter if isinstance(node, cst.For) else node.value  # type: ignore[attr-defined]
            if document.code(target) == code:
                counts = m.matches(given, m.Call(func=m.Name("range")))
                yield given if counts or not isinstance(node, cst.For) else target
            elif isinstance(target, cst.Tuple):
                first = document.code(target.elements[0].value) == code
                yield from _unpacked(document, target, given, code, first)


def _unpacked(
    document: Document, target: cst.Tuple, given: cst.CSTNode, code: str, first: bool
) -> Iterator[cst.CSTNode]:
    """The same for `for i, x in enumerate(…)`: the count is known, other items are not."""
    if first and m.matches(given, m.Call(func=m.Name("enumerate"))):
        yield given
    elif any(document.code(one.value) == code for one in target.elements):
        yield target


def _parameters(function: cst.CSTNode | None) -> Iterator[cst.Param]:
    if isinstance(function, cst.FunctionDef | cst.Lambda):
        listed = function.params
        yield from (*listed.posonly_params, *listed.params, *listed.kwonly_params)


def _handed_over(document: Document, param: cst.Param) -> Iterator[cst.CSTNode]:
    """What the calls of this file give a parameter by its position or name."""
    function = document.function(param.name)
    assert isinstance(function, cst.FunctionDef)
    names = [one.name.value for one in _parameters(function) if one.name.value != "self"]
    for call in document.ranges:
        if isinstance(call, cst.Call) and (
            dotted_name(call.func).rpartition(".")[2] == function.name.value
        ):
            for number, argument in enumerate(call.args):
                name = argument.keyword.value if argument.keyword else names[number : number + 1]
                if name in (param.name.value, [param.name.value]):
                    yield argument.value


def _initializer(document: Document, node: cst.CSTNode) -> cst.FunctionDef | None:
    """The `__init__` of the class around a node."""
    for one in document.around(node):
        if isinstance(one, cst.ClassDef):
            named = m.findall(one.body, m.FunctionDef(name=m.Name("__init__")))
            return cst.ensure_type(named[0], cst.FunctionDef) if named else None
    return None


def _may_be_none(document: Document, statement: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether the code reckons with None where a tensor was seen."""
    none, code = m.Name("None"), document.code(part)
    tests = m.Comparison(comparisons=[m.ComparisonTarget(m.Is() | m.IsNot(), none)])
    compared = [cst.ensure_type(one, cst.Comparison) for one in m.findall(statement, tests)]
    parameters = _parameters(document.function(statement))
    defaults = {one.name.value: one.default for one in parameters}
    return m.matches(defaults.get(code) or cst.Pass(), none) or any(
        document.code(one.left) == code for one in compared
    )

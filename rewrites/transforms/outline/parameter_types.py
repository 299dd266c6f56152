"""Parameter types of a custom operator: from observed values, else from the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, find_all
from fullgraph.rewrites.source import Document, dotted_name


@dataclass(frozen=True)
class ParameterType:
    """Type of an operator's parameter."""

    annotation: str
    """Annotation, such as "torch.Tensor"."""
    restored: str = ""
    """Code that restores the value from the parameter "{}": "tuple({})"; "" if it is the same."""


_TENSOR = ParameterType("torch.Tensor")
_NUMBER = ParameterType("torch.types.Number")
"""Type for both int and float, where a later call may pass the other one."""
_BY_TYPES = {
    frozenset({"bool"}): ParameterType("bool"),
    frozenset({"int"}): _NUMBER,
    frozenset({"float"}): _NUMBER,
    frozenset({"int", "float"}): _NUMBER,
    frozenset({"str"}): ParameterType("str"),
    frozenset({"torch.dtype"}): ParameterType("torch.dtype"),
    frozenset({"torch.device"}): ParameterType("torch.device"),
    frozenset({"torch.Size"}): ParameterType("list[int]", "torch.Size({})"),
}
_BY_ITEMS = {
    ("list", "torch.Tensor"): ParameterType("list[torch.Tensor]"),
    ("tuple", "torch.Tensor"): ParameterType("list[torch.Tensor]", "tuple({})"),
    ("list", "int"): ParameterType("list[int]"),
    ("tuple", "int"): ParameterType("list[int]", "tuple({})"),
}
_BY_ANNOTATION = {
    "torch.Tensor": _TENSOR,
    "int": _NUMBER,
    "float": _NUMBER,
    "bool": ParameterType("bool"),
    "str": ParameterType("str"),
}
_COUNTED = m.Call(func=m.Name("range") | m.Name("enumerate"))
_COUNT = m.Call(func=m.Name("len") | m.Name("int"))


def parameter_type_of(
    site: Site, statement: cst.CSTNode, part: cst.BaseExpression
) -> ParameterType | None:
    """Return the parameter type for `part`, an expression of `statement`.

    None if no operator can take it, or if its type is not known.
    """
    seen = observation_of(site, statement, part)
    form = (
        type_of_observation(seen) if seen is not None else _type_from_source(site, statement, part)
    )
    if form == _TENSOR and _may_be_none(site.document, statement, part):
        return replace(form, annotation="torch.Tensor | None")
    if form == _NUMBER:
        return ParameterType(_number_type(site, statement, part, seen) or form.annotation)
    return form


def type_of_observation(seen: ValueSummary) -> ParameterType | None:
    """Return the parameter type for observed values; None if no operator can take them."""
    types = frozenset(seen.types) - {"NoneType"}
    optional = types != frozenset(seen.types)
    if types and all("Tensor" in t or "Parameter" in t for t in types):
        plain = (t.kind in ("Tensor", "Parameter") and t.layout == "strided" for t in seen.tensors)
        form = _TENSOR if all(plain) else None
    elif len(types) == 1 and len(set(seen.items)) == 1 and types != {"torch.Size"}:
        form = _BY_ITEMS.get((next(iter(types)), seen.items[0]))
    else:
        form = _BY_TYPES.get(types)
    if form is None or not optional:
        return form
    return None if form.restored else ParameterType(f"{form.annotation} | None")


def observation_of(
    site: Site, statement: cst.CSTNode, node: cst.BaseExpression
) -> ValueSummary | None:
    """Return the observed values of an expression of `statement`, or None.

    If it was not evaluated, use an earlier expression with the same source text; for a name that is
    bound once, also a later one.
    """
    if (here := site.observed(node)) is not None:
        return here
    document = site.document
    function = document.function(statement)
    if function is None:
        return None
    code, line = document.code(node), document.position(statement).end_line or 0
    same_kind = list(find_all(function, m.Name() | m.Attribute()))
    facts = [
        (document.position(one).line <= line, site.observed(one))
        for one in same_kind
        if document.code(one) == code
    ]
    before = [seen for early, seen in facts if seen is not None and early]
    after = [seen for early, seen in facts if seen is not None and not early]
    if before:
        return before[-1]
    once = isinstance(node, cst.Name) and len(list(_definitions_of(document, function, code))) <= 1
    return after[0] if after and once else None


def strip_item(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return `t` for `t.item()` where `t` is 0-d; else the node itself."""
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        receiver = node.func.value
        seen = site.observed(receiver)
        known = seen is not None and seen.is_tensor and seen.dims == {0}
        if known and node.func.attr.value == "item":
            return receiver
    return node


def _type_from_source(
    site: Site, statement: cst.CSTNode, part: cst.BaseExpression
) -> ParameterType | None:
    """Return the type of a value that was not observed, from the source; None if unknown."""
    document, code = site.document, site.document.code(part)
    if code.endswith(".__name__"):
        return ParameterType("str")
    function = document.function(statement)
    if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name):
        function = _init_of_class(document, statement)
    forms: set[ParameterType | None] = set()
    for value in _definitions_of(document, function, code) if function is not None else ():
        forms.add(_type_of_definition(site, function, value))
    return forms.pop() if len(forms) == 1 else None


def _type_of_definition(
    site: Site, function: cst.CSTNode | None, value: cst.CSTNode
) -> ParameterType | None:
    """Return the type of a definition: an assigned value, a parameter, or a loop counter.

    If the value is the name of a parameter of `function`, the type is that of the parameter; with
    None, names are not looked up. None if the type is unknown.
    """
    if isinstance(value, cst.Param):
        if value.annotation is not None:
            named = site.document.qualified_name(value.annotation.annotation)
            return _BY_ANNOTATION.get(named)
        if value.default is not None:
            return _type_of_definition(site, function, value.default)
        forms = {
            _type_of_definition(site, None, one) for one in _arguments_for(site.document, value)
        }
        return forms.pop() if len(forms) == 1 else None
    if isinstance(value, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString):
        return ParameterType("str")
    if isinstance(value, cst.Integer | cst.Float) or m.matches(value, _COUNTED):
        return _NUMBER
    if m.matches(value, m.Name("True") | m.Name("False")):
        return ParameterType("bool")
    if isinstance(value, cst.Name) and function is not None:
        given = list(_definitions_of(site.document, function, value.value))
        if len(given) == 1 and isinstance(given[0], cst.Param):
            return _type_of_definition(site, function, given[0])
    seen = site.observed(value) if value in site.document.ranges else None
    return type_of_observation(seen) if seen is not None else None


def _number_type(
    site: Site, statement: cst.CSTNode, part: cst.BaseExpression, seen: ValueSummary | None
) -> str:
    """Return "int" or "float" if the only definition of a number says which it is; else "".

    `seen` are the observed values of `part`, an expression of `statement`. A parameter without
    annotation counts as a float if its default is one: such an operator takes ints as well.
    """
    kind = ""
    match only_definition(site.document, statement, part):
        case cst.Param(annotation=cst.Annotation(cst.Name("int" | "float") as name)):
            kind = name.value
        case cst.Param(annotation=None, default=cst.Float()) | cst.Float():
            kind = "float"
        case cst.Integer():
            kind = "int"
        case cst.Call() as call if m.matches(call, _COUNTED | _COUNT):
            kind = "int"
    kinds = set(seen.types) if seen is not None else {kind}
    return kind if kinds <= {kind, "int"} else ""


def only_definition(
    document: Document, statement: cst.CSTNode, part: cst.BaseExpression
) -> cst.CSTNode | None:
    """Return the parameter or value that `part`, a variable or an attribute, always has.

    That is the parameter `x` of `__init__` for an attribute after `self.x = x`. None if there is no
    definition, or more than one.
    """
    code, function = document.code(part), document.function(statement)
    if isinstance(part, cst.Attribute):
        function = _init_of_class(document, statement)
        named = m.Attribute(attr=m.Name(part.attr.value))
        targets = m.AssignTarget(named) | m.AugAssign(named) | m.AnnAssign(named)
        if len(find_all(document.module, targets)) != 1:
            return None
    if function is None:
        return None
    found = list(_definitions_of(document, function, code))
    if len(found) == 1 and isinstance(found[0], cst.Name) and isinstance(part, cst.Attribute):
        found = list(_definitions_of(document, function, found[0].value))
    return found[0] if len(found) == 1 else None


def _definitions_of(document: Document, function: cst.CSTNode, code: str) -> Iterator[cst.CSTNode]:
    """Yield the definitions of a variable: its parameter, assigned values, loop counters.

    `code` is the source of the variable: a name or an attribute. For a definition of unknown type,
    yield its target.
    """
    for param in parameters_of(function):
        if param.name.value == code:
            yield param
    for node in find_all(function, m.Assign() | m.AnnAssign() | m.AugAssign() | m.For()):
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
                yield from _definitions_in_tuple(document, target, given, code, first)


def _definitions_in_tuple(
    document: Document, target: cst.Tuple, given: cst.CSTNode, code: str, first: bool
) -> Iterator[cst.CSTNode]:
    """Yield the definition of `code` in `for i, x in enumerate(…)` or `a, b = …`.

    `given` is the iterated or assigned value, and `first` tells whether `code` is the first target.
    Yields `given` for the counter `i` of `enumerate`; for other targets, whose type is unknown,
    yields `target`.
    """
    if first and m.matches(given, m.Call(func=m.Name("enumerate"))):
        yield given
    elif any(document.code(one.value) == code for one in target.elements):
        yield target


def parameters_of(function: cst.CSTNode | None) -> Iterator[cst.Param]:
    """Yield the parameters of a function, without `*args` and `**kwargs`."""
    if isinstance(function, cst.FunctionDef | cst.Lambda):
        listed = function.params
        yield from (*listed.posonly_params, *listed.params, *listed.kwonly_params)


def _arguments_for(document: Document, param: cst.Param) -> Iterator[cst.CSTNode]:
    """Yield the arguments that calls in this file pass to a parameter."""
    function = document.function(param.name)
    assert isinstance(function, cst.FunctionDef)
    names = [one.name.value for one in parameters_of(function) if one.name.value != "self"]
    for call in document.ranges:
        if isinstance(call, cst.Call) and (
            dotted_name(call.func).rpartition(".")[2] == function.name.value
        ):
            for number, argument in enumerate(call.args):
                name = argument.keyword.value if argument.keyword else names[number : number + 1]
                if name in (param.name.value, [param.name.value]):
                    yield argument.value


def _init_of_class(document: Document, node: cst.CSTNode) -> cst.FunctionDef | None:
    """Return the `__init__` of the class around a node, or None."""
    for one in document.ancestors(node):
        if isinstance(one, cst.ClassDef):
            named = find_all(one.body, m.FunctionDef(name=m.Name("__init__")))
            return cst.ensure_type(named[0], cst.FunctionDef) if named else None
    return None


def _may_be_none(document: Document, statement: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether `part`, a tensor wherever it was observed, may also be None.

    It may if the statement contains `part is None`, or if `part` is a parameter with the default
    None.
    """
    none, code = m.Name("None"), document.code(part)
    tests = m.Comparison(comparisons=[m.ComparisonTarget(m.Is() | m.IsNot(), none)])
    compared = [cst.ensure_type(one, cst.Comparison) for one in find_all(statement, tests)]
    parameters = parameters_of(document.function(statement))
    defaults = {one.name.value: one.default for one in parameters}
    return m.matches(defaults.get(code) or cst.Pass(), none) or any(
        document.code(one.left) == code for one in compared
    )

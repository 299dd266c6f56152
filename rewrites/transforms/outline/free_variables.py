"""Free variables of a statement, as parameters of an operator."""

from __future__ import annotations

import symtable
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, difference_in_operator, find_all, walk
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.outline.parameter_types import (
    ParameterType,
    observation_of,
    parameter_type_of,
)


@dataclass(frozen=True)
class OperatorParameter:
    """Parameter of a custom operator."""

    name: str
    code: str
    """Source of the argument: "x", "self.eps"."""
    form: ParameterType
    seen: ValueSummary | None


@dataclass
class OperatorParameters:
    """Parameters of the operator for an outlined statement, and the edits inside the statement."""

    parameters: list[OperatorParameter] = field(default_factory=list)
    renamed: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    """Expressions of the statement, with their replacements inside the operator."""

    def named(self, name: str) -> OperatorParameter | None:
        return next((one for one in self.parameters if one.name == name), None)


def find_operator_parameters(
    site: Site, statements: Sequence[cst.CSTNode], outside: Sequence[cst.CSTNode] = ()
) -> OperatorParameters | Refusal:
    """Return the operator parameters for the local variables that neighbouring statements read.

    What stays `outside` of the operator is left out. A refusal if an operator cannot take one of
    them.
    """
    document = site.document
    if why := difference_in_operator(document, statements):
        return Refusal(why)
    *_, statement = statements
    outer = local_names(document, statement).difference(*map(names_bound_in, statements))
    skipped = {node for one in outside for node in walk(one)}
    names = [name for one in statements for name in _variable_names(document, one)]
    names = [name for name in names if name not in skipped]
    global_names = {one.value for one in names} - outer
    found = OperatorParameters()
    for name in names:
        if name.value not in outer:
            continue
        chain = _attribute_chain(document, name)
        match = _parameter_for(site, statement, chain, found, global_names)
        if match is None:
            code = document.code(chain[-1])
            return Refusal(f"`{code}` cannot be handed to an operator, or was not seen")
        part, parameter = match
        if parameter not in found.parameters:
            found.parameters.append(parameter)
        if part is not name or parameter.name != name.value or parameter.form.restored:
            restored = parameter.form.restored or "{}"
            found.renamed[part] = cst.parse_expression(restored.format(parameter.name))
    if own := find_class_scope(document, statements, found.renamed):
        return Refusal(f"`{own}` means something else outside of its class")
    return found


def local_names(document: Document, node: cst.CSTNode) -> set[str]:
    """Return the local and free variables of the function around `node`."""
    kinds = cst.FunctionDef | cst.ClassDef
    path = [one.name.value for one in document.ancestors(node) if isinstance(one, kinds)]
    line = document.position(node).line
    table = symtable.symtable(document.text, document.file, "exec")
    for name in reversed(path):
        inner = [t for t in table.get_children() if t.get_name() == name and t.get_lineno() <= line]
        table = max(inner, key=lambda t: t.get_lineno())
    if not isinstance(table, symtable.Function):
        return set()
    return {*table.get_locals(), *table.get_frees()}


def find_class_scope(
    document: Document, statements: Iterable[cst.CSTNode], renamed: Collection[cst.CSTNode]
) -> str:
    """Return what code of a method reads that means something else outside of its class, or "".

    "super()", and "Model.__limit", which Python spells "_Model__limit" inside the class. The
    expressions `renamed` are left out.
    """
    left = [*statements]
    for node in left:
        if document.class_around(node) is None:
            continue
        match node:
            case cst.Call(cst.Name("super"), []) | cst.Name("__class__"):
                return document.code(node)
            case cst.Attribute(attr=name) | (cst.Name() as name) if is_mangled(name.value):
                return document.code(node)
        left += [one for one in node.children if one not in renamed]
    return ""


def is_mangled(name: str) -> bool:
    """Whether a class gives a name of its own code a prefix: "__limit"."""
    return name.startswith("__") and not name.endswith("__")


def names_bound_in(statement: cst.CSTNode) -> set[str]:
    """Return the names that a statement binds, comprehensions included."""
    return {
        name.value
        for one in walk(statement)
        if isinstance(one, cst.AssignTarget | cst.CompFor | cst.NamedExpr)
        for name in walk(one.target)
        if isinstance(name, cst.Name)
    }


def _variable_names(document: Document, statement: cst.CSTNode) -> list[cst.Name]:
    """Return the variables in a statement, in order, without names of attributes and keywords."""
    found = [one for one in find_all(statement, m.Name()) if isinstance(one, cst.Name)]
    return [one for one in found if not _is_not_variable(document, one)]


def _is_not_variable(document: Document, name: cst.Name) -> bool:
    """Whether a name spells an attribute or a keyword argument, not a variable."""
    parent = document.parent(name)
    return (isinstance(parent, cst.Attribute) and parent.attr is name) or (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


def _attribute_chain(document: Document, name: cst.Name) -> list[cst.BaseExpression]:
    """Return `a`, `a.b` and `a.b.c` for the name `a` in `a.b.c`.

    For `a` in `type(a).b`, return `a`, `type(a)` and `type(a).b`.
    """
    chain: list[cst.BaseExpression] = [name]
    around = document.parent(name)
    if isinstance(around, cst.Arg):
        called = document.parent(around)
        if m.matches(called, m.Call(func=m.Name("type"))):
            chain.append(cst.ensure_type(called, cst.Call))
    while isinstance(parent := document.parent(chain[-1]), cst.Attribute):
        chain.append(parent)
    return chain


def _parameter_for(
    site: Site,
    statement: cst.CSTNode,
    chain: list[cst.BaseExpression],
    found: OperatorParameters,
    global_names: set[str],
) -> tuple[cst.CSTNode, OperatorParameter] | None:
    """Return the first item of `chain` that an operator can take, and its parameter.

    `chain` is [`self`, `self.eps`] for a use of `self.eps`. None if an operator can take no item.
    `found` has the parameters so far; `global_names` are names that a new parameter must not have.
    """
    for part in chain:
        code = site.document.code(part)
        known = next((one for one in found.parameters if one.code == code), None)
        if known is not None:
            return part, known
        form = parameter_type_of(site, statement, part)
        if form is None:
            continue
        used = global_names | {one.name for one in found.parameters}
        name = _unused_name(part, used)
        return part, OperatorParameter(name, code, form, observation_of(site, statement, part))
    return None


def _unused_name(part: cst.BaseExpression, used: set[str]) -> str:
    """Return a parameter name that is not in `used`: "eps" for `self.eps`, else "eps_2"."""
    last = part.attr if isinstance(part, cst.Attribute) else part
    stem = last.value if isinstance(last, cst.Name) else "value"
    stem = {"__name__": "class_name"}.get(stem, stem.lstrip("_") or "value")
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return next(name for name in names if name not in used)

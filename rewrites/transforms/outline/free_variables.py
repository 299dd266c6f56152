"""What a statement reads of the function around it, and as what an operator can take it."""

from __future__ import annotations

import symtable
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Seen, Site
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.outline.parameter_types import Form, form_of, seen_as


@dataclass(frozen=True)
class Input:
    """One parameter of the operator."""

    name: str
    code: str
    """What the caller hands over: "x", "self.eps"."""
    form: Form
    seen: Seen | None


@dataclass
class Inputs:
    """The parameters of a statement, and where it reads them."""

    parameters: list[Input] = field(default_factory=list)
    renamed: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    """Attribute chains of the statement, by the names that stand for them inside the operator."""

    def named(self, name: str) -> Input | None:
        return next((one for one in self.parameters if one.name == name), None)


def inputs(site: Site, statement: cst.CSTNode) -> Inputs | Refusal:
    """The parameters that `statement` needs to run outside its function."""
    document = site.document
    outer = local_names(document, statement) - bound_inside(statement)
    globals_ = {one.value for one in _reads(document, statement)} - outer
    found = Inputs()
    for name in _reads(document, statement):
        if name.value not in outer:
            continue
        chain = _chain(document, name)
        taken = _taken(site, statement, chain, found, globals_)
        if taken is None:
            code = document.code(chain[-1])
            return Refusal(f"`{code}` cannot be handed to an operator, or was not seen")
        part, parameter = taken
        if parameter not in found.parameters:
            found.parameters.append(parameter)
        if part is not name or parameter.name != name.value or parameter.form.restored:
            restored = parameter.form.restored or "{}"
            found.renamed[part] = cst.parse_expression(restored.format(parameter.name))
    return found


def local_names(document: Document, node: cst.CSTNode) -> set[str]:
    """The names that mean variables of the functions around `node`."""
    kinds = cst.FunctionDef | cst.ClassDef
    path = [one.name.value for one in document.around(node) if isinstance(one, kinds)]
    line = document.position(node).line
    table = symtable.symtable(document.text, document.file, "exec")
    for name in reversed(path):
        inner = [t for t in table.get_children() if t.get_name() == name and t.get_lineno() <= line]
        table = max(inner, key=lambda t: t.get_lineno())
    if not isinstance(table, symtable.Function):
        return set()
    return {*table.get_locals(), *table.get_frees()}


def bound_inside(statement: cst.CSTNode) -> set[str]:
    """The names that a statement binds itself, comprehensions included."""
    targets = m.findall(statement, m.AssignTarget() | m.CompFor() | m.NamedExpr())
    names: set[str] = set()
    for one in targets:
        target = one.target  # type: ignore[attr-defined]
        names |= {name.value for name in m.findall(target, m.Name())}  # type: ignore[attr-defined]
    return names


def _reads(document: Document, statement: cst.CSTNode) -> list[cst.Name]:
    """The names that a statement loads, in order."""
    found = [one for one in m.findall(statement, m.Name()) if isinstance(one, cst.Name)]
    return [one for one in found if not _only_spells(document, one)]


def _only_spells(document: Document, name: cst.Name) -> bool:
    """Whether a name is an attribute's or an argument's, and no variable."""
    parent = document.parent(name)
    return (isinstance(parent, cst.Attribute) and parent.attr is name) or (
        isinstance(parent, cst.Arg) and parent.keyword is name
    )


def _chain(document: Document, name: cst.Name) -> list[cst.BaseExpression]:
    """`a`, `a.b`, `a.b.c` for the `a` of `a.b.c`, as far as nothing but attributes follow; and
    the whole of `type(a).__name__`."""
    chain: list[cst.BaseExpression] = [name]
    around = document.parent(name)
    if isinstance(around, cst.Arg):
        called = document.parent(around)
        if m.matches(called, m.Call(func=m.Name("type"))):
            chain.append(cst.ensure_type(called, cst.Call))
    while isinstance(parent := document.parent(chain[-1]), cst.Attribute):
        chain.append(parent)
    return chain


def _taken(
    site: Site,
    statement: cst.CSTNode,
    chain: list[cst.BaseExpression],
    found: Inputs,
    globals_: set[str],
) -> tuple[cst.CSTNode, Input] | None:
    """The shortest part of a chain that an operator can take, and the parameter it becomes."""
    for part in chain:
        code = site.document.code(part)
        known = next((one for one in found.parameters if one.code == code), None)
        if known is not None:
            return part, known
        form = form_of(site, statement, part)
        if form is None:
            continue
        used = globals_ | {one.name for one in found.parameters}
        name = _named(part, used)
        return part, Input(name, code, form, seen_as(site, statement, part))
    return None


def _named(part: cst.BaseExpression, used: set[str]) -> str:
    last = part.attr if isinstance(part, cst.Attribute) else part
    stem = last.value if isinstance(last, cst.Name) else "value"
    stem = {"__name__": "class_name"}.get(stem, stem.lstrip("_") or "value")
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return next(name for name in names if name not in used)

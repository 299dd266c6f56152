"""Arguments of a new custom operator: what the code that moves into it reads."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Definitions, NotApplicable, Site, find_all, walk, word_set
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.outline import only_definition, parameter_type_of, parameters_of

_WITHOUT_GRADIENT = word_set(
    "data detach device dim dtype item ndim numel shape size stride tolist"
)
"""Attributes of a tensor through which no gradient flows."""
_NONE, _OR_NONE = m.Name("None"), " | None"
NO_GRAD = m.Attribute(attr=m.Name("no_grad") | m.Name("inference_mode"))


@dataclass(frozen=True)
class OperatorArgument:
    """Argument that is passed to a new custom operator, such as `self.eps`."""

    name: str
    code: str
    """Source of the value that is passed: "self.eps"."""
    annotation: str
    seen: ValueSummary | None
    """The observed values; None if there are none."""
    elsewhere: tuple[ValueSummary | None, ...] = ()
    """The values in each run on inputs of other sizes; None if that run did not come so far."""
    is_typed: bool = True
    """Whether the source tells its type, and not the observed values alone."""
    definition: cst.CSTNode | None = None
    """The parameter or value that a variable or an attribute always has; None if unknown."""
    is_detached: bool = False
    """Whether eager lets no gradient through, even if the tensor requires one."""

    @property
    def is_tensor(self) -> bool:
        return self.annotation == "torch.Tensor" and self.seen is not None

    @property
    def is_floating(self) -> bool:
        return self.seen is not None and any(is_floating_dtype(one) for one in self.seen.dtypes)


@dataclass(frozen=True, eq=False)
class OperatorBody:
    """Body of a function, or some of its statements, to move into a custom operator."""

    name: str
    function: cst.FunctionDef
    body: cst.BaseSuite
    at: cst.CSTNode
    """The body, or its last statement: a node of the document."""
    given: frozenset[str]
    """The variables from outside that the code may read."""
    definitions: Definitions
    """Reaching definitions of the names in `function`, under `conditions`."""
    conditions: tuple[str, ...] = ()
    """Conditions under which the operator does what the code does, as source: "self.causal"."""

    def reads_argument(self, name: cst.CSTNode) -> bool:
        """Whether `name` has the value from outside there, and none that the body assigns."""
        if not isinstance(name, cst.Name) or name.value not in self.given:
            return False
        return not any(self._bindings_inside(name))

    def may_be_argument(self, name: cst.Name) -> bool:
        """Whether `name`, one of `given`, may still have the value from outside there."""
        return not all(self._bindings_inside(name))

    def _bindings_inside(self, name: cst.Name) -> list[bool]:
        """Return for each binding that reaches `name` whether the body makes it."""
        inside = {id(node) for node in walk(self.body)}
        return [id(one) in inside for one in self.definitions.reaching.get(name, ())]


def arguments_of(
    site: Site, helper: OperatorBody
) -> tuple[list[OperatorArgument], dict[cst.CSTNode, cst.CSTNode]]:
    """Return the arguments that `helper` needs, and the edits of its body.

    The edits replace each expression such as `self.eps` by the operator's parameter. Raises
    NotApplicable if the operator cannot take one of the variables that the code reads.
    """
    document, given = site.document, helper.given
    names = names_in(document, helper.body)
    stored = {one.value for one in names if is_stored(document, one)}
    used = {one.value for one in names} - {"self"}
    found: dict[str, OperatorArgument] = {}
    uses: dict[str, list[cst.CSTNode]] = {}
    renamed: dict[cst.CSTNode, cst.CSTNode] = {}
    for name in sorted(names, key=lambda one: document.position(one).key[1:]):
        if name.value not in given or is_stored(document, name):
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
        if helper.reads_argument(name):
            uses.setdefault(code, []).append(part)
    arguments = [
        replace(one, is_detached=_is_detached(site, one, uses.get(code, ())))
        for code, one in found.items()
    ]
    return arguments, renamed


def _argument_for(
    site: Site, helper: OperatorBody, part: cst.BaseExpression, code: str, used: set[str]
) -> OperatorArgument | None:
    """Return the expression `part` as an argument; None if an operator cannot take its value.

    `code` is the source of `part`, and `used` are names that the parameter must not have.
    """
    form = parameter_type_of(site, helper.at, part)
    if form is None or form.restored:
        return None
    seen = site.observed(part)
    annotation = form.annotation
    is_typed = not annotation.startswith("torch.types.Number")
    if not is_typed:
        kinds = {one for one in seen.types if one != "NoneType"} if seen is not None else set()
        if len(kinds) == 1:
            annotation = annotation.replace("torch.types.Number", kinds.pop())
    name = part.value if isinstance(part, cst.Name) else _parameter_name(part, used)
    elsewhere = site.observed_at_other_sizes(part)
    definition = only_definition(site.document, helper.at, part)
    return OperatorArgument(name, code, annotation, seen, elsewhere, is_typed, definition)


def _parameter_name(part: cst.BaseExpression, used: set[str]) -> str:
    """Return a name for the parameter that replaces `part`: "picture" for `self.PICTURE`."""
    stem = part.attr.value.lstrip("_").lower() if isinstance(part, cst.Attribute) else "value"
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return next(one for one in names if one not in used and not keyword.iskeyword(one))


def _is_detached(site: Site, argument: OperatorArgument, uses: Sequence[cst.CSTNode]) -> bool:
    """Whether eager accepts a tensor that requires grad, and lets no gradient through.

    It was seen to do so, or all `uses` of the tensor say so.
    """
    seen = argument.seen is not None and argument.seen.requires_grad
    return seen or (bool(uses) and all(_ends_gradient(site, use) for use in uses))


def _ends_gradient(site: Site, use: cst.CSTNode) -> bool:
    """Whether no gradient flows through this use of a tensor: `x.detach()`, `x.tolist()`."""
    document = site.document
    above = document.parent(use)
    if isinstance(above, cst.Attribute) and above.attr.value in _WITHOUT_GRADIENT:
        return True
    blocks = [one for one in document.ancestors(use) if isinstance(one, cst.With)]
    return any(
        m.matches(item.item, m.Call(func=NO_GRAD)) for block in blocks for item in block.items
    )


def parameter_names(helper: cst.FunctionDef) -> list[cst.Name]:
    return [one.name for one in parameters_of(helper)]


def without_none(
    helper: cst.FunctionDef, arguments: Sequence[OperatorArgument]
) -> tuple[list[OperatorArgument], list[str]]:
    """Return the arguments without None in their types, and the names of those that may be None.

    These are the parameters of `helper` that may be None and never were, and tensors, of which a
    fake kernel may take a dtype or a size.
    """
    optional = {
        one.name.value
        for one in parameters_of(helper)
        if m.matches(one.default or cst.Pass(), _NONE)
        or (one.annotation is not None and find_all(one.annotation, _NONE | m.Name("Optional")))
    }
    found, names = [], []
    for one in arguments:
        never = one.seen is not None and "NoneType" not in one.seen.types
        tensor = one.annotation.endswith(f"Tensor{_OR_NONE}")
        if (never or tensor) and (one.code in optional or one.annotation.endswith(_OR_NONE)):
            names.append(one.name)
            seen = one.seen and replace(
                one.seen, types=tuple(kind for kind in one.seen.types if kind != "NoneType")
            )
            one = replace(one, annotation=one.annotation.removesuffix(_OR_NONE), seen=seen)
        found.append(one)
    return found, names


def names_in(document: Document, node: cst.CSTNode) -> list[cst.Name]:
    """Return the variables in a node, without the names of attributes and keywords."""
    found = []
    for one in walk(node):
        if isinstance(one, cst.Name):
            parent = document.parent(one)
            attribute = isinstance(parent, cst.Attribute) and parent.attr is one
            if not attribute and not (isinstance(parent, cst.Arg) and parent.keyword is one):
                found.append(one)
    return found


def is_stored(document: Document, name: cst.CSTNode) -> bool:
    """Whether an assignment, a loop or `as` binds `name` here, instead of reading it."""
    node, parent = name, document.parent(name)
    packed = cst.Tuple | cst.List | cst.Element | cst.StarredElement
    while isinstance(parent, packed):
        node, parent = parent, document.parent(parent)
    if isinstance(parent, cst.AssignTarget | cst.AsName | cst.Param):
        return True
    loops = cst.For | cst.CompFor | cst.NamedExpr | cst.AnnAssign
    return isinstance(parent, loops) and parent.target is node


def is_floating_dtype(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype

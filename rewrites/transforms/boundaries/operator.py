"""A helper's body as a custom operator, with a fake kernel from the observed shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import DYNAMIC_SHAPE, NotApplicable, Site, torch_name, walk
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.boundaries.fake_kernel import (
    FakeKernel,
    OperatorArgument,
    OperatorBody,
    is_floating_dtype,
    levels_of,
    merge_results,
    results_of,
)
from fullgraph.rewrites.transforms.outline import (
    operator_path,
    parameter_type_of,
    set_apart,
)

_CHANGES = re.compile(r"[^_]_$|^(append|extend|insert|pop|update|clear|backward|add|setdefault)$")
"""Last names of calls that change an object."""
_RANDOM = re.compile(r"\brandom\b|\brand(n|int|perm)?\b|\bmultinomial\b|\bbernoulli\b")
_OPERATOR = """\
@{torch}.library.custom_op("{path}", mutates_args=(){tags})
def {name}({parameters}) -> {result}:
    pass
"""
_FAKE = """\
@{name}.register_fake
def {fake}({names}):
{size}    return {results}
"""
_SIZE = "    size = {torch}.library.get_ctx().new_dynamic_size()\n"


@dataclass
class OperatorEdit:
    """Edit that moves code into a custom operator, with its assumptions."""

    replacements: dict[cst.CSTNode, Replacement]
    assumes: list[str] = field(default_factory=list)
    dynamic: bool = False
    """Whether a size of a result is unknown until run time."""


def define_operator(site: Site, helper: cst.FunctionDef) -> OperatorEdit:
    """Return the edit that moves the body of `helper` into an operator that `helper` calls.

    Raises NotApplicable if no operator can do what the body does.
    """
    document, name = site.document, helper.name.value
    if not isinstance(helper.body, cst.IndentedBlock):
        raise NotApplicable(f"the body of `{name}` stands on its first line")
    if helper.params.star_kwarg or isinstance(helper.params.star_arg, cst.Param):
        raise NotApplicable(f"`{name}` takes any number of arguments")
    given = frozenset(one.value for one in _parameter_names(helper))
    piece = OperatorBody(name, helper, helper.body, helper.body, given)
    _check_effects(document, piece)
    arguments, renamed = _arguments_of(site, piece)
    results = results_of(site, piece, arguments, renamed)
    doc, rest = _split_docstring(helper.body)
    edit, call = _operator_edit(site, piece, rest, arguments, renamed, results)
    returned = cst.parse_statement(f"return {call}\n", config=document.module.config_for_parsing)
    edit.replacements[helper.body] = helper.body.with_changes(body=[*doc, returned])
    return edit


def define_operator_of_statements(site: Site) -> OperatorEdit:
    """Return the edit that moves the statement of a site into an operator.

    Up to three statements after it move too, as few as needed for an operator that takes and
    returns only tensors and numbers. Raises NotApplicable.
    """
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
    """Return the edit that moves neighbouring `statements` of `function` into a custom operator.

    Raises NotApplicable if no operator can do what they do.
    """
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
    piece = OperatorBody(name, function, body, statements[-1], given)
    _check_effects(document, piece)
    arguments, renamed = _arguments_of(site, piece)
    parts = [cst.Name(one) for one in results]
    facts = [
        (merge_results(name, [seen]), levels_of(document, body, [part]))
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
    """Return the call that turns the NumPy array `name` into a tensor: `torch.from_numpy(name)`.

    None if `name` is not the only argument of such a call, or was not observed to be an array.
    """
    argument = site.document.parent(name)
    call = site.document.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    makers = ("torch.from_numpy", "torch.tensor", "torch.as_tensor")
    seen = site.observed(name) if site.callee_name(call) in makers else None
    return call if seen is not None and seen.is_ndarray else None


def _operator_edit(
    site: Site,
    piece: OperatorBody,
    statements: Sequence[cst.BaseStatement],
    arguments: Sequence[OperatorArgument],
    renamed: Mapping[cst.CSTNode, cst.CSTNode],
    results: Sequence[tuple[ValueSummary, Mapping[str, int]]],
) -> tuple[OperatorEdit, str]:
    """Return the edit that defines an operator, and the code of its call: "_f_op(x, self.eps)".

    `piece` is the code to move, `statements` are the operator's body, and `renamed` are the edits
    inside it. `results` has for each result its observed values and the names it is computed from,
    each with the number of definitions between name and result.
    """
    document, name = site.document, piece.name
    path = operator_path(document, name)
    if path is None:
        raise NotApplicable("an operator cannot be named after this file")
    torch = document.imported_name("torch") or "torch"
    stem = name.strip("_")
    operator, fake = document.unused_name(f"_{stem}_op"), document.unused_name(f"_{stem}_fake")
    calls = [one for body in statements for one in walk(body) if isinstance(one, cst.Call)]
    depends = any(torch_name(site, one) in DYNAMIC_SHAPE for one in calls)
    kernel = FakeKernel(torch, arguments, depends_on_data=depends)
    texts = [kernel.result(seen, levels) for seen, levels in results]
    kinds = ["int" if seen.is_number else f"{torch}.Tensor" for seen, _ in results]
    random = any(_RANDOM.search(document.code(one)) for one in statements if one in document.ranges)
    head = _OPERATOR.format(
        torch=torch,
        path="::".join(path),
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
    floating = any(map(is_floating_dtype, (kind for seen, _ in results for kind in seen.dtypes)))
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


def _check_effects(document: Document, helper: OperatorBody) -> None:
    """Raise NotApplicable if the source of `helper` shows that it changes arguments or globals."""
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
    site: Site, helper: OperatorBody
) -> tuple[list[OperatorArgument], dict[cst.CSTNode, cst.CSTNode]]:
    """Return the arguments that `helper` needs, and the edits of its body.

    The edits replace each expression such as `self.eps` by the operator's parameter. Raises
    NotApplicable if the operator cannot take one of the variables that the code reads.
    """
    document, given = site.document, helper.given
    names = _names_in(document, helper.body)
    stored = {one.value for one in names if _is_stored(document, one)}
    used = {one.value for one in names} - {"self"}
    found: dict[str, OperatorArgument] = {}
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
    if annotation.startswith("torch.types.Number"):
        kinds = {one for one in seen.types if one != "NoneType"} if seen is not None else set()
        if len(kinds) == 1:
            annotation = annotation.replace("torch.types.Number", kinds.pop())
    if isinstance(part, cst.Name):
        return OperatorArgument(part.value, code, annotation, seen)
    stem = part.attr.value.lstrip("_") if isinstance(part, cst.Attribute) else "value"
    names = (stem, *(f"{stem}_{number}" for number in range(2, 99)))
    return OperatorArgument(next(one for one in names if one not in used), code, annotation, seen)


def _insert_before(
    document: Document, helper: cst.FunctionDef, definitions: list[cst.BaseStatement]
) -> dict[cst.CSTNode, Replacement]:
    """Return the edit that inserts `definitions` before the function `helper` or its class.

    Raises NotApplicable if that is the first statement of the file.
    """
    body = document.module.body
    outer = next(one for one in (helper, *document.ancestors(helper)) if one in body)
    index = next(number for number, one in enumerate(body) if one is outer)
    if not index:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return {body[index - 1]: cst.FlattenSentinel([body[index - 1], *definitions])}


def _split_docstring(
    body: cst.IndentedBlock,
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the statements of a function in two lists: its docstring or [], and all others."""
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
    """Whether an assignment, a loop or `as` binds `name` here, instead of reading it."""
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

"""A helper's body as a custom operator, with a fake kernel from the observed shapes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    DYNAMIC_SHAPE,
    NotApplicable,
    Site,
    chain_root,
    names_bound,
    torch_name,
    walk,
)
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.boundaries.arguments import (
    OperatorArgument,
    OperatorBody,
    arguments_of,
    body_of,
    is_floating_dtype,
    is_stored,
    names_in,
    parameter_names,
    without_none,
)
from fullgraph.rewrites.transforms.boundaries.conditions import conditions_of
from fullgraph.rewrites.transforms.boundaries.fake_kernel import FakeKernel
from fullgraph.rewrites.transforms.boundaries.helper import call_of_function, uses_torchscript
from fullgraph.rewrites.transforms.boundaries.origins import OriginFinder
from fullgraph.rewrites.transforms.boundaries.results import OperatorResult, results_of
from fullgraph.rewrites.transforms.outline import (
    find_class_scope,
    insert_after,
    operator_path,
    set_apart,
)

_CHANGES = re.compile(r"[^_]_$|^(append|extend|insert|pop|update|clear|backward|add|setdefault)$")
"""Last names of calls that change an object."""
LINE = 77
"""Length up to which results, or conditions, stay on one line."""
_NEW = m.Call(func=m.Attribute(attr=m.Name("clone") | m.Name(m.MatchRegex(r"new_\w+"))))
"""Methods whose result shares no memory with the tensor."""
_RANDOM = re.compile(r"\brandom\b|\brand(n|int|perm)?\b|\bmultinomial\b|\bbernoulli\b")
_OPERATOR = """\
@{torch}.library.custom_op("{path}", mutates_args=(){tags})
def {name}({parameters}) -> {result}:
    pass
"""
_FAKE = """\
@{name}.register_fake
def {fake}({names}):
{sizes}    return {results}
"""
_SIZE = "    {size} = {torch}.library.get_ctx().new_dynamic_size()\n"


@dataclass
class OperatorEdit:
    """Edit that moves code into a custom operator, with its assumptions."""

    replacements: dict[cst.CSTNode, Replacement]
    call: str
    """Code of the operator's call: "_f_op(x, self.eps)"."""
    assumes: list[str] = field(default_factory=list)
    dynamic: bool = False
    """Whether a size of a result is unknown until run time."""
    as_compiled: dict[cst.CSTNode, Replacement] | None = None
    """The edit by which eager calls the operator; None if `replacements` do so."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """The numbers of dimensions that the fake kernel relies on, by the names of arguments."""


def define_operator(site: Site, helper: cst.FunctionDef) -> OperatorEdit:
    """Return the edit by which an operator does what `helper` does.

    Compiled code calls an operator that calls `helper`, if that reads nothing of `self` and can be
    called by its name; else the body moves into an operator that `helper` calls. Raises
    NotApplicable if no operator can do what the body does.
    """
    document, name, block = site.document, helper.name.value, helper.body
    if not isinstance(block, cst.IndentedBlock):
        raise NotApplicable(f"the body of `{name}` stands on its first line")
    if helper.params.star_kwarg or isinstance(helper.params.star_arg, cst.Param):
        raise NotApplicable(f"`{name}` takes any number of arguments")
    given = frozenset(one.value for one in parameter_names(helper))
    piece = body_of(document, name, helper, block, block, given)
    check_effects(document, piece)
    arguments, renamed = arguments_of(site, piece)
    finder = OriginFinder(site, piece, arguments)
    results = results_of(site, piece, arguments, renamed, finder)
    _, rest = _split_docstring(block)
    define = partial(
        operator_edit,
        site,
        piece,
        rest,
        renamed=renamed,
        results=results,
        hosts=finder.host_arguments(),
    )
    own = None if renamed else call_of_function(document, helper, arguments)
    if own is None:
        edit = define(arguments=arguments)
        edit.replacements[block] = _with_call(document, block, edit.call, ())
        return edit
    arguments, never_none = without_none(helper, _in_order_of_parameters(helper, arguments))
    line = cst.parse_statement(f"return {own}\n", config=document.module.config_for_parsing)
    edit, moved = define(arguments=arguments, body=[line]), define(arguments=arguments)
    floating = _has_floating(results)
    tests = conditions_of(document, helper, arguments, never_none, edit.ranks, floating=floating)
    torch = document.torch
    tracing = f"{torch}.compiler.is_dynamo_compiling()"  # false in kernels run while compiling
    scripting = (f"not {torch}.jit.is_scripting()",) if uses_torchscript(document) else ()
    conditions = (*scripting, tracing, *tests)
    edit.replacements[block] = _with_call(document, block, edit.call, conditions)
    moved.replacements[block] = _with_call(document, block, edit.call, tests)
    edit.as_compiled = moved.replacements
    return edit


def _with_call(
    document: Document, block: cst.IndentedBlock, call: str, conditions: Sequence[str]
) -> cst.IndentedBlock:
    """Return the body of a function that returns `call`: always, or first under `conditions`."""
    doc, rest = _split_docstring(block)
    test = _join_conditions(conditions)
    text = f"if {test}:\n    return {call}\n" if test else f"return {call}\n"
    line = cst.parse_statement(text, config=document.module.config_for_parsing)
    after = [one.deep_clone() for one in rest] if test else []
    return block.with_changes(body=[*doc, line, *after])


def operator_edit(
    site: Site,
    piece: OperatorBody,
    statements: Sequence[cst.BaseStatement],
    arguments: Sequence[OperatorArgument],
    renamed: Mapping[cst.CSTNode, cst.CSTNode],
    results: Sequence[OperatorResult],
    hosts: Collection[str],
    body: Sequence[cst.BaseStatement] | None = None,
) -> OperatorEdit:
    """Return the edit that defines an operator for `statements`.

    `piece` is the code that they are part of, and `renamed` are the edits inside them. `hosts` are
    the names of the arguments that must be on the CPU. `body` are the statements of the operator,
    if it does by a call what `statements` do. Raises NotApplicable.
    """
    document, name = site.document, piece.name
    path = operator_path(document, name)
    if path is None:
        raise NotApplicable("an operator cannot be named after this file")
    torch = document.torch
    if torch.partition(".")[0] in {*piece.given, *names_bound(piece.function.body)}:
        raise NotApplicable(f"`{piece.function.name.value}` has a variable `{torch}` of its own")
    if own := find_class_scope(document, statements if body is None else (), renamed):
        raise NotApplicable(f"`{own}` means something else outside of its class")
    stem = name.strip("_")
    operator, fake = document.unused_name(f"_{stem}_op"), document.unused_name(f"_{stem}_fake")
    calls = [one for line in statements for one in walk(line) if isinstance(one, cst.Call)]
    depends = any(torch_name(site, one) in DYNAMIC_SHAPE for one in calls)
    ordered = _in_order_of_parameters(piece.function, arguments)
    kernel = FakeKernel(torch, arguments, results, hosts, depends_on_data=depends)
    if not any("torch.Tensor" in one.annotation for one in arguments) and not any(
        one.seen.is_tensor for one in results
    ):
        raise NotApplicable("Inductor runs no operator without tensors")
    kinds = ["int" if one.seen.is_number else f"{torch}.Tensor" for one in results]
    random = any(_RANDOM.search(document.code(one)) for one in statements if one in document.ranges)
    head = _OPERATOR.format(
        torch=torch,
        path="::".join(path),
        tags=f", tags=({torch}.Tag.nondeterministic_seeded,)" if random else "",
        name=operator,
        parameters=", ".join(
            f"{one.name}: {one.annotation.replace('torch.', f'{torch}.')}" for one in ordered
        ),
        result=kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]",
    )
    fake_text = _FAKE.format(
        name=operator,
        fake=fake,
        names=", ".join(one.name for one in ordered),
        sizes="".join(_SIZE.format(torch=torch, size=size) for size in kernel.unbacked),
        results=_join_results(kernel.texts),
    )
    config = document.module.config_for_parsing
    block = cst.IndentedBlock(list(statements if body is None else body))
    block = replace_nodes(block, renamed) if renamed else block
    definition = cst.ensure_type(cst.parse_statement(head, config=config), cst.FunctionDef)
    floating = _has_floating(results)
    given = ", ".join(
        f"{one.code}.detach()" if floating and one.is_floating and one.is_detached else one.code
        for one in ordered
    )
    definitions = [
        set_apart(definition.with_changes(body=block)),
        set_apart(cst.parse_statement(fake_text, config=config)),
    ]
    assumes = [f"`{operator}` reads nothing but tensors and numbers that it is given"]
    assumes += dict.fromkeys(kernel.assumes)
    unasked = (one.is_detached or "list[" in one.annotation for one in ordered)
    if floating and (body is None or any(unasked)):  # else compiled code asks for `requires_grad`
        assumes.append("no gradient flows through it")
    if body is None and uses_torchscript(document):
        assumes.append("nobody saves a TorchScript program that calls it")
    edits = _insert_before(document, piece.function, definitions)
    call, dynamic = f"{operator}({given})", bool(kernel.unbacked)
    return OperatorEdit(edits, call, assumes, dynamic, ranks=kernel.ranks)


def _has_floating(results: Sequence[OperatorResult]) -> bool:
    """Whether a gradient could flow through one of the results."""
    return any(is_floating_dtype(dtype) for one in results for dtype in one.seen.dtypes)


def _join_conditions(conditions: Sequence[str]) -> str:
    """Return conditions joined by `and`, each on a line of its own if one line is too short."""
    line = " and ".join(conditions)
    if len(line) <= LINE - 4:
        return line
    return "(\n    " + "\n    and ".join(conditions) + "\n)"


def _in_order_of_parameters(
    function: cst.FunctionDef, arguments: Sequence[OperatorArgument]
) -> list[OperatorArgument]:
    """Return arguments in the order of the parameters of `function`, all others after them."""
    places = {name.value: place for place, name in enumerate(parameter_names(function))}
    return sorted(arguments, key=lambda one: places.get(one.code, len(places)))


def _join_results(texts: Sequence[str]) -> str:
    """Return the results of a fake kernel, each on a line of its own if one line is too short."""
    line = ", ".join(texts)
    if len(texts) == 1 or len(line) <= LINE:
        return line
    return "".join(("(\n", *(f"        {one},\n" for one in texts), "    )"))


def check_effects(document: Document, helper: OperatorBody) -> None:
    """Raise NotApplicable if the source of `helper` shows that it changes arguments or globals."""
    name, given = helper.name, helper.given
    if m.findall(helper.body, m.Global() | m.Nonlocal()):
        raise NotApplicable(f"`{name}` changes variables outside of it")
    own = {one.value for one in names_in(document, helper.body) if is_stored(document, one)}
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
        root = chain_root(changed, _NEW) if changed is not None else None
        if isinstance(root, cst.Name) and root.value in given and root.value not in own - {"self"}:
            raise NotApplicable(f"`{name}` changes `{document.code(changed or root)}`")


def _insert_before(
    document: Document, helper: cst.FunctionDef, definitions: Sequence[cst.BaseStatement]
) -> dict[cst.CSTNode, Replacement]:
    """Return the edit that inserts `definitions` before the function `helper` or its class.

    Raises NotApplicable if that is the first statement of the file.
    """
    body = document.module.body
    outer = next(one for one in (helper, *document.ancestors(helper)) if one in body)
    index = next(number for number, one in enumerate(body) if one is outer)
    if not index:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return insert_after(document, body[index - 1], definitions, {})


def _split_docstring(
    body: cst.IndentedBlock,
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the statements of a function in two lists: its docstring or [], and all others."""
    text = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
    count = 1 if m.matches(body.body[0], text) else 0
    return list(body.body[:count]), list(body.body[count:])

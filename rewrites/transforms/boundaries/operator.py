"""A helper's body as a custom operator, with a fake kernel from the observed shapes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    DYNAMIC_SHAPE,
    NotApplicable,
    Site,
    difference_in_operator,
    find_all,
    has_raise,
    names_bound,
    torch_name,
    walk,
    written_variable,
)
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.boundaries.arguments import (
    OperatorArgument,
    OperatorBody,
    arguments_of,
    is_floating_dtype,
    parameter_names,
    without_none,
)
from fullgraph.rewrites.transforms.boundaries.conditions import conditions_of
from fullgraph.rewrites.transforms.boundaries.fake_kernel import FakeKernel
from fullgraph.rewrites.transforms.boundaries.helper import call_of_function, uses_torchscript
from fullgraph.rewrites.transforms.boundaries.origins import OriginFinder
from fullgraph.rewrites.transforms.boundaries.results import OperatorResult, results_of
from fullgraph.rewrites.transforms.boundaries.settings import body_of, changes_in_place
from fullgraph.rewrites.transforms.eager_only import compiling_condition
from fullgraph.rewrites.transforms.outline import (
    EXCEPTION_CAUGHT,
    find_class_scope,
    insert_after,
    is_exception_caught,
    operator_path,
    set_apart,
)

LINE = 77
"""Length up to which results, or conditions, stay on one line."""
_RANDOM = re.compile(r"\brandom\b|\brand(n|int|perm)?\b|\bmultinomial\b|\bbernoulli\b")
_OPERATOR = """\
@{torch}.library.custom_op("{path}", mutates_args=(){tags})
def {name}({parameters}) -> {result}:
    return {own}
"""
"""Operator that calls a function of the file."""
_FUNCTION = """\
def {function}({parameters}) -> {result}:
    pass


{name} = {torch}.library.custom_op({arguments})
"""
"""Function for the code that moves, and the operator that runs it."""
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
    function_call: str
    """Code of the call of the function that the operator runs: "_f_impl(x, self.eps)"."""
    conditions: list[str]
    """Conditions under which the operator does what the function does, as source."""
    when_compiling: list[str]
    """Conditions under which compiled code calls the operator, as source."""
    assumes: list[str]
    dynamic: bool
    """Whether a size of a result is unknown until run time."""
    as_compiled: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    """The edit by which eager calls the operator."""


def define_operator(site: Site, helper: cst.FunctionDef) -> OperatorEdit:
    """Return the edit by which compiled code calls an operator that does what `helper` does.

    The operator calls `helper`, if that reads nothing of `self` and can be called by its name; else
    the body moves into a function that both call. Raises NotApplicable if no operator can do what
    the body does.
    """
    document, name, block = site.document, helper.name.value, helper.body
    if not isinstance(block, cst.IndentedBlock):
        raise NotApplicable(f"the body of `{name}` stands on its first line")
    if helper.params.star_kwarg or isinstance(helper.params.star_arg, cst.Param):
        raise NotApplicable(f"`{name}` takes any number of arguments")
    if any(has_raise(document, one) and is_exception_caught(document, one) for one in block.body):
        raise NotApplicable(EXCEPTION_CAUGHT)
    given = frozenset(one.value for one in parameter_names(helper))
    returned = [
        one.value
        for one in walk(block)
        if isinstance(one, cst.Return) and one.value and document.function(one) is helper
    ]
    piece = body_of(site, name, helper, block, block, given, returned)
    check_effects(document, piece)
    arguments, renamed = arguments_of(site, piece)
    finder = OriginFinder(site, piece, arguments)
    results = results_of(site, piece, arguments, renamed, finder)
    _, rest = _split_docstring(block)
    hosts = finder.host_arguments()
    moved = operator_edit(site, piece, rest, arguments, renamed, results, hosts)
    own = None if renamed else call_of_function(document, helper, arguments)
    if own is None:
        edit = moved
        config = document.module.config_for_parsing
        rest = [cst.parse_statement(f"return {edit.function_call}\n", config=config)]
    else:
        edit = operator_edit(site, piece, rest, arguments, renamed, results, hosts, own)
    proved = _with_call(document, block, moved.call, moved.conditions, rest)
    edit.as_compiled = {**moved.replacements, block: proved}
    edit.replacements[block] = _with_call(document, block, edit.call, edit.when_compiling, rest)
    return edit


def _with_call(
    document: Document,
    block: cst.IndentedBlock,
    call: str,
    conditions: Sequence[str],
    after: Sequence[cst.BaseStatement],
) -> cst.IndentedBlock:
    """Return the body of a function that returns `call` under `conditions`, else runs `after`."""
    doc, _ = _split_docstring(block)
    test = join_conditions(conditions)
    text = f"if {test}:\n    return {call}\n" if test else f"return {call}\n"
    line = cst.parse_statement(text, config=document.module.config_for_parsing)
    return block.with_changes(body=[*doc, line, *(one.deep_clone() for one in after if test)])


def operator_edit(
    site: Site,
    piece: OperatorBody,
    statements: Sequence[cst.BaseStatement],
    arguments: Sequence[OperatorArgument],
    renamed: Mapping[cst.CSTNode, cst.CSTNode],
    results: Sequence[OperatorResult],
    hosts: Collection[str],
    own: str = "",
) -> OperatorEdit:
    """Return the edit that defines an operator for `statements`.

    `piece` is the code that they are part of, and `renamed` are the edits inside them. `hosts` are
    the names of the arguments that must be on the CPU. `own` is the call by which the operator runs
    `statements`, "f(x)"; "" if they move into a function. Raises NotApplicable.
    """
    document, name = site.document, piece.name
    path = operator_path(document, name)
    if path is None:
        raise NotApplicable("an operator cannot be named after this file")
    torch = document.torch
    if torch.partition(".")[0] in {*piece.given, *names_bound(piece.function.body)}:
        raise NotApplicable(f"`{piece.function.name.value}` has a variable `{torch}` of its own")
    if scoped := find_class_scope(document, () if own else statements, renamed):
        raise NotApplicable(f"`{scoped}` means something else outside of its class")
    stem = name.strip("_")
    kinds = ("op", "fake", "impl")
    operator, fake, function = (document.unused_name(f"_{stem}_{one}") for one in kinds)
    calls = [one for line in statements for one in walk(line) if isinstance(one, cst.Call)]
    depends = any(torch_name(site, one) in DYNAMIC_SHAPE for one in calls)
    arguments = _in_order_of_parameters(piece.function, arguments)
    arguments, never_none = without_none(piece.function, arguments)
    kernel = FakeKernel(torch, arguments, results, hosts, depends_on_data=depends)
    if not any("torch.Tensor" in one.annotation for one in arguments) and not any(
        one.seen.is_tensor for one in results
    ):
        raise NotApplicable("Inductor runs no operator without tensors")
    types = ["int" if one.seen.is_number else f"{torch}.Tensor" for one in results]
    random = any(_RANDOM.search(document.code(one)) for one in statements if one in document.ranges)
    tags = f", tags=({torch}.Tag.nondeterministic_seeded,)" if random else ""
    line = f'"{"::".join(path)}", {function}, mutates_args=(){tags}'
    if len(f"{operator} = {torch}.library.custom_op({line})") > LINE + 11:
        line = f"\n    {line}\n"
    text = (_OPERATOR if own else _FUNCTION).format(
        torch=torch,
        path="::".join(path),
        tags=tags,
        name=operator,
        function=function,
        own=own,
        arguments=line,
        parameters=", ".join(
            f"{one.name}: {one.annotation.replace('torch.', f'{torch}.')}" for one in arguments
        ),
        result=types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]",
    )
    fake_text = _FAKE.format(
        name=operator,
        fake=fake,
        names=", ".join(one.name for one in arguments),
        sizes="".join(_SIZE.format(torch=torch, size=size) for size in kernel.unbacked),
        results=_join_results(kernel.texts),
    )
    config = document.module.config_for_parsing
    first, *others = cst.parse_module(f"{text}\n\n{fake_text}", config).body
    if not own:
        block = cst.IndentedBlock(list(statements))
        block = replace_nodes(block, renamed) if renamed else block
        first = first.with_changes(body=block)
    floating = any(is_floating_dtype(dtype) for one in results for dtype in one.seen.dtypes)
    given = ", ".join(
        f"{one.code}.detach()" if floating and one.is_floating and one.is_detached else one.code
        for one in arguments
    )
    assumes = [f"`{operator}` reads nothing but tensors and numbers that it is given"]
    if written := written_variable(document, statements):
        other, line_of_write = written
        assumes = [f"calls with equal arguments may share a result, though line {line_of_write} "]
        assumes[0] += f"may have changed `{other}` between them"
    assumes += dict.fromkeys(kernel.assumes)
    if floating and any(one.is_detached or "list[" in one.annotation for one in arguments):
        assumes.append("no gradient flows through it")
    tests = conditions_of(
        document,
        piece.function,
        arguments,
        never_none,
        kernel.ranks,
        kernel.dtypes,
        floating=floating,
    )
    tests += [one for one in piece.conditions if one not in tests]
    # Not in the operator's own kernel, which calls the function that has the condition.
    tracing = f"{torch}.compiler.is_dynamo_compiling()" if own else compiling_condition(document)
    scripting = [f"not {torch}.jit.is_scripting()"] if uses_torchscript(document) else []
    return OperatorEdit(
        _insert_before(document, piece.function, [set_apart(first), *others]),
        f"{operator}({given})",
        f"{function}({', '.join(one.code for one in arguments)})",
        tests,
        [*scripting, tracing, *tests],
        assumes,
        dynamic=bool(kernel.unbacked),
    )


def join_conditions(conditions: Sequence[str]) -> str:
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
    """Raise NotApplicable if `helper` changes arguments or globals, or asks for what differs."""
    if why := difference_in_operator(document, [helper.body]):
        raise NotApplicable(why)
    if find_all(helper.body, m.Global() | m.Nonlocal()):
        raise NotApplicable(f"`{helper.name}` changes variables outside of it")
    for changed, root in changes_in_place(helper.body):
        if root.value in helper.given and helper.may_be_argument(root):
            raise NotApplicable(f"`{helper.name}` changes `{document.code(changed)}`")


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

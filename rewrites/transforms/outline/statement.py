"""Edit that moves a statement into the body of a custom operator and calls the operator.

`torch.compile` does not trace a `torch.library.custom_op`. Without outputs it would be dropped as
dead code, and two of them might be reordered. An ordered effect prevents both, in the default
mode, under `fullgraph=True` and under Inductor (seen on torch 2.10, 2.13 and 2.15). Eager code
still runs the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.sources import cell_name
from fullgraph.rewrites.analysis import Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.outline.differences import (
    changes_object_before,
    find_outlining_refusal,
    is_exception_caught,
    outlining_assumptions,
)
from fullgraph.rewrites.transforms.outline.free_variables import (
    OperatorParameters,
    find_operator_parameters,
)

StatementPredicate = Callable[[Site, cst.CSTNode], bool]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_DECORATOR = '''\
def {name}(function):
    """`function`; torch.compile sees an operator that it neither traces, drops nor reorders."""
    name = f"{{function.__module__}}::{{function.__name__}}".replace(".", "_")
    op = {torch}.library.custom_op(name, function, mutates_args=())
    op.register_fake(lambda *args: None)
    op.register_effect({torch}._library.effects.EffectType.ORDERED)
    return lambda *args: (op if {torch}.compiler.is_compiling() else function)(*args)
'''


def find_outlined_statement(site: Site, accepts: StatementPredicate) -> Statement | None:
    """Return the statement of a site to move into an operator; None if `accepts` refuses it.

    Return an `if` around the statement instead if `accepts` holds for it too, and its condition
    needs a tensor's values. None also outside of functions.
    """
    document = site.document
    if document.function(site.node) is None:
        return None
    statement = _chain_head(document, site.statement)
    return _widen_to_ifs(site, statement, accepts) if accepts(site, statement) else None


def outline_statement(
    site: Site, statement: Statement, accepts: StatementPredicate, stem: str, why: str
) -> Rewrite | Refusal:
    """Return the rewrite that moves `statement` into an operator `_<stem>_<function>`.

    The name is `_report_forward` for stem "report" in `forward`. `accepts` tells which other
    statements are outlined too, so that each gets its own name. `why` explains the rewrite to the
    user.
    """
    document = site.document
    in_cell = cell_name(document.file) is not None  # its module is `__main__`
    if not in_cell and not Path(document.file).stem.isidentifier():
        return Refusal("an operator cannot be named after this file")
    if (refusal := find_outlining_refusal(site, statement)) is not None:
        return refusal
    raises = bool(m.findall(statement, m.Raise() | m.Assert()))
    if raises and is_exception_caught(document, statement):
        return Refusal("what it raises is handled by a `try` that would be compiled with it")
    parameters = find_operator_parameters(site, statement)
    if isinstance(parameters, Refusal):
        return parameters
    assumes = outlining_assumptions(site, statement, parameters)
    if raises and changes_object_before(document, statement):
        assumes.append("nobody uses what was changed before a check that fails")
    name = _operator_name(site, statement, accepts, stem)
    arguments = ", ".join(one.code for one in parameters.parameters)
    call = cst.parse_statement(f"{name}({arguments})", config=document.module.config_for_parsing)
    assert isinstance(call, cst.SimpleStatementLine)
    call = call.with_changes(leading_lines=statement.leading_lines)
    return Rewrite(
        _insert_definitions(
            document, statement, call, _operator_definition(document, name, statement, parameters)
        ),
        why,
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        tuple(assumes),
        imports=("torch",),
        tests=tuple(_conditions_of(statement)),
        exempts=frozenset({"grad_fn"} if any("grad_fn=" in clause for clause in assumes) else ()),
    )


def _widen_to_ifs(site: Site, statement: Statement, accepts: StatementPredicate) -> Statement:
    """Return the outermost `if` around `statement` whose conditions need a tensor's values.

    `accepts` has to hold for it. Returns `statement` if there is none.
    """
    while isinstance(around := _if_around(site.document, statement), cst.If):
        if not (accepts(site, around) and _needs_tensor_values(site, around)):
            break
        statement = around
    return statement


def _chain_head(document: Document, statement: Statement) -> Statement:
    """Return the first `if` of the chain that an `elif` belongs to; others unchanged."""
    while isinstance(around := document.parent(statement), cst.If) and around.orelse is statement:
        statement = around
    return statement


def _if_around(document: Document, statement: cst.CSTNode) -> cst.CSTNode | None:
    """Return the `if` that a statement is in a branch of, or None.

    For a statement under `elif` or `else`, return the first `if` of the chain.
    """
    block = document.parent(statement)
    if not isinstance(block, cst.IndentedBlock):
        return None
    around = document.parent(block)
    if isinstance(around, cst.Else):
        around = document.parent(around)
    return _chain_head(document, around) if isinstance(around, cst.If) else None


def _needs_tensor_values(site: Site, statement: cst.If) -> bool:
    """Whether a condition of an `if` chain needs the values of a tensor."""
    return any(_condition_needs_values(site, test) for test in _conditions_of(statement))


def _condition_needs_values(site: Site, test: cst.BaseExpression) -> bool:
    """Whether a condition reads values of tensors, not only metadata."""
    if isinstance(test, cst.BooleanOperation):
        return _condition_needs_values(site, test.left) or _condition_needs_values(site, test.right)
    if isinstance(test, cst.UnaryOperation):
        return _condition_needs_values(site, test.expression)
    if site.is_tensor(test):
        return True
    calls = [cst.ensure_type(one, cst.Call) for one in m.findall(test, m.Call())]
    return any(
        site.callee_name(call).rpartition(".")[2]
        in ("item", "tolist", "equal", "allclose", "is_nonzero")
        or any(site.is_tensor(arg.value) and not site.is_tensor(call) for arg in call.args)
        for call in calls
    )


def _conditions_of(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the conditions of the assertions in a statement, or of an `if` and its `elif`s."""
    if isinstance(statement, cst.If):
        rest = _conditions_of(statement.orelse) if isinstance(statement.orelse, cst.If) else []
        return [statement.test, *rest]
    return [cst.ensure_type(one, cst.Assert).test for one in m.findall(statement, m.Assert())]


def _operator_name(site: Site, statement: Statement, accepts: StatementPredicate, stem: str) -> str:
    """Return an unused name for the operator: "_report_forward" for stem "report" in `forward`.

    Other statements that `accepts` takes get other names, if their functions have the same name:
    "_report_encoder" in the class `Encoder`, if another class has one in its `forward` too.
    """
    document = site.document
    function = document.function_name(statement)
    alike = [
        one
        for one in document.ranges
        if isinstance(one, cst.SimpleStatementLine | cst.If)
        and document.function_name(one) == function
        and accepts(site, one)
        and not _is_nested(document, one, statement)
    ]
    owner = document.class_around(statement)
    same = [one for one in alike if document.class_around(one) is owner]
    base = function.strip("_")
    if owner is not None and len(same) < len(alike):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", owner.name.value).lower()
        base = words if function == "forward" else f"{words}_{base}"
    lines = {
        document.position(_widen_to_ifs(site, _chain_head(document, one), accepts)).line
        for one in same
    }
    number = sorted(lines).index(document.position(statement).line) + 1
    names = [f"_{stem}_{base}{f'_{n}' if n > 1 else ''}" for n in range(1, 999)]
    used = [n for n, name in enumerate(names[:99], 1) if document.unused_name(name) != name]
    return names[max(used, default=0) + number - 1]


def _is_nested(document: Document, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Return whether one of two different statements contains the other."""
    return one in document.ancestors(other) or other in document.ancestors(one)


def _operator_definition(
    document: Document, name: str, statement: Statement, parameters: OperatorParameters
) -> list[cst.BaseStatement]:
    """Return the statements that define the operator `name`, whose body is `statement`.

    Its decorator is defined first if the file does not have it yet.
    """
    torch = document.imported_name("torch") or "torch"
    known = find_decorator(document, _DECORATOR)
    decorator = known.name.value if known is not None else document.unused_name("ordered_op")
    signature = ", ".join(
        f"{one.name}: {one.form.annotation.replace('torch.', f'{torch}.')}"
        for one in parameters.parameters
    )
    config = document.module.config_for_parsing
    text = f"@{decorator}\ndef {name}({signature}) -> None:\n{config.default_indent}pass\n"
    body = replace_nodes(statement, parameters.renamed) if parameters.renamed else statement
    operator = cst.ensure_type(cst.parse_statement(text, config=config), cst.FunctionDef)
    inner = cst.IndentedBlock([body.with_changes(leading_lines=())])
    found = [set_apart(operator.with_changes(body=inner))]
    if known is None:
        source = _DECORATOR.format(name=decorator, torch=torch)
        found.insert(0, set_apart(cst.parse_statement(source)))
    return found


def set_apart(definition: cst.BaseStatement) -> cst.BaseStatement:
    """Return a definition preceded by two empty lines."""
    empty = cst.EmptyLine(indent=False)
    return definition.with_changes(leading_lines=(empty, empty))


def find_decorator(document: Document, template: str) -> cst.FunctionDef | None:
    """Return the function of the file that has the source `template`; None if there is none.

    `template` is the source of a decorator, with "{name}" for its name and "{torch}" for torch.
    """
    torch = document.imported_name("torch") or "torch"
    for one in document.module.body:
        if isinstance(one, cst.FunctionDef):
            text = template.format(name=one.name.value, torch=torch)
            if document.code(one).strip() == text.strip():
                return one
    return None


def _insert_definitions(
    document: Document,
    statement: Statement,
    call: cst.SimpleStatementLine,
    definitions: list[cst.BaseStatement],
) -> dict[cst.CSTNode, Replacement]:
    """Return the edits that replace `statement` by `call` and insert `definitions` above.

    They follow the imports and earlier operators of the file.
    """
    anchor = _anchor_statement(document, statement)
    if anchor is not None:
        return {statement: call, anchor: cst.FlattenSentinel([anchor, *definitions])}
    first = document.module.body[0]
    inner = replace_nodes(first, {statement: call})
    return {first: cst.FlattenSentinel([*definitions, set_apart(inner)])}


def _anchor_statement(document: Document, statement: Statement) -> cst.CSTNode | None:
    """Return the statement to insert definitions after; None for the top of the file.

    It is the last outlined operator, else the last import or the statement before the first
    definition.
    """
    body = document.module.body
    known = find_decorator(document, _DECORATOR)
    if known is not None:
        name = m.Decorator(m.Name(known.name.value))
        users = [one for one in body if m.matches(one, m.FunctionDef(decorators=[name]))]
        return (known, *users)[-1]
    outer = next(one for one in body if one in (statement, *document.ancestors(statement)))
    before = list(body[: body.index(outer)])
    definitions = [i for i, one in enumerate(before) if isinstance(one, _DEFINITIONS)]
    imports = [i for i, one in enumerate(before) if m.findall(one, _IMPORT)]
    end = max(definitions[0] if definitions else len(before), imports[-1] + 1 if imports else 0)
    return before[end - 1] if end else None


_DEFINITIONS = cst.FunctionDef | cst.ClassDef
_IMPORT = m.Import() | m.ImportFrom()

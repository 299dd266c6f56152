"""Operators for calls that draw random numbers, which `torch.compile` calls in program order.

An ordered effect keeps two draws from being merged, dropped or reordered: the stream is that of
eager code, in the default mode, under `fullgraph=True` and under Inductor (seen on torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, names_bound, walk
from fullgraph.rewrites.source import Document, Replacement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.outline import (
    KEPT_IN_ORDER,
    insert_after,
    operator_path,
    set_apart,
)
from fullgraph.rewrites.transforms.random.draws import RandomDraw, find_random_calls

_OPERATOR = """\
@{torch}.library.custom_op("{space}::{path}", mutates_args=())
def {name}({parameters}) -> {torch}.Tensor:
    return {torch}.tensor({call}, dtype={torch}.{dtype})


{name}.register_fake(lambda *args: {torch}.empty((), dtype={torch}.{dtype}))
"""
_DISTRIBUTIONS = dict.fromkeys(("rand", "random", "random_sample", "ranf"), "uniform")
"""Names of distributions that differ from those of the functions."""
Definitions = Sequence[cst.BaseStatement]


def define_draw_operator(
    site: Site, draw: RandomDraw, dtype: str
) -> tuple[cst.BaseExpression, Definitions]:
    """Return a call that replaces `draw.call`, and the definitions of the operator it calls.

    `_draw_lam(a)` replaces `np.random.beta(a, a)` in `lam = np.random.beta(a, a)`, and returns a
    tensor of `dtype`. Raises NotApplicable if an argument is not an int or a float.
    """
    document = site.document
    torch = document.imported_name("torch") or "torch"
    operator_name = _operator_name(site, draw.call)
    path = operator_path(document, operator_name)
    if path is None:
        raise NotApplicable("an operator cannot be named after this file")
    arguments_by_name: dict[str, cst.BaseExpression] = {}
    edits: dict[cst.CSTNode, Replacement] = {}
    parameters = []
    for read in _names_read(site, draw.call):
        seen = site.observed(read)
        kind = seen.types[0] if seen is not None and len(seen.types) == 1 else ""
        if kind not in ("int", "float"):
            raise NotApplicable(f"`{document.code(read)}` cannot be handed to an operator")
        stem = dotted_name(read).rpartition(".")[2].strip("_")
        known = next(
            (n for n, node in arguments_by_name.items() if dotted_name(node) == dotted_name(read)),
            None,
        )
        if known is None and stem in arguments_by_name:
            raise NotApplicable("two of its arguments have one name")
        edits[read] = cst.Name(stem)
        if known is None:
            arguments_by_name[stem] = read
            parameters.append(f"{stem}: {kind}")
    body = replace_nodes(draw.call, edits) if edits else draw.call
    text = (_OPERATOR + KEPT_IN_ORDER).format(
        torch=torch,
        space=path[0],
        path=path[1],
        dtype=dtype,
        name=operator_name,
        parameters=", ".join(parameters),
        call=cst.Module([]).code_for_node(body),
    )
    operator, *marks = cst.parse_module(text, document.module.config_for_parsing).body
    definitions = [set_apart(operator), *marks]
    arguments = ", ".join(document.code(one) for one in arguments_by_name.values())
    return cst.parse_expression(f"{operator_name}({arguments})"), definitions


def add_definitions(
    document: Document, edits: dict[cst.CSTNode, Replacement], definitions: Definitions
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the definitions inserted after the imports of the file.

    Raises NotApplicable if the file imports nothing.
    """
    last, torch = None, document.imported_name("torch")
    for one in document.module.body:
        is_import = isinstance(one, cst.SimpleStatementLine) and _is_import(one)
        if is_import:
            last = one
            torch = None if torch in names_bound(one) else torch
        elif last is not None and torch is None:
            break
    if last is None or torch is not None:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return insert_after(document, last, definitions, edits)


def _operator_name(site: Site, call: cst.Call) -> str:
    """Return an unused name for the operator that replaces `call`: "_draw_lam", "_draw_normal".

    Draws of the same name are numbered.
    """
    document = site.document
    base = f"_draw_{_subject_of(site, call)}"
    calls = find_random_calls(site, document.module)
    same = [one for one in calls if f"_draw_{_subject_of(site, one)}" == base]
    number = next(i for i, one in enumerate(same, 1) if one is call)
    return document.unused_name(base if number == 1 else f"{base}_{number}")


def _subject_of(site: Site, call: cst.Call) -> str:
    """Return the name of the variable for the number of a call, else of the distribution."""
    parent = site.document.parent(call)
    if isinstance(parent, cst.IfExp):
        parent = site.document.parent(parent)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name.strip("_").lower()
    name = site.callee_name(call).rpartition(".")[2]
    return _DISTRIBUTIONS.get(name, name)


def _names_read(site: Site, call: cst.Call) -> Iterator[cst.Name | cst.Attribute]:
    """Yield the names and attribute chains in the arguments of a call.

    Raises NotApplicable if an argument is starred, or contains a call or a subscript.
    """
    for arg in call.args:
        if arg.star:
            raise NotApplicable("its arguments are not spelled out")
        yield from _dotted_operands(arg.value)


def _dotted_operands(node: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    """Yield the names and attribute chains in an argument.

    Raises NotApplicable if it contains a call or a subscript.
    """
    if isinstance(node, cst.Name | cst.Attribute) and dotted_name(node):
        if dotted_name(node) not in ("None", "True", "False"):
            yield node
        return
    if isinstance(node, cst.Call | cst.Lambda | cst.Subscript | cst.Await):
        raise NotApplicable("its arguments are more than numbers")
    for child in node.children:
        yield from _dotted_operands(child)


def _is_import(line: cst.SimpleStatementLine) -> bool:
    return any(isinstance(one, cst.Import | cst.ImportFrom) for one in walk(line))

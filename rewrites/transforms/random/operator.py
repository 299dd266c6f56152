"""Operators for calls that draw random numbers, which `torch.compile` calls in program order.

An ordered effect keeps two draws from being merged, dropped or reordered: the stream is that of
eager code, in the default mode, under `fullgraph=True` and under Inductor (seen on torch 2.13).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, names_bound, walk
from fullgraph.rewrites.source import Document, Replacement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.outline import (
    KEPT_IN_ORDER,
    insert_after,
    operator_path,
    set_apart,
)
from fullgraph.rewrites.transforms.random.draws import (
    RandomDraw,
    draw_of,
    find_random_calls,
    int_around,
)

_OPERATOR = """\
@{torch}.library.custom_op("{space}::{path}", mutates_args=())
def {name}({parameters}) -> {torch}.Tensor:
    return {torch}.tensor({call}, dtype={torch}.{dtype})


{name}.register_fake(lambda {fake}: {torch}.empty({shape}, dtype={torch}.{dtype}))
"""
_DISTRIBUTIONS = dict.fromkeys(("rand", "random", "random_sample", "ranf"), "uniform")
"""Names of distributions that differ from those of the functions."""
Definitions = Sequence[cst.BaseStatement]


def define_draw_operator(
    site: Site, draw: RandomDraw, dtype: str, tensors: Collection[cst.CSTNode] = ()
) -> tuple[cst.BaseExpression, Definitions]:
    """Return a call that replaces `draw.value`, and the definitions of the operator it calls.

    `_draw_lam(a)` replaces `np.random.beta(a, a)` in `lam = np.random.beta(a, a)`, and returns a
    tensor of `dtype`: without dimensions, or of the size `draw.count`. `tensors` are the names that
    become tensors without dimensions. Raises NotApplicable if another argument is not an int or a
    float.
    """
    document = site.document
    torch = document.torch
    operator_name = _operator_name(site, draw.call)
    path = operator_path(document, operator_name)
    if path is None:
        raise NotApplicable("an operator cannot be named after this file")
    arguments_by_name: dict[str, cst.BaseExpression] = {}
    edits: dict[cst.CSTNode, Replacement] = {}
    parameters = []
    for read in _operands(site, draw.value):
        seen = site.observed(read)
        kind = seen.types[0] if seen is not None and len(seen.types) == 1 else ""
        is_tensor = read in tensors
        if kind not in ("int", "float"):
            raise NotApplicable(f"`{document.code(read)}` cannot be handed to an operator")
        known = next((n for n, node in arguments_by_name.items() if node.deep_equals(read)), "")
        name = known or dotted_name(read).rpartition(".")[2].strip("_") or "n"
        if not known and name in arguments_by_name:
            raise NotApplicable("two of its arguments have one name")
        edits[read] = cst.parse_expression(f"{kind}({name})" if is_tensor else name)
        if not known:
            arguments_by_name[name] = read
            kind = f"{torch}.Tensor" if is_tensor else "float" if draw.is_float else kind
            parameters.append(f"{name}: {kind}")
    body = replace_nodes(draw.value, edits) if edits else draw.value
    size = replace_nodes(draw.count, edits) if draw.count is not None else None
    text = (_OPERATOR + KEPT_IN_ORDER).format(
        torch=torch,
        space=path[0],
        path=path[1],
        dtype=dtype,
        name=operator_name,
        parameters=", ".join(parameters),
        call=cst.Module([]).code_for_node(body),
        fake="*args" if size is None else ", ".join(arguments_by_name) or "*args",
        shape="()" if size is None else f"({cst.Module([]).code_for_node(size)},)",
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
    parent = site.document.parent(int_around(site, call) or call)
    if isinstance(parent, cst.IfExp):
        parent = site.document.parent(parent)
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name.strip("_").lower()
    name = site.callee_name(call).rpartition(".")[2]
    return _DISTRIBUTIONS.get(name, name)


def _operands(site: Site, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the numbers that the arguments of a call are made of.

    Raises NotApplicable if an argument is starred, or contains a call or a subscript that gives
    anything but an int.
    """
    for arg in call.args:
        if arg.star:
            raise NotApplicable("its arguments are not spelled out")
        yield from _operands_of(site, arg.value)


def _operands_of(site: Site, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield names, attribute chains, calls and subscripts of numbers; see `_operands`."""
    match node:
        case cst.Name() | cst.Attribute() if dotted_name(node):
            if dotted_name(node) not in ("None", "True", "False"):
                yield node
        case cst.Call() if site.callee_name(node) == "range" or draw_of(site, node) is not None:
            yield from _operands(site, node)
        case cst.Call() | cst.Subscript():
            seen = site.observed(node)
            if seen is None or seen.types != ("int",):
                raise NotApplicable("its arguments are more than numbers")
            yield node
        case cst.Lambda() | cst.Await():
            raise NotApplicable("its arguments are more than numbers")
        case _:
            for child in node.children:
                yield from _operands_of(site, child)


def _is_import(line: cst.SimpleStatementLine) -> bool:
    return any(isinstance(one, cst.Import | cst.ImportFrom) for one in walk(line))

"""Operators for calls that draw random numbers, which `torch.compile` calls in program order.

An ordered effect keeps two draws from being merged, dropped or reordered: the stream is that of
eager code, in the default mode, under `fullgraph=True` and under Inductor (seen on torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, walk
from fullgraph.rewrites.source import Document, Replacement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.outline import insert_after, set_apart
from fullgraph.rewrites.transforms.random.draws import RandomDraw, find_random_calls

_DECORATOR = '''\
def {name}(dtype):
    """Make a function that draws a number an operator: torch.compile calls it in its turn."""

    def make(function):
        name = f"{{function.__module__}}::{{function.__name__}}".replace(".", "_")
        op = {torch}.library.custom_op(name, function, mutates_args=())
        op.register_fake(lambda *args: {torch}.empty((), dtype=dtype))
        op.register_effect({torch}.library.EffectType.ORDERED)
        return op

    return make
'''
_OPERATOR = """\
@{maker}({torch}.{dtype})
def {name}({parameters}) -> {torch}.Tensor:
    return {torch}.tensor({call}, dtype={torch}.{dtype})
"""
Definitions = Sequence[cst.BaseStatement]


def define_draw_operator(site: Site, draw: RandomDraw) -> tuple[cst.BaseExpression, Definitions]:
    """Return a call that replaces `draw.call`, and the definitions of the operator it calls.

    `_draw_forward(n)` replaces `random.randint(0, n)` in `forward`. Raises NotApplicable if an
    argument is not an int or a float.
    """
    document = site.document
    torch = document.imported_name("torch") or "torch"
    decorator = _find_decorator(document)
    maker = decorator.name.value if decorator is not None else "drawing_op"
    operator_name = _operator_name(site, draw.call)
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
    text = _OPERATOR.format(
        maker=maker,
        torch=torch,
        dtype=draw.dtype,
        name=operator_name,
        parameters=", ".join(parameters),
        call=cst.Module([]).code_for_node(body),
    )
    definitions = [set_apart(cst.parse_statement(text))]
    if decorator is None:
        source = _DECORATOR.format(name=maker, torch=torch)
        definitions.insert(0, set_apart(cst.parse_statement(source)))
    arguments = ", ".join(document.code(one) for one in arguments_by_name.values())
    return cst.parse_expression(f"{operator_name}({arguments})"), definitions


def add_definitions(
    document: Document, edits: dict[cst.CSTNode, Replacement], definitions: Definitions
) -> dict[cst.CSTNode, Replacement]:
    """Return `edits` with the definitions inserted after the imports of the file.

    Raises NotApplicable if the file imports nothing.
    """
    body = document.module.body
    imports = [one for one in body if isinstance(one, cst.SimpleStatementLine) and _is_import(one)]
    if not imports:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return insert_after(document, imports[-1], definitions, edits)


def _find_decorator(document: Document) -> cst.FunctionDef | None:
    """Return the function of the file that has the source of the decorator; None if none has."""
    torch = document.imported_name("torch") or "torch"
    for one in document.module.body:
        if isinstance(one, cst.FunctionDef):
            text = _DECORATOR.format(name=one.name.value, torch=torch)
            if document.code(one).strip() == text.strip():
                return one
    return None


def _operator_name(site: Site, call: cst.Call) -> str:
    """Return an unused name for the operator that replaces `call`.

    Draws in functions of the same name get different names.
    """
    document = site.document
    function = document.function_name(call)
    same = [
        one
        for one in find_random_calls(site, document.module)
        if document.function_name(one) == function
    ]
    number = next(i for i, one in enumerate(same, 1) if one is call)
    base = f"_draw_{function.strip('<>_') or 'number'}"
    return document.unused_name(base if number == 1 else f"{base}_{number}")


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

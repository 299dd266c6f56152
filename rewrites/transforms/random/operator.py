"""Calls that draw random numbers as operators, which `torch.compile` calls in their turn.

An ordered effect keeps two draws from being merged, dropped or exchanged: the stream is that of
eager code, in the default mode, under `fullgraph=True` and under Inductor (seen on torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis import NotApplicable, Site, walk
from fullgraph.rewrites.source import Document, Replacement, dotted_name, replace_nodes
from fullgraph.rewrites.transforms.random.draws import Draw, drawing

_DECORATOR = '''\
def {maker}(dtype):
    """Make a function that draws a number an operator: torch.compile calls it in its turn."""

    def make(function):
        name = f"{{function.__module__}}::{{function.__name__}}".replace(".", "_")
        op = {torch}.library.custom_op(name, function, mutates_args=())
        op.register_fake(lambda *args: {torch}.empty((), dtype=dtype))
        op.register_effect({torch}._library.effects.EffectType.ORDERED)
        return op

    return make
'''
_OPERATOR = """\
@{maker}({torch}.{dtype})
def {name}({parameters}) -> {torch}.Tensor:
    return {torch}.tensor({call}, dtype={torch}.{dtype})
"""
Definitions = list[cst.BaseStatement]


def operator(site: Site, draw: Draw) -> tuple[cst.BaseExpression, Definitions]:
    """The call of an operator that draws the number, and what must be defined for it."""
    document = site.document
    torch = document.spelling("torch") or "torch"
    maker = _maker(document, torch)
    called = _name(site, draw.call)
    given: dict[str, cst.BaseExpression] = {}
    edits: dict[cst.CSTNode, Replacement] = {}
    parameters = []
    for read in _reads(site, draw.call):
        seen = site.seen(read)
        kind = seen.types[0] if seen is not None and len(seen.types) == 1 else ""
        if kind not in ("int", "float"):
            raise NotApplicable(f"`{document.code(read)}` cannot be handed to an operator")
        stem = dotted_name(read).rpartition(".")[2].strip("_")
        known = next(
            (n for n, node in given.items() if dotted_name(node) == dotted_name(read)), None
        )
        if known is None and stem in given:
            raise NotApplicable("two of its arguments have one name")
        edits[read] = cst.Name(stem)
        if known is None:
            given[stem] = read
            parameters.append(f"{stem}: {kind}")
    body = replace_nodes(draw.call, edits) if edits else draw.call
    text = _OPERATOR.format(
        maker=maker or "drawing_op",
        torch=torch,
        dtype=draw.dtype,
        name=called,
        parameters=", ".join(parameters),
        call=cst.Module([]).code_for_node(body),
    )
    definitions = [_apart(cst.parse_statement(text))]
    if maker is None:
        source = _DECORATOR.format(maker="drawing_op", torch=torch)
        definitions.insert(0, _apart(cst.parse_statement(source)))
    arguments = ", ".join(document.code(one) for one in given.values())
    return cst.parse_expression(f"{called}({arguments})"), definitions


def defined(
    document: Document, edits: dict[cst.CSTNode, Replacement], definitions: Definitions
) -> dict[cst.CSTNode, Replacement]:
    """`edits` with the definitions put behind the imports of the file."""
    body = document.module.body
    imports = [one for one in body if isinstance(one, cst.SimpleStatementLine) and _imports(one)]
    if not imports:
        raise NotApplicable("the file imports nothing, so there is no place for an operator")
    return {imports[-1]: cst.FlattenSentinel([imports[-1], *definitions]), **edits}


def _name(site: Site, call: cst.Call) -> str:
    """A free name; draws in functions of one name get different ones, to be edited together."""
    document = site.document
    function = document.function_name(call)
    same = [
        one for one in drawing(site, document.module) if document.function_name(one) == function
    ]
    number = next(i for i, one in enumerate(same, 1) if one is call)
    base = f"_draw_{function.strip('_')}"
    return document.unused_name(base if number == 1 else f"{base}_{number}")


def _reads(site: Site, call: cst.Call) -> Iterator[cst.Name | cst.Attribute]:
    """The names and paths of attributes in the arguments of a call."""
    for arg in call.args:
        if arg.star:
            raise NotApplicable("its arguments are not spelled out")
        yield from _paths(arg.value)


def _paths(node: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    if isinstance(node, cst.Name | cst.Attribute) and dotted_name(node):
        if dotted_name(node) not in ("None", "True", "False"):
            yield node
        return
    if isinstance(node, cst.Call | cst.Lambda | cst.Subscript | cst.Await):
        raise NotApplicable("its arguments are more than numbers")
    for child in node.children:
        yield from _paths(child)


def _maker(document: Document, torch: str) -> str | None:
    """What the decorator is called that an earlier edit put into this file."""
    for one in document.module.body:
        if isinstance(one, cst.FunctionDef):
            text = _DECORATOR.format(maker=one.name.value, torch=torch)
            if document.code(one).strip() == text.strip():
                return one.name.value
    return None


def _imports(line: cst.SimpleStatementLine) -> bool:
    return any(isinstance(one, cst.Import | cst.ImportFrom) for one in walk(line))


def _apart(definition: cst.CSTNode) -> cst.BaseStatement:
    """A definition with two empty lines before it."""
    empty = cst.EmptyLine(indent=False)
    return definition.with_changes(leading_lines=(empty, empty))  # type: ignore[return-value]

"""Lines of a function that differ in their first text alone, and so share one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import Site, find_all
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Document, replace_nodes
from fullgraph.rewrites.transforms.outline.free_variables import find_operator_parameters
from fullgraph.rewrites.transforms.outline.operator import Statement
from fullgraph.rewrites.transforms.outline.output_calls import call_of

MESSAGE = "message"
"""Name of the operator's parameter for the text."""


def first_text(statement: cst.CSTNode) -> cst.SimpleString | None:
    """Return the text that a call has as its first argument; None if that is anything else."""
    call = call_of(statement)
    text = call.args[0].value if call is not None and call.args else None
    return text if isinstance(text, cst.SimpleString) else None


def find_lines_alike(
    site: Site, statement: Statement, lines: Iterable[Statement]
) -> list[Statement]:
    """Return the `lines` that differ from `statement` in their first text alone, with itself.

    They are in the same function and need parameters of the same types. They come in the order of
    the source; [] if there is no other one.
    """
    document, form = site.document, _form_of(site, statement)
    if form is None:
        return []
    function = document.function(statement)
    found = [
        one for one in lines if document.function(one) is function and _form_of(site, one) == form
    ]
    found.sort(key=lambda one: document.position(one).line)
    return found if len(found) > 1 else []


def _form_of(site: Site, statement: Statement) -> tuple[str, str] | None:
    """Return the code of a line without its first text, and the types that an operator takes."""
    text = first_text(statement)
    if text is None or find_all(statement, m.Name(MESSAGE)):
        return None
    parameters = find_operator_parameters(site, [statement])
    if isinstance(parameters, Refusal):
        return None
    plain = replace_nodes(statement, {text: cst.Name(MESSAGE)})
    code = cst.Module([]).code_for_node(plain.with_changes(leading_lines=()))
    return code, str([one.form for one in parameters.parameters])


def find_defined_operator(
    document: Document, stem: str, define: Callable[[str], Sequence[cst.BaseStatement]]
) -> str:
    """Return the name of an operator that the file defines as `define(name)` does; "" if none.

    Its name starts with `stem`.
    """
    for one in document.module.body:
        if isinstance(one, cst.FunctionDef) and one.name.value.startswith(f"_{stem}_"):
            new = cst.Module([]).code_for_node(define(one.name.value)[0])
            if document.module.code_for_node(one).strip() == new.strip():
                return one.name.value
    return ""

"""Functions by which eager code does without the subgraphs of `torch.cond` and `torch.while_loop`.

Both compile what they are given whenever eager code calls them, which takes milliseconds.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import NotApplicable, find_all
from fullgraph.rewrites.rule import Rewrite
from fullgraph.rewrites.source import Document, Replacement, replace_nodes
from fullgraph.rewrites.transforms.outline import set_apart
from fullgraph.rewrites.transforms.random.operator import add_definitions

_TEXTS = {
    "cond": '''\
def {name}(condition, if_true, if_false, operands=()):
    """Call torch.cond in compiled code; in eager code, one of the two functions."""
    if {torch}.compiler.is_compiling():
        return {torch}.cond(condition, if_true, if_false, operands)
    return if_true(*operands) if condition else if_false(*operands)
''',
    "while_loop": '''\
def {name}(condition, body, carried):
    """Call torch.while_loop in compiled code; in eager code, loop in Python."""
    if {torch}.compiler.is_compiling():
        return {torch}.while_loop(condition, body, carried)
    while condition(*carried):
        carried = body(*carried)
    return carried
''',
}


def keep_out_of_eager(document: Document, rewrite: Rewrite) -> Rewrite:
    """Return a rewrite whose new calls of `torch.cond` and `torch.while_loop` are compiled only.

    They become calls of functions that are defined below the imports of the file. The rewrite is
    returned as it is if it makes no such calls, or if the file has no imports.
    """
    torch = document.torch
    edits: dict[cst.CSTNode, Replacement] = dict(rewrite.replacements)
    definitions: list[cst.BaseStatement] = []
    for called, template in _TEXTS.items():
        name = document.unused_name(f"_{called}")
        renamed = {old: _rename(new, f"{torch}.{called}", name) for old, new in edits.items()}
        if all(renamed[old] is new for old, new in edits.items()):
            continue
        if known := _find_definition(document, template):
            renamed = {old: _rename(new, f"{torch}.{called}", known) for old, new in edits.items()}
        else:
            text = template.format(name=name, torch=torch)
            definitions.append(set_apart(cst.parse_statement(text)))
        edits = renamed
    if edits == rewrite.replacements:
        return rewrite
    try:
        edits = add_definitions(document, edits, definitions) if definitions else edits
    except NotApplicable:
        return rewrite
    plain = None if rewrite.has_shortcut else rewrite.replacements
    return replace(rewrite, replacements=edits, as_compiled=rewrite.as_compiled or plain)


def is_pasted(document: Document, function: cst.FunctionDef) -> bool:
    """Return whether a function is one of those that `keep_out_of_eager` defines."""
    return any(_has_text(document, function, template) for template in _TEXTS.values())


def _find_definition(document: Document, template: str) -> str:
    """Return the name under which the file defines the function of `template`, or ""."""
    functions = (one for one in document.module.body if isinstance(one, cst.FunctionDef))
    return next((f.name.value for f in functions if _has_text(document, f, template)), "")


def _has_text(document: Document, function: cst.FunctionDef, template: str) -> bool:
    """Return whether a function has the text of `template`, under any name."""
    torch = document.torch
    text = template.format(name=function.name.value, torch=torch)
    return document.code(function).strip() == text.strip()


def _rename(new: Replacement, called: str, name: str) -> Replacement:
    """Return new code in which `name` is called in place of `called`; the same object if none."""
    if isinstance(new, cst.FlattenSentinel):
        parts = [_rename(one, called, name) for one in new.nodes]
        if all(part is one for part, one in zip(parts, new.nodes, strict=True)):
            return new
        return cst.FlattenSentinel([one for one in parts if isinstance(one, cst.CSTNode)])
    if not isinstance(new, cst.CSTNode):
        return new
    module, _, attribute = called.rpartition(".")
    function = m.Attribute(value=m.Name(module), attr=m.Name(attribute))
    calls = [cst.ensure_type(one, cst.Call) for one in find_all(new, m.Call(func=function))]
    return replace_nodes(new, {one.func: cst.Name(name) for one in calls}) if calls else new

"""`copy.deepcopy(t)` and `copy.copy(d)` run code that TorchDynamo does not enter.

Before:

    start = copy.deepcopy(x)
    levels = copy.deepcopy(features)
    state = copy.deepcopy(self.state)
    options = copy.copy(self.options)

After:

    start = x.clone()
    levels = [each.clone() for each in features]
    state = _clone_tensors(self.state)
    options = dict(self.options)

Assumes nothing where what is copied was seen to be a dense tensor without gradient, or a plain
`dict` or `list` (`copy.copy` only). Unsafe for lists, tuples and dicts with tensors in them. Where
these hold containers or numbers too, a new function `_clone_tensors` goes through them.

The import of `copy` is removed where nothing else uses it.

Refuses: tensors that ask for a gradient (a deep copy is a new leaf, a clone is not), other
objects, and a `memo` argument.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import NotApplicable, Site
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Document, Replacement, build_expression
from fullgraph.rewrites.transforms.outline import set_apart
from fullgraph.rewrites.transforms.random import add_definitions
from fullgraph.rewrites.transforms.unused_import import remove_unused_import

_CLONES = {
    "list": "[each.clone() for each in {thing}]",
    "tuple": "tuple([each.clone() for each in {thing}])",
    "dict": "{{key: each.clone() for key, each in {thing}.items()}}",
}
"""Templates of deep copies of containers of tensors, by the type of the container."""
_CLONE_TENSORS = '''\
def {name}(value):
    """Return a copy of a container, in which each tensor is cloned."""
    if isinstance(value, {torch}.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {{key: {name}(each) for key, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return type(value)([{name}(each) for each in value])
    return value
'''
_CONSTANTS = {"int", "float", "bool", "str", "NoneType"}


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.callee_name(call) not in (
        "copy.deepcopy",
        "copy.copy",
    ):
        return None
    if len(call.args) != 1 or call.args[0].star:
        return Refusal("it takes more than what is copied")
    found = _rewrite_copy(site, call, call.args[0].value)
    if isinstance(found, Refusal):
        return found
    unused = remove_unused_import(site.document, call)
    return replace(found, replacements={**unused, **found.replacements})


def _rewrite_copy(site: Site, call: cst.Call, thing: cst.BaseExpression) -> Rewrite | Refusal:
    """Return the rewrite of a call that copies `thing`."""
    seen, shallow = site.observed(thing), site.callee_name(call) == "copy.copy"
    if seen is None:
        return Refusal("what is copied is not known")
    if seen.is_tensor:
        if seen.requires_grad or any(t.layout != "strided" for t in seen.tensors):
            return Refusal("a clone of this tensor is no leaf of autograd, and a deep copy is")
        if shallow:
            same = build_expression("{thing}.detach()", thing=thing)
            return Rewrite({call: same}, "`detach` makes another tensor with the same memory.")
        cloned = build_expression("{thing}.clone()", thing=thing)
        return Rewrite({call: cloned}, "`clone` copies a tensor.")
    kind = seen.types[0] if len(seen.types) == 1 else ""
    held = set(seen.items)
    if kind in ("dict", "list") and (shallow or (held and held <= _CONSTANTS)):
        copied = build_expression(f"{kind}({{thing}})", thing=thing)
        return Rewrite({call: copied}, f"`{kind}` makes the same copy, and is traced.")
    if not shallow and kind in _CLONES and held and held <= {"torch.Tensor", *_CONSTANTS, *_CLONES}:
        assumes = "no tensor in it asks for a gradient, or is in it twice"
        why, unsafe = "`clone` copies each tensor.", Applicability.UNSAFE
        if held == {"torch.Tensor"}:
            copied = build_expression(_CLONES[kind], thing=thing)
            return Rewrite({call: copied}, why, unsafe, (assumes,))
        try:
            edits = _clone_nested(site.document, call, thing)
        except NotApplicable as escape:
            return Refusal(str(escape))
        holds = "dicts, lists, tuples, tensors and constants are all that it holds"
        return Rewrite(edits, why, unsafe, (assumes, holds), imports=("torch",))
    return Refusal(
        "only tensors, containers of them, and shallow copies of dicts and lists have a traced form"
    )


def _clone_nested(
    document: Document, call: cst.Call, thing: cst.BaseExpression
) -> dict[cst.CSTNode, Replacement]:
    """Return the edit that copies `thing` by a function that clones the tensors in containers.

    The function is added after the imports, or is the one that an earlier edit added.
    """
    torch = document.torch
    texts = {
        one.name.value: _CLONE_TENSORS.format(name=one.name.value, torch=torch)
        for one in document.module.body
        if isinstance(one, cst.FunctionDef)
    }
    known = (name for name, text in texts.items() if text in document.text)
    name = next(known, "")
    definitions = []
    if not name:
        name = document.unused_name("_clone_tensors")
        text = _CLONE_TENSORS.format(name=name, torch=torch)
        definitions.append(set_apart(cst.parse_statement(text)))
    edits: dict[cst.CSTNode, Replacement] = {
        call: build_expression(f"{name}({{thing}})", thing=thing)
    }
    return add_definitions(document, edits, definitions) if definitions else edits


RULE = Rule(
    "FG801",
    "copy-as-tensor",
    frozenset({Category.COPY.value, Category.SKIPPED.value, Category.CALL.value}),
    rewrite,
)

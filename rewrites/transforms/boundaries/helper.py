"""The smallest helper function around a cause, and its decorator."""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Sequence
from typing import cast

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.events import Position
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    find_all,
    frame_lookup,
    names_bound,
    split_statements,
)
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Document
from fullgraph.rewrites.transforms.boundaries.arguments import (
    OperatorArgument,
    is_stored,
    names_in,
)
from fullgraph.rewrites.transforms.outline import (
    condition_needs_values,
    find_class_scope,
    is_mangled,
    parameters_of,
    tested_operands,
)
from fullgraph.rewrites.transforms.subgraphs import is_pasted

_ENTRIES = ("forward", "__call__", "__init__")
_KEPT = ("staticmethod", "torch.no_grad", "torch.inference_mode")
"""Decorators of a helper, with or without a call, that leave its arguments and results alone."""
_STATIC = m.Name("staticmethod")


def find_helper(site: Site) -> cst.FunctionDef | Refusal | None:
    """Return the function around a site if a decorator can keep Dynamo out of that function.

    If not, return a Refusal with the reason. Return None if the site is outside of all functions.
    """
    document = site.document
    helper = document.function(site.node)
    if helper is None:
        return None
    if not isinstance(helper, cst.FunctionDef):
        return Refusal("no function lies around it")
    name = helper.name.value
    if name in _ENTRIES or not site.in_helper:
        return Refusal(f"it lies in `{name}` itself: move it to a function of its own first")
    around = [one for one in document.ancestors(helper) if not isinstance(one, cst.IndentedBlock)]
    if not all(isinstance(one, cst.ClassDef | cst.Module) for one in around):
        return Refusal(f"`{name}` is made anew inside a function or under a condition")
    if is_pasted(document, helper):
        return Refusal(f"`{name}` calls what it is given, which has the break")
    if _calls_operator(site, helper):
        return Refusal(f"`{name}` calls an operator, whose sizes the data decide")
    for one in helper.decorators:
        if not _may_stay(site, one):
            return Refusal(f"`{name}` has the decorator `@{document.code(one.decorator)}`")
    if helper.asynchronous or find_all(helper.body, m.Yield() | m.Await()):
        return Refusal(f"`{name}` is a generator or a coroutine")
    if lookup := frame_lookup(document, [helper.body]):
        return Refusal(f"`{lookup}` looks at the frames around it, and a boundary adds one")
    return helper


def _may_stay(site: Site, decorator: cst.Decorator) -> bool:
    """Whether a decorator says the same of a helper that becomes a boundary."""
    named = decorator.decorator
    if isinstance(named, cst.Call):
        named = named.func
    return site.document.qualified_name(named) in _KEPT


def find_early_exit(
    site: Site, helper: cst.FunctionDef, cause: Position
) -> cst.BaseExpression | None:
    """Return the condition under which `helper` returns before `cause`; None if there is none.

    Conditions that need the values of a tensor are left out.
    """
    for statement in split_statements(helper.body):
        end = site.document.position(statement).end_line
        if end is None or end >= cause.line:
            return None
        node: cst.CSTNode | None = statement
        while isinstance(node, cst.If) and not condition_needs_values(site, node.test):
            if any(isinstance(one, cst.Return) for one in split_statements(node.body)):
                return node.test
            node = node.orelse
    return None


def call_of_function(
    document: Document, helper: cst.FunctionDef, arguments: Sequence[OperatorArgument]
) -> str | None:
    """Return the code of a call of `helper` that works anywhere in its file: "assign(cost)".

    Methods are called on their class, with None for a `self` that they do not read. None if a
    parameter without a default is not among the `arguments`, or the code of a method means
    something else outside of its class. Raises NotApplicable if that name may do so.
    """
    name, owner = helper.name.value, document.class_around(helper)
    given = {one.code for one in arguments}
    listed, codes, skipped = helper.params, [], False
    if listed.posonly_params:
        return None
    is_method = owner is not None and not is_static(helper)
    for one in (*listed.params, *listed.kwonly_params):
        code = one.name.value
        if is_method and one is listed.params[0]:
            codes.append("None")
            continue
        if code not in given:
            if one.default is None:
                return None
            skipped = True
        else:
            by_name = skipped or one in listed.kwonly_params
            codes.append(f"{code}={code}" if by_name else code)
    if owner is not None:
        if owner not in document.module.body:
            return None
        if is_method and (find_class_scope(document, [helper.body], ()) or not listed.params):
            return None
        if is_mangled(name):
            raise NotApplicable(f"`{name}` has another name outside of its class")
        _check_name(document, owner, given)
        name = f"{owner.name.value}.{name}"
    _check_name(document, helper, given if owner is None else ())
    return f"{name}({', '.join(codes)})"


def _check_name(
    document: Document, definition: cst.FunctionDef | cst.ClassDef, parameters: Collection[str]
) -> None:
    """Raise NotApplicable if an operator with `parameters` finds no `definition` by its name."""
    name, block = definition.name.value, document.parent(definition)
    if name in parameters:
        raise NotApplicable(f"a parameter of the operator would hide `{name}`")
    assert isinstance(block, cst.Module | cst.IndentedBlock)
    declared = m.NameItem(m.Name(name))  # `global name` in a function
    for one in block.body[block.body.index(definition) + 1 :]:
        if name in names_bound(one) or find_all(one, declared):
            raise NotApplicable(f"`{name}` is bound again in line {document.position(one).line}")


def _calls_operator(site: Site, helper: cst.FunctionDef) -> bool:
    """Whether a function returns what a custom operator returns: `return _scale_op(x)`."""
    call = m.Call(func=m.Name(m.MatchIfTrue(lambda name: name.endswith("_op"))))
    returned = find_all(helper.body, m.Return(call))
    return bool(returned) and ".library.custom_op(" in site.document.text


def decorate(
    site: Site, helper: cst.FunctionDef, decorator: str
) -> tuple[dict[cst.CSTNode, cst.CSTNode], tuple[str, ...]]:
    """Return the edit that adds a decorator to the function `helper`, and its assumptions.

    `decorator` is its source without the "@": "torch.compiler.disable". It is the outermost, but
    for `staticmethod`. Raises NotApplicable if TorchScript could no longer compile the function.
    """
    torch, name = site.document.torch, helper.name.value
    assumes: tuple[str, ...] = ()
    if (hidden := _find_hidden_name(site, helper)) is not None:
        if uses_torchscript(site.document):
            raise NotApplicable(f"decorated, `{name}` hides `{hidden}` from `torch.jit.script`")
        assumes = (
            f"nobody passes `{name}` to `torch.jit.script`, which would not find `{hidden}`",
        )
    text = decorator.replace("torch", torch, 1)
    static = [one for one in helper.decorators[:1] if m.matches(one.decorator, _STATIC)]
    new = cst.Decorator(cst.parse_expression(text))
    lines = [*static, new, *helper.decorators[len(static) :]]
    return {helper: helper.with_changes(decorators=lines)}, assumes


def is_static(helper: cst.FunctionDef) -> bool:
    return any(m.matches(one.decorator, _STATIC) for one in helper.decorators)


def uses_torchscript(document: Document) -> bool:
    """Whether a file uses `torch.jit`, so that its functions may be scripted."""
    return bool(re.search(r"\btorch\.jit\b|\btorch import jit\b", document.text))


def _find_hidden_name(site: Site, helper: cst.FunctionDef) -> str | None:
    """Return a global name that a decorator hides from `torch.jit.script`, or None.

    `torch.jit.script` looks names up in the file of the decorator, which imports `torch`. None too
    if the decorators of `helper` hide the name already.
    """
    document = site.document
    if any(not m.matches(one.decorator, _STATIC) for one in helper.decorators):
        return None
    names = names_in(document, helper.body)
    known = {*dir(builtins), "torch", *(one.name.value for one in parameters_of(helper))}
    known |= {one.value for one in names if is_stored(document, one)}
    return next((one.value for one in names if one.value not in known), None)


_VALUES = ("item", "tolist", "nonzero", "numpy", "is_nonzero", "masked_select", "unique")
_NOT_ON_FAKE = ("backward", "deepcopy")
_DRAWS = ("random.", "numpy.random.")


def reads_values(site: Site, helper: cst.FunctionDef) -> str:
    """Return the reason why later calls of `helper` may give other results than its first call.

    "`x.item()` needs the values of a tensor", "`random.random()` draws a number that would stay the
    same", "`x > 0` needs the values of a tensor". "" if `helper` has no such call or condition.
    """
    code = site.document.code
    branches = find_all(helper.body, m.If() | m.While() | m.IfExp() | m.Assert())
    for branch in cast("list[cst.If | cst.While | cst.IfExp | cst.Assert]", branches):
        for condition in tested_operands(branch.test):
            if site.is_tensor(condition):
                return f"`{code(condition)}` needs the values of a tensor"
    for call in find_all(helper.body, m.Call()):
        assert isinstance(call, cst.Call)
        name = site.callee_name(call) or code(call.func)
        if name.rpartition(".")[2] in _VALUES or (
            name.startswith("numpy.") and _on_tensors(site, call)
        ):
            return f"`{code(call)}` needs the values of a tensor"
        if name.rpartition(".")[2] in _NOT_ON_FAKE:
            return f"`{code(call)}` fails on fake tensors"
        if name.startswith(_DRAWS):
            return f"`{code(call)}` draws a number that would stay the same"
    return ""


def _on_tensors(site: Site, call: cst.Call) -> bool:
    seen = [site.observed(arg.value) for arg in call.args]
    return any(one is not None and (one.is_tensor or bool(one.arrays)) for one in seen)

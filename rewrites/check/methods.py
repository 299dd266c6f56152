"""What the syntax of a function shows: its parameters, and the attributes that it sets."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fullgraph.rewrites.analysis import word_set
from fullgraph.rewrites.check.syntax import Scope, dotted, walk

_CHANGING = word_set("""
    __init__ add add_module append extend insert register_buffer register_module register_parameter
    setdefault update
    """)
"""Methods whose call may change an attribute of the object that they are called on."""


@dataclass(frozen=True)
class Signature:
    """Parameters of a function, without `*args` and `**kwargs`."""

    positional: tuple[ast.arg, ...]
    """Parameters that a positional argument can set."""
    parameters: tuple[ast.arg, ...]
    """All parameters."""
    defaults: tuple[tuple[str, ast.expr], ...]
    """Name and default of each parameter that has one."""


def signature_of(node: Scope) -> Signature:
    """Return the parameters of a function."""
    args = node.args
    positional = (*args.posonlyargs, *args.args)
    last = positional[len(positional) - len(args.defaults) :]
    defaults = [(one.arg, default) for one, default in zip(last, args.defaults, strict=True)]
    for one, keyword_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if keyword_default is not None:
            defaults.append((one.arg, keyword_default))
    return Signature(positional, (*positional, *args.kwonlyargs), tuple(defaults))


def first_parameter(function: Scope) -> str:
    """Return the name of the first positional parameter; "" if there is none."""
    args = function.args.posonlyargs + function.args.args
    return args[0].arg if args else ""


def self_writes(function: Scope) -> Iterator[str]:
    """Yield each attribute of `self` that the statements of a method assign or delete."""
    first = first_parameter(function)
    if not first or isinstance(function, ast.Lambda):
        return
    for target in _targets_in(function.body):
        for node in walk(target):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store | ast.Del)
                and isinstance(node.value, ast.Name)
                and node.value.id == first
            ):
                yield node.attr


def _targets_in(body: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield what statements assign or delete, also in the blocks and functions inside."""
    todo = [*body]
    while todo:
        one = todo.pop()
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(one, name, ())
        match one:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from targets
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield target
            case ast.For(target=target) | ast.AsyncFor(target=target):
                yield target
            case ast.With(items=items) | ast.AsyncWith(items=items):
                yield from (item.optional_vars for item in items if item.optional_vars)


def attributes_set_by(function: Scope) -> frozenset[str] | None:
    """Return the attributes of `self` that a method sets; None if it may change other objects."""
    first = first_parameter(function)
    found: set[str] = set()
    for node in walk(function):
        changed: ast.AST | None = None
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                changed = node
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _CHANGING:
                changed = owner
            case ast.Global():
                return None
        if changed is None or (isinstance(changed, ast.Name) and changed.id != first):
            continue  # nothing, or a local variable
        path, _, name = dotted(changed).rpartition(".")
        if path != first:
            return None
        found.add(name)
    return frozenset(found)

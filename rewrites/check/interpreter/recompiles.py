"""Assignments that change state from call to call, so that guards fail."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.machine import Frame
from fullgraph.rewrites.check.interpreter.values import Instance, Literal, Plain, Value
from fullgraph.rewrites.check.project import ClassDefinition
from fullgraph.rewrites.check.syntax import dotted, walk

NUMBERS = frozenset({"int", "float", "bool"})


def construct_of_update(
    kind: ClassDefinition, before: Value | None, after: Value, reads_itself: bool
) -> str:
    """Return the construct of an assignment to an attribute if it causes recompiles; else "".

    An example is "recompile.module_int" for `self.n += 1` in a module. `kind` is the class,
    `before` the attribute's value after `__init__`, `after` the assigned one. `reads_itself` is
    True if `after` is computed from the old value.
    """
    owner = "module" if kind.has_base(["torch.nn.Module"]) or _is_module(kind) else "object"
    if before is not None and _is_none(before) and not _is_none(after):
        return f"recompile.{owner}_none"
    if reads_itself and before is not None:
        for name in ("int", "float"):
            if all(isinstance(o, Plain | Literal) and o.kind == name for o in before):
                return f"recompile.{owner}_{name}"
    return ""


def _is_module(kind: ClassDefinition) -> bool:
    return any(isinstance(one, str) and one.startswith("torch.nn.") for one in kind.order)


def _is_none(value: Value) -> bool:
    return bool(value) and all(isinstance(o, Literal) and o.value is None for o in value)


def reads(node: ast.AST, path: str) -> bool:
    """Return whether an expression reads the variable or attribute `path`, such as "self.n"."""
    return any(
        isinstance(one, ast.Name | ast.Attribute)
        and isinstance(one.ctx, ast.Load)
        and dotted(one) == path
        for one in walk(node)
    )


def is_fresh(frames: list[Frame], path: str) -> bool:
    """Return whether a function on the call stack `frames` has already assigned an attribute.

    `path` is "self.n", for example. Each call of that function then assigns the attribute first, so
    its old value does not matter.
    """
    return any(path.rpartition(".")[2] in frame.stored for frame in frames)


def owners_of(value: Value) -> list[ClassDefinition]:
    """Return the project's classes of which the value may be an instance."""
    return [one.kind for one in value if isinstance(one, Instance)]

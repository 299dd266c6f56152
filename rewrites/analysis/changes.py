"""Changes of tensors in place: by their name, by another name, or in a function that is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from fullgraph.rewrites.analysis.flow import (
    assignment_targets,
    names_bound,
    names_mutated,
    names_read,
)
from fullgraph.rewrites.analysis.purity import is_new_tensor, torch_name
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.analysis.torch_names import PURE_CALLS
from fullgraph.rewrites.source import dotted_name, walk


def may_change(site: Site, names: Iterable[str], statements: Sequence[cst.CSTNode]) -> bool:
    """Return whether statements may change a tensor with one of `names` in place.

    They may do so by another name that they give it, or hand it to a function that is not torch's.
    """
    known = {*names}
    nodes = [one for statement in statements for one in walk(statement)]
    for _ in range(2):  # once more for loops
        for one in nodes:
            known |= _other_names(site, one, known)
    if known & {*names_mutated(*statements)}:
        return True
    return any(_may_be_changed_by(site, one, known) for one in nodes if isinstance(one, cst.Call))


def _other_names(site: Site, node: cst.CSTNode, known: set[str]) -> set[str]:
    """Return the names that a statement gives to what `known` names, or to a part of it."""
    match node:
        case cst.Assign(value=value) if not is_new_tensor(site, value):
            pass
        case cst.For(iter=value) | cst.NamedExpr(value=value):
            pass
        case _:
            return set()
    if not names_read(value) & known:
        return set()
    return {*names_bound(node), *map(dotted_name, assignment_targets(node))} - {""}


def _may_be_changed_by(site: Site, call: cst.Call, known: set[str]) -> bool:
    """Return whether a call may change a tensor that it is given, or that an object holds."""
    out = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "out"]
    if any(names_read(arg.value) & known for arg in out):
        return True
    called = site.callee_name(call)
    if torch_name(site, call) or called in PURE_CALLS or called.startswith(("torch.", "math.")):
        return False
    given = any(dotted_name(arg.value) in known for arg in call.args)
    path = dotted_name(call.func)
    held = path.startswith("self.") and any(name.startswith("self.") for name in known)
    return given or held

"""Code that a flag of Python kept from running."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import libcst as cst

from fullgraph.rewrites.analysis.definitions import Definitions, find_definitions
from fullgraph.rewrites.analysis.site import NotApplicable, Site
from fullgraph.rewrites.source import dotted_name, walk


def skipping_flag(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the test that kept a node from running, such as `self.momentum > 0`.

    That of an `if` around it, or the left side of an `and` or `or`. The test holds attributes of
    `self`, arguments and constants alone. None if there is none.
    """
    around = (node, *site.document.ancestors(node))
    for one, outer in itertools.pairwise(around):
        if isinstance(outer, cst.If) and one is not outer.test:
            test, wanted = outer.test, one is outer.body
        elif isinstance(outer, cst.BooleanOperation) and one is outer.right:
            test, wanted = outer.left, isinstance(outer.operator, cst.And)
        else:
            continue
        seen = site.observed(test)
        if seen is not None and seen.types == ("bool",) and wanted not in seen.values:
            known = find_definitions(site.document, outer)
            return test if known and _is_setting(site, known, test) else None
    return None


def _is_setting(site: Site, known: Definitions, value: cst.BaseExpression) -> bool:
    """Return whether an expression holds attributes of `self`, arguments and constants alone."""
    for one in walk(value):
        if isinstance(one, cst.Call | cst.Subscript):
            return False
        if isinstance(one, cst.Name) and not _is_attribute(site, one):
            for binding in known.reaching.get(one, ()):
                if not isinstance(binding, cst.Param) and not _binds_setting(site, known, binding):
                    return False
    return True


def _binds_setting(site: Site, known: Definitions, binding: cst.CSTNode) -> bool:
    """Return whether a name is bound to an attribute of `self` or to a constant."""
    match site.document.parents.get(binding):
        case cst.Param():
            return True
        case cst.AssignTarget() as target:
            assign = site.document.parent(target)
            return isinstance(assign, cst.Assign) and (
                dotted_name(assign.value).startswith("self.")
                or isinstance(assign.value, cst.BaseNumber)
            )
    return False


def _is_attribute(site: Site, name: cst.Name) -> bool:
    parent = site.document.parent(name)
    return isinstance(parent, cst.Attribute) and parent.attr is name


def follow_or_assume(
    site: Site, use: cst.CSTNode, state: object, follow: Callable[[], None]
) -> str:
    """Call `follow`, which follows a use of a number; return what it takes for granted, or "".

    Where it raises NotApplicable in code that a flag kept from running, the collections that
    `state` holds are as before, and the code is said to take a tensor. Else it is raised again.
    """
    held = [one for one in vars(state).values() if isinstance(one, dict | list | set)]
    before = [copy.copy(one) for one in held]
    try:
        follow()
    except NotApplicable:
        flag = skipping_flag(site, use)
        if flag is None:
            raise
        for one, old in zip(held, before, strict=True):
            one.clear()
            (one.extend if isinstance(one, list) else one.update)(old)
        return f"what `{site.document.code(flag)}` kept from running takes a tensor"
    return ""

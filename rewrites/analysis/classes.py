"""Classes of attributes and callees of calls, from the source."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis.flow import assignment_targets, walk
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.source import dotted_name


def class_of(site: Site, node: cst.BaseExpression) -> str:
    """Return the class of an expression's value, from the run or else from `__init__`.

    "torch.nn.modules.linear.Linear" or "torch.nn.Linear"; the bare name for a class of the same
    file; "" if unknown.
    """
    seen = site.observed(node)
    if seen is not None and len(seen.types) == 1:
        kind = seen.types[0]
        if kind not in ("function", "method", "builtin_function_or_method", "type"):
            return kind if kind.startswith("torch.") else kind.rpartition(".")[2]
        return ""
    made = constructor_call(site, node)
    return site.document.qualified_name(made.func) if made is not None else ""


def constructor_call(site: Site, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call assigned to `self.x` for a node `self.x`, if the class has only one."""
    path = dotted_name(node)
    owner = _class_around(site, node)
    if owner is None or not path.startswith("self."):
        return None
    found = [
        one
        for one in walk(owner)
        if isinstance(one, cst.Assign | cst.AnnAssign)
        and path in map(dotted_name, assignment_targets(one))
        and isinstance(one.value, cst.Call)
    ]
    value = found[0].value if len(found) == 1 else None
    return value if isinstance(value, cst.Call) else None


def buffer_value(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that the class registers as the buffer `node`."""
    path = dotted_name(node)
    owner = _class_around(site, node)
    calls = [one for one in walk(owner) if isinstance(one, cst.Call)] if owner is not None else []
    for call in calls:
        match call:
            case cst.Call(
                func=cst.Attribute(value=cst.Name("self"), attr=cst.Name("register_buffer")),
                args=[
                    cst.Arg(value=cst.SimpleString() as title),
                    cst.Arg(value=tensor),
                    *_,
                ],
            ) if path == f"self.{title.raw_value}":
                return tensor
    return None


def default_value(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the default of a parameter, or of an attribute that is set from a parameter."""
    path = dotted_name(node)
    if not path.startswith("self."):
        return _default_of(site.document.function(node), path)
    owner = _class_around(site, node)
    for one in walk(owner) if owner is not None else ():
        if isinstance(one, cst.Assign) and path in map(dotted_name, assignment_targets(one)):
            values = list(_tuple_elements(one.value))
            places = [dotted_name(target) for target in assignment_targets(one)]
            if len(one.targets) > 1 or len(values) != len(places):
                return None
            value = values[places.index(path)]
            return (
                _default_of(site.document.function(one), dotted_name(value))
                if dotted_name(value)
                else value
            )
    return None


def numeric_attribute(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the first literal assigned to an attribute, if all its values are literals."""
    path = dotted_name(node)
    owner = _class_around(site, node) if path.startswith("self.") else None
    values = []
    for one in walk(owner) if owner is not None else ():
        if isinstance(one, cst.Assign | cst.AnnAssign) and path in map(
            dotted_name, assignment_targets(one)
        ):
            found = list(_tuple_elements(one.value)) if one.value is not None else []
            places = [dotted_name(target) for target in assignment_targets(one)]
            values.append(found[places.index(path)] if len(found) == len(places) else None)
    numbers = [one for one in values if isinstance(one, cst.Integer | cst.Float)]
    return numbers[0] if numbers and len(numbers) == len(values) else None


def _tuple_elements(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the elements of a tuple or list; any other expression itself."""
    if isinstance(node, cst.Tuple | cst.List):
        yield from (element.value for element in node.elements)
    else:
        yield node


def _default_of(function: cst.CSTNode | None, parameter: str) -> cst.BaseExpression | None:
    """Return the default of a function's parameter; None without one."""
    found = (
        [one for one in walk(function.params) if isinstance(one, cst.Param)]
        if isinstance(function, cst.FunctionDef)
        else []
    )
    return next((one.default for one in found if one.name.value == parameter), None)


def called_function(site: Site, call: cst.Call) -> cst.FunctionDef | None:
    """Return the function of this file that is called: `helper(x)` or `self.helper(x)`."""
    path = dotted_name(call.func)
    if "." not in path:
        return _function_named(site.document.module, path)
    owner = _class_around(site, call)
    base, _, last = path.rpartition(".")
    return _function_named(owner.body, last) if owner is not None and base == "self" else None


def method_of_class(site: Site, kind: str, called: str) -> cst.FunctionDef | None:
    """Return a method of a class of this file."""
    for one in site.document.module.body:
        if isinstance(one, cst.ClassDef) and one.name.value == kind:
            return _function_named(one.body, called)
    return None


def _class_around(site: Site, node: cst.CSTNode) -> cst.ClassDef | None:
    """Return the class around a node."""
    around = site.document.ancestors(node)
    return next((one for one in around if isinstance(one, cst.ClassDef)), None)


def _function_named(block: cst.Module | cst.BaseSuite, called: str) -> cst.FunctionDef | None:
    """Return the function `called` in a block; None if it is defined twice or not at all."""
    found = [
        one for one in block.body if isinstance(one, cst.FunctionDef) and one.name.value == called
    ]
    return found[0] if len(found) == 1 else None

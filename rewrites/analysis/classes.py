"""Classes of attributes and callees of calls, from the source."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.rewrites.analysis.flow import assignment_targets
from fullgraph.rewrites.analysis.site import Site
from fullgraph.rewrites.source import dotted_name, walk


def class_of(site: Site, node: cst.BaseExpression) -> str:
    """Return the class name of an expression's value: as observed, else as constructed.

    "torch.nn.modules.linear.Linear" (observed) or "torch.nn.Linear" (from the call assigned to the
    attribute); without a module for a class of the same file; "" if unknown.
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
    """Return `Linear(2, 3)` for `self.x` (`node`) if the class has `self.x = Linear(2, 3)`.

    Return None unless the class assigns the result of a call to the attribute exactly once.
    """
    path = dotted_name(node)
    owner = site.document.class_around(node)
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


def is_plain_attribute(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether the class assigns to `node` (`self.x`) once, and no parameter or layer.

    A tensor in such an attribute stays on its device when a module is moved.
    """
    made = constructor_call(site, node)
    name = site.document.qualified_name(made.func) if made is not None else ""
    return made is not None and not name.startswith("torch.nn.")


def buffer_value(site: Site, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor that the class registers as the buffer `node` (`self.x`), or None.

    A class of this file that it inherits from may do so, too.
    """
    path = dotted_name(node)
    owners = classes_around(site, node)
    for call in (one for owner in owners for one in walk(owner) if isinstance(one, cst.Call)):
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


def classes_around(site: Site, node: cst.CSTNode) -> list[cst.ClassDef]:
    """Return the class around a node and its base classes in this file, nearest first."""
    owner = site.document.class_around(node)
    known = [one for one in site.document.module.body if isinstance(one, cst.ClassDef)]
    found = [owner] if owner is not None else []
    for one in found:
        bases = {dotted_name(arg.value) for arg in one.bases}
        found += [base for base in known if base.name.value in bases and base not in found]
    return found


def default_value(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the default of a parameter or of an attribute (`self.x`); None if it has none.

    For an attribute, the first assignment in the class counts. After `self.x = x` the result is the
    default of the parameter `x`; after `self.x = 3` it is `3`.
    """
    path = dotted_name(node)
    if not path.startswith("self."):
        return _default_of(site.document.function(node), path)
    owner = site.document.class_around(node)
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
    """Return the first number that the class assigns to the attribute `node` (`self.x`).

    None unless everything that the class assigns to it is a numeric literal.
    """
    path = dotted_name(node)
    owner = site.document.class_around(node) if path.startswith("self.") else None
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
    """Yield the elements of a tuple or list; for any other expression, yield the expression."""
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
    """Return the definition of the function that `helper(x)` or `self.helper(x)` calls.

    None if it is not in this file.
    """
    path = dotted_name(call.func)
    if "." not in path:
        return _function_named(site.document.module, path)
    owner = site.document.class_around(call)
    base, _, last = path.rpartition(".")
    return _function_named(owner.body, last) if owner is not None and base == "self" else None


def method_of_class(site: Site, class_name: str, method: str) -> cst.FunctionDef | None:
    """Return the definition of a method; None if the class or method is not in this file."""
    for one in site.document.module.body:
        if isinstance(one, cst.ClassDef) and one.name.value == class_name:
            return _function_named(one.body, method)
    return None


def _function_named(block: cst.Module | cst.BaseSuite, name: str) -> cst.FunctionDef | None:
    """Return the function `name` of a block; None if it is defined twice or not at all."""
    found = [
        one for one in block.body if isinstance(one, cst.FunctionDef) and one.name.value == name
    ]
    return found[0] if len(found) == 1 else None

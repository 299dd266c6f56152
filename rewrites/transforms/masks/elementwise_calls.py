"""Calls of the project's own functions that work on each element separately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from fullgraph.rewrites.analysis import (
    Definitions,
    Site,
    called_function,
    class_of,
    find_definitions,
    method_of_class,
    split_statements,
)
from fullgraph.rewrites.transforms.masks import operators as ops
from fullgraph.rewrites.transforms.masks.operators import is_option, parse_operation


@dataclass(frozen=True, eq=False)
class ElementwiseCall:
    """Call of a function that only assigns local names and returns."""

    call: cst.Call
    given: dict[cst.CSTNode, cst.BaseExpression]
    """The argument of each parameter, by the node that binds the parameter."""
    assigned: dict[cst.CSTNode, cst.BaseExpression]
    """The value of each local name, by the node that binds it, in order."""
    result: cst.BaseExpression
    known: Definitions

    def binding(self, use: cst.Name) -> cst.CSTNode | None:
        """Return the node that binds a name in the body; None for a global name."""
        found = self.known.reaching.get(use, frozenset())
        return next(iter(found)) if len(found) == 1 else None


def elementwise_call(site: Site, call: cst.Call) -> ElementwiseCall | None:
    """Return a call with the body of its function; None if the body does more than assign."""
    function = called_function(site, call)
    if function is None and (kind := class_of(site, call.func)):
        function = method_of_class(site, kind, "forward")
    if function is None or function.decorators or function.asynchronous is not None:
        return None
    given = _arguments_by_parameter(function, call)
    lines = split_statements(function.body)
    if given is None or not lines or not isinstance(lines[-1], cst.Return):
        return None
    known = find_definitions(site.document, lines[-1])
    assigned: dict[cst.CSTNode, cst.BaseExpression] = {}
    for line in lines[:-1]:
        match line:
            case cst.Expr(value=cst.SimpleString()):
                continue
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                assigned[name] = line.value
            case _:
                return None
    result = lines[-1].value
    if known is None or known.function is not function or result is None:
        return None
    return ElementwiseCall(call, given, assigned, result, known)


def is_elementwise(
    site: Site,
    found: ElementwiseCall,
    selected: Callable[[cst.BaseExpression], bool],
    beside: Callable[[cst.BaseExpression], None],
) -> bool:
    """Return whether each result element depends only on selected elements at its index.

    `selected(argument)` tells whether an argument consists of selected elements. `beside(operand)`
    raises NotApplicable if an operand cannot be combined with them at full shape.
    """
    held = {binding for binding, value in found.given.items() if selected(value)}

    def classify(node: cst.BaseExpression) -> bool | None:
        """Return whether an expression consists of selected elements; None if it mixes elements."""
        match node:
            case cst.Name() if found.binding(node) in held:
                return True
            case cst.BinaryOperation() if not isinstance(node.operator, cst.MatrixMultiply):
                return classify_operands(node.left, node.right)
            case cst.UnaryOperation() if not isinstance(node.operator, cst.Not):
                return classify(node.expression)
            case cst.Comparison(comparisons=[one]):
                if not isinstance(one.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
                    return classify_operands(node.left, one.comparator)
            case cst.Call():
                made = parse_operation(site, node)
                if made is not None and made.name in ops.ELEMENTWISE and not made.in_place:
                    return classify_operands(*(o for o in made.operands if not is_option(made, o)))
        inside = [one for one in _names_in(node) if found.binding(one) in held]
        return None if inside else False

    def classify_operands(*nodes: cst.BaseExpression) -> bool | None:
        """Return whether any node consists of selected elements; None if one mixes elements."""
        answers = [classify(one) for one in nodes]
        if None in answers:
            return None
        if True in answers:
            for one, is_selected in zip(nodes, answers, strict=True):
                if not is_selected:
                    beside(one)
        return True in answers

    for name, value in found.assigned.items():
        answer = classify(value)
        if answer is None:
            return False
        if answer:
            held.add(name)
    return bool(held) and classify(found.result) is True


def _names_in(node: cst.CSTNode) -> list[cst.Name]:
    """Return the names in a node."""
    found = [node] if isinstance(node, cst.Name) else []
    for child in node.children:
        found += _names_in(child)
    return found


def _arguments_by_parameter(
    function: cst.FunctionDef, call: cst.Call
) -> dict[cst.CSTNode, cst.BaseExpression] | None:
    """Return the argument that `call` passes for each parameter of `function`, without defaults.

    The keys are the nodes that bind the parameters. None if the source does not show which argument
    is passed for which parameter, as with `*args`.
    """
    params = function.params
    if params.kwonly_params or params.posonly_params or params.star_kwarg is not None:
        return None
    if isinstance(params.star_arg, cst.Param) or any(arg.star for arg in call.args):
        return None
    names = list(params.params)
    if names and names[0].name.value == "self":
        names = names[1:]
    given: dict[cst.CSTNode, cst.BaseExpression] = {}
    for place, arg in enumerate(call.args):
        key = arg.keyword.value if arg.keyword is not None else ""
        found = [one for one in names if one.name.value == key] if key else names[place:][:1]
        if not found:
            return None
        given[found[0].name] = arg.value
    taken = [one for one in names if one.name not in given]
    return given if all(one.default is not None for one in taken) else None

"""Conditions under which a statement runs the same inside an operator."""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, chain_root, ends_program, find_all, walk, word_set
from fullgraph.rewrites.rule import Refusal
from fullgraph.rewrites.source import Document, dotted_name
from fullgraph.rewrites.transforms.outline.free_variables import (
    OperatorParameter,
    OperatorParameters,
    names_bound_in,
)
from fullgraph.rewrites.transforms.outline.output_calls import is_output_call
from fullgraph.rewrites.transforms.outline.parameter_types import observation_of

_BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "enumerate",
        "float",
        "format",
        "getattr",
        "hasattr",
        "int",
        "isinstance",
        "len",
        "list",
        "max",
        "min",
        "range",
        "repr",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "type",
        "zip",
    ]
)
_RANDOM = re.compile(r"\b(rand\w*|normal|bernoulli|multinomial|manual_seed|dropout\w*|choices?)$")
_CHANGES = re.compile(r"([^_]_|append|extend|insert|pop|update|clear|backward|register_\w+)$")
"""Last names of calls that change an object."""
_WITHOUT_GRADIENT = word_set(
    """
    all allclose any argmax argmin argsort bool count_nonzero data detach device dim dtype eq equal
    ge gt int is_complex is_contiguous is_cuda is_floating_point is_nonzero is_sparse isclose
    isfinite isinf isnan isneginf isposinf item layout le len logical_and logical_not logical_or
    long lt ndim ne nonzero numel shape size stride tolist
    """
)
"""Attributes, methods and functions of a tensor whose value does not tell if it requires grad."""
_OF_GRADIENT = word_set("backward grad grad_fn is_leaf register_hook requires_grad retains_grad")
_PASSING = word_set("abs enumerate list max min reversed round sorted sum tuple zip")
"""Builtin functions whose result has the gradients of their arguments."""
_EXCEPTIONS = frozenset(
    name
    for name, one in vars(builtins).items()
    if isinstance(one, type) and issubclass(one, BaseException)
)
_TEXT = _EXCEPTIONS | {"str", "repr", "format"}
_OPERATIONS = (
    cst.BinaryOperation
    | cst.BooleanOperation
    | cst.Element
    | cst.GeneratorExp
    | cst.IfExp
    | cst.List
    | cst.ListComp
    | cst.Subscript
    | cst.Tuple
    | cst.UnaryOperation
)
"""Expressions with the gradients of their parts."""
_REDUCTION = re.compile(r"\.(mean|sum|max|min|std|var|norm)\(\)$")
"""Reductions to a 0-d tensor, which an f-string shows as a number."""


def find_outlining_refusal(
    site: Site, statement: cst.CSTNode, records: Collection[str] = ()
) -> Refusal | None:
    """Return why a statement cannot run apart from its function; None if it can.

    It may assign to the attributes `records`, "self.history", and append to them.
    """
    flow = m.Return() | m.Break() | m.Continue() | m.Await() | m.Yield() | m.Del()
    if find_all(statement, flow | m.Global() | m.Nonlocal()):
        return Refusal("it does more than report: control goes on elsewhere")
    targets = m.AssignTarget(target=~m.Name()) | m.AugAssign(target=~m.Name())
    changed = find_all(statement, targets)
    if any(dotted_name(getattr(one, "target", one)) not in records for one in changed):
        return Refusal("it changes an object")
    if any(isinstance(one, cst.Raise) and one.exc is None for one in _nodes_in(statement)):
        return Refusal("it raises what is being handled")
    owners = {name.partition(".")[0] for name in records}
    if names := _names_used_elsewhere(site.document, statement) - owners:
        return Refusal(f"`{min(names)}` is used after it")
    return find_call_refusal(site, statement, records)


def find_call_refusal(
    site: Site, statement: cst.CSTNode, records: Collection[str] = ()
) -> Refusal | None:
    """Return which call of a statement draws random numbers or changes an object; else None.

    The statement may append to the attributes `records`.
    """
    for call in _calls_in(statement):
        name = site.callee_name(call) or site.document.code(call.func)
        if _RANDOM.search(name):
            return Refusal(f"`{name}` draws random numbers")
        recorded = isinstance(call.func, cst.Attribute) and dotted_name(call.func.value) in records
        if _CHANGES.search(name) and not (recorded or is_output_call(site, call)):
            return Refusal(f"`{name}` changes an object")
    return None


def outlining_assumptions(
    site: Site, statements: Sequence[cst.CSTNode], parameters: OperatorParameters
) -> list[str]:
    """Return the assumptions under which the operator behaves like the statements.

    ["`self.log` changes nothing"]; [] if it certainly does.
    """
    callees = (name for one in statements for name in _impure_callees(site, one, parameters))
    found = [f"`{name}` changes nothing" for name in dict.fromkeys(callees)]
    observed = [one.seen for one in parameters.parameters if one.seen is not None]
    tensors = [tensor for seen in observed for tensor in seen.tensors]
    if any(tensor.device != "cpu" for tensor in tensors):
        found.append("the compiled graph is not captured as a CUDA graph")
    for one in parameters.parameters:
        if one.seen is not None and (_is_list(one) or _has_autograd_text(one.seen)):
            found += _gradient_clauses(site, statements, one)[:1]
    return found


def detachable(
    site: Site, statements: Sequence[cst.CSTNode], parameters: OperatorParameters
) -> list[OperatorParameter]:
    """Return the floating-point tensors whose gradient the statements neither show nor ask for.

    A detached tensor may go into a custom operator under `torch.func.grad`, too.
    """
    return [
        one
        for one in parameters.parameters
        if "torch.Tensor" in one.form.annotation
        and one.seen is not None
        and (_is_list(one) or any(tensor.is_float for tensor in one.seen.tensors))
        and not _gradient_clauses(site, statements, one)
        and not one.code.endswith("()")
        and not (one.code.startswith("self.") and not _has_autograd_text(one.seen))  # a buffer
    ]


def detach(parameter: OperatorParameter) -> str:
    """Return the code of an argument without its gradient: "x.detach()"."""
    code = parameter.code
    if _is_list(parameter):
        return f"[tensor.detach() for tensor in {code}]"
    optional = "None" in parameter.form.annotation
    return f"{code}.detach() if {code} is not None else None" if optional else f"{code}.detach()"


def _is_list(parameter: OperatorParameter) -> bool:
    """Whether an argument is a list of tensors, of which it was not seen if they require grad."""
    return parameter.form.annotation == "list[torch.Tensor]"


EXCEPTION_CAUGHT = "what it raises is handled by a `try` that would be compiled with it"
"""The reason against moving code of which `is_exception_caught`."""


def is_exception_caught(document: Document, statement: cst.CSTNode) -> bool:
    """Whether a `try` of this file may handle an exception that the statement raises."""
    function = document.function(statement)
    name = function.name.value if isinstance(function, cst.FunctionDef) else ""
    callers = [
        one
        for one in document.ranges
        if isinstance(one, cst.Call)
        and name not in ("", "forward", "__init__")
        and dotted_name(one.func).rpartition(".")[2] == name
    ]
    return any(
        isinstance(around, cst.Try | cst.TryStar) and bool(around.handlers or around.finalbody)
        for place in (statement, *callers)
        for around in _ancestors_in_function(document, place)
    )


def uses_function_transforms(document: Document) -> bool:
    """Whether this file uses function transforms such as `torch.func.vmap`."""
    return bool(re.search(r"\b(vmap|functorch|torch\.func)\b", document.text))


def changes_object_before(document: Document, statement: cst.CSTNode) -> bool:
    """Whether the function changes an object before the statement.

    A compiled graph loses that change if the statement raises.
    """
    function = document.function(statement)
    if function is None:
        return False
    changes = m.AssignTarget(target=m.Attribute() | m.Subscript()) | m.AugAssign(
        target=m.Attribute() | m.Subscript()
    )
    line = document.position(statement).line
    found = [*find_all(function, changes)]
    found += [
        call
        for call in _calls_in(function)
        if _CHANGES.search(document.code(call.func).split("(")[-1])
    ]
    return any(document.position(one).line < line for one in found)


def _ancestors_in_function(document: Document, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the ancestors of a node inside its function."""
    for one in document.ancestors(node):
        if isinstance(one, cst.FunctionDef | cst.Lambda):
            return
        yield one


def _names_used_elsewhere(document: Document, statement: cst.CSTNode) -> set[str]:
    """Return the names that the statement binds and that other code of its function uses."""
    function = document.function(statement)
    loops = [one.target for one in walk(statement) if isinstance(one, cst.CompFor)]
    inner = {n.value for one in loops for n in walk(one) if isinstance(n, cst.Name)}
    bound = names_bound_in(statement) - inner
    if function is None or not bound:
        return set()
    own = {id(name) for name in walk(statement)}
    others = [one for one in walk(function) if isinstance(one, cst.Name) and id(one) not in own]
    return bound & {name.value for name in others}


def _impure_callees(
    site: Site, statement: cst.CSTNode, parameters: OperatorParameters
) -> list[str]:
    """Return the source of functions that the statement calls and that may have side effects.

    Methods of the operator's `parameters` count as pure.
    """
    found = []
    for call in _calls_in(statement):
        name = site.callee_name(call)
        root = chain_root(call.func)
        known = (
            is_output_call(site, call)
            or isinstance(site.document.parent(call), cst.Raise)
            or ends_program(site.document, call)
            or name in _BUILTINS | _EXCEPTIONS
            or name.startswith(("torch.", "math.", "numpy.", "str."))
            or not isinstance(root, cst.Name)
            or (isinstance(call.func, cst.Attribute) and _is_input(site, root, parameters))
            or (isinstance(call.func, cst.Attribute) and root.value in names_bound_in(statement))
        )
        if not known:
            found.append(site.document.code(call.func))
    return list(dict.fromkeys(found))


def _is_input(site: Site, root: cst.Name, parameters: OperatorParameters) -> bool:
    """Whether the operator gets the variable `root` or an attribute of it, such as `self.eps`."""
    chains = {one.code.partition(".")[0] for one in parameters.parameters}
    return root.value in chains


def _gradient_clauses(
    site: Site, statements: Sequence[cst.CSTNode], parameter: OperatorParameter
) -> list[str]:
    """Return what to assume where statements tell whether a tensor requires grad; [] if nowhere."""
    nodes = [
        one
        for statement in statements
        for one in walk(statement)
        if isinstance(one, cst.Name | cst.Attribute)
    ]
    clauses: list[str] = []
    left = [one for one in nodes if site.document.code(one) == parameter.code]
    for node in left:
        clause, names = _follow_gradient(site, node)
        clauses += [clause] if clause else []
        left += [o for o in nodes if site.document.code(o) in names and o not in left]
    return clauses


def _follow_gradient(site: Site, node: cst.CSTNode) -> tuple[str, set[str]]:
    """Follow a tensor outwards to what it is computed, assigned or shown as.

    Return what to assume if that tells whether the tensor requires grad ("" if it does not), and
    the names that are bound to a value with the same gradient.
    """
    document, parent = site.document, site.document.parent(node)
    shown = f"`{document.code(node)}` may be shown without its `grad_fn=`"
    match parent:
        case cst.Attribute(value=value, attr=name) if value is node:
            if name.value in _OF_GRADIENT:
                return f"`{document.code(parent)}` may be that of a detached tensor", set()
            if name.value in _WITHOUT_GRADIENT:
                return "", set()
            call = document.parent(parent)
            return _follow_gradient(site, call if isinstance(call, cst.Call) else parent)
        case (
            cst.Attribute()
            | cst.Comparison()
            | cst.ComparisonTarget()
            | cst.If()
            | cst.AssignTarget()
        ):
            return "", set()
        case cst.Assert(test=test) | cst.IfExp(test=test) if test is node:
            return "", set()
        case cst.UnaryOperation(operator=cst.Not()):
            return "", set()
        case cst.FormattedStringExpression(conversion=None) if _is_number(site, parent):
            return "", set()
        case cst.BinaryOperation(operator=cst.Modulo(), right=right) if right is node:
            return shown, set()
        case _ if isinstance(parent, _OPERATIONS):
            return _follow_gradient(site, parent)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return "", {name}
        case cst.CompFor(target=target):
            return "", {one.value for one in walk(target) if isinstance(one, cst.Name)}
        case cst.Arg():
            call = cst.ensure_type(document.parent(parent), cst.Call)
            name = site.callee_name(call) or document.code(call.func)
            last = name.rpartition(".")[2]
            is_method = isinstance(call.func, cst.Attribute) and site.is_tensor(call.func.value)
            known = is_method or name in _BUILTINS or name.startswith(("torch.", "math."))
            if known and (last in _WITHOUT_GRADIENT or name in ("float", "isinstance")):
                return "", set()
            if name in _TEXT or is_output_call(site, call) or name.endswith(".format"):
                return shown, set()
            if name in _PASSING or (known and name not in _BUILTINS):
                return _follow_gradient(site, call)
            return f"`{name}` does not ask whether `{document.code(node)}` requires grad", set()
    return shown, set()


def _is_number(site: Site, part: cst.FormattedStringExpression) -> bool:
    """Whether an f-string shows a tensor as a number, which it does without dimensions."""
    node, document = part.expression, site.document
    if part.format_spec or _REDUCTION.search(document.code(node)):
        return True
    seen = observation_of(site, document.statement(node), node)
    parameter = seen is not None and any(one.kind == "Parameter" for one in seen.tensors)
    return seen is not None and seen.dims == {0} and not parameter


def _has_autograd_text(seen: ValueSummary) -> bool:
    """Whether `str()` of a tensor differs between eager and compiled code."""
    return seen.requires_grad or any(one.kind == "Parameter" for one in seen.tensors)


def _calls_in(node: cst.CSTNode) -> list[cst.Call]:
    return [one for one in find_all(node, m.Call()) if isinstance(one, cst.Call)]


def _nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes inside it."""
    yield node
    for child in node.children:
        yield from _nodes_in(child)

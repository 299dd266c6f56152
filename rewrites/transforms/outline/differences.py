"""Conditions under which a statement runs the same inside an operator."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.compiler.facts import ValueSummary
from fullgraph.rewrites.analysis import Site, chain_root, walk
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
_WITHOUT_GRAD_FN = re.compile(
    r"\.(item|tolist|detach|numpy|size|dim|numel|shape|dtype|device|ndim)\b|^len\("
)
"""Expressions whose text shows no `grad_fn`."""
_ASKS_FOR_GRADIENT = re.compile(r"\b(grad|grad_fn|is_leaf|isinstance|requires_grad|type)\b")
_REDUCTION = re.compile(r"\.(mean|sum|max|min|std|var|norm)\(\)$")
"""Reductions to a 0-d tensor, which an f-string shows as a number."""


def find_outlining_refusal(
    site: Site, statement: cst.CSTNode, records: Collection[str] = ()
) -> Refusal | None:
    """Return why a statement cannot run apart from its function; None if it can.

    It may assign to the attributes `records`, "self.history", and append to them.
    """
    flow = m.Return() | m.Break() | m.Continue() | m.Await() | m.Yield() | m.Del()
    if m.findall(statement, flow | m.Global() | m.Nonlocal()):
        return Refusal("it does more than report: control goes on elsewhere")
    targets = m.AssignTarget(target=~m.Name()) | m.AugAssign(target=~m.Name())
    changed = m.findall(statement, targets)
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
    shown = sorted({code for one in statements for code in _expressions_showing_grad(site, one)})
    if shown:
        found.append(f"`{shown[0]}` may be shown without its `grad_fn=`")
    return found


def detachable(
    site: Site, statements: Sequence[cst.CSTNode], parameters: OperatorParameters
) -> list[OperatorParameter]:
    """Return the floating-point tensors whose gradient the statements neither show nor ask for.

    A detached tensor may go into a custom operator under `torch.func.grad`, too.
    """
    if any(_ASKS_FOR_GRADIENT.search(site.document.code(one)) for one in statements):
        return []
    shown = [code for one in statements for code in map(site.document.code, _shown_in(site, one))]
    text = " ".join(code for code in shown if not _WITHOUT_GRAD_FN.search(code))
    return [
        one
        for one in parameters.parameters
        if one.form.annotation == "torch.Tensor"
        and one.seen is not None
        and any(tensor.is_float for tensor in one.seen.tensors)
        and not re.search(rf"(?<![\w.]){re.escape(one.code)}\b", text)
        and not one.code.endswith("()")
    ]


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
    found = [*m.findall(function, changes)]
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
            or name in _BUILTINS
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


def _expressions_showing_grad(site: Site, statement: cst.CSTNode) -> Iterator[str]:
    """Yield the source of each expression that is formatted or printed and may show `grad_fn`."""
    for shown in _shown_in(site, statement):
        code = site.document.code(shown)
        if not _WITHOUT_GRAD_FN.search(code) and _shows_gradient(site, statement, shown):
            yield code


def _shown_in(site: Site, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield each expression that a statement formats or prints, but for formatted numbers."""
    for node in _nodes_in(statement):
        shown = None
        if isinstance(node, cst.FormattedStringExpression):
            number = node.format_spec or _REDUCTION.search(site.document.code(node.expression))
            shown = None if number else node.expression
        elif isinstance(node, cst.Arg) and _converts_to_text(site, site.document.parent(node)):
            shown = node.value
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            shown = node.right
        if shown is not None and not isinstance(shown, cst.FormattedString):
            yield shown


def _converts_to_text(site: Site, call: cst.CSTNode) -> bool:
    """Whether a call converts its arguments to text."""
    if not isinstance(call, cst.Call):
        return False
    if isinstance(site.document.parent(call), cst.Raise) or is_output_call(site, call):
        return True
    return site.callee_name(call).rpartition(".")[2] in ("str", "repr", "format")


def _shows_gradient(site: Site, statement: cst.CSTNode, node: cst.BaseExpression) -> bool:
    """Whether the text of the value of `node`, in `statement`, shows that it requires grad.

    An f-string shows a 0-d tensor as a number, without its gradient.
    """
    seen = observation_of(site, statement, node)
    formatted = isinstance(site.document.parent(node), cst.FormattedStringExpression)
    if seen is None:
        parts = [one for one in walk(node) if isinstance(one, cst.Name | cst.Attribute)]
        facts = [observation_of(site, statement, one) for one in parts]
        return any(one is not None and _has_autograd_text(one) for one in facts)
    return _has_autograd_text(seen) and not (formatted and seen.dims == {0})


def _has_autograd_text(seen: ValueSummary) -> bool:
    """Whether `str()` of a tensor differs between eager and compiled code."""
    return seen.requires_grad or any(one.kind == "Parameter" for one in seen.tensors)


def _calls_in(node: cst.CSTNode) -> list[cst.Call]:
    return [one for one in m.findall(node, m.Call()) if isinstance(one, cst.Call)]


def _nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes inside it."""
    yield node
    for child in node.children:
        yield from _nodes_in(child)

"""`torch.autograd.grad` inside a model ends the graph; `torch.func.vjp` is traced.

Before:

    x = Variable(mixed, requires_grad=True)
    score = self.critic(x)
    slope = autograd.grad(score, x, torch.ones_like(score), create_graph=True)[0]

After:

    x = mixed.detach()

    def score_of(x):
        return self.critic(x)

    score, pullback = torch.func.vjp(score_of, x)
    slope = pullback(torch.ones_like(score))[0]

What leads from the input to the output becomes a local function. Without `create_graph=True` the
gradient is detached; with `create_graph=self.training` it is detached where that is false. The
gradients of parameters go through as before.

Unsafe where the input is used later, which then no longer asks for a gradient.

Refuses: several inputs or outputs; `allow_unused=`; steps whose other results are needed, too, and
steps that change more than local names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.compiler.categories import Category
from fullgraph.rewrites.analysis import (
    Site,
    live_in,
    may_raise,
    names_bound,
    names_mutated,
    names_read,
    side_effect_of,
    statements_after,
    walk,
)
from fullgraph.rewrites.rule import Refusal, Rewrite, Rule
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_expression,
    build_statement,
    dotted_name,
)

_PARAMETERS = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs")
_JUMPS = cst.Return | cst.Break | cst.Continue | cst.Yield | cst.Await | cst.Global | cst.Nonlocal
_WRAPPERS = ("torch.autograd.Variable", "torch.autograd.variable.Variable", "torch.Variable")


@dataclass(frozen=True)
class GradientCall:
    """Arguments of a call of `torch.autograd.grad`."""

    output: cst.BaseExpression
    input: str
    cotangent: cst.BaseExpression | None
    """Value of `grad_outputs=`; None for ones."""
    create_graph: cst.BaseExpression | None
    """Value of `create_graph=`, an expression without side effects; None if not given."""


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    if not isinstance(call, cst.Call) or site.callee_name(call) != "torch.autograd.grad":
        return None
    gradient_call = _parse_gradient_call(site, call)
    if isinstance(gradient_call, Refusal):
        return gradient_call
    line = site.statement
    block = site.document.parent(line)
    if not isinstance(block, cst.IndentedBlock) or not isinstance(line, cst.SimpleStatementLine):
        return Refusal("the call is part of a compound statement")
    before = list(block.body[: block.body.index(line)])
    bound = [
        i
        for i, one in enumerate(before)
        if gradient_call.input in (*names_bound(one), _name_requiring_grad(one))
    ]
    steps = _dependent_statements(before[bound[-1] + 1 if bound else 0 :], gradient_call)
    if not steps:
        return Refusal("the output is not computed in the same block")
    inside = [one for one in before if one not in steps]
    if reason := _refusal_reason(site.document, line, gradient_call, steps, inside):
        return Refusal(reason)
    edits: dict[cst.CSTNode, Replacement] = {one: cst.RemoveFromParent() for one in steps}
    for one in before:
        if (
            gradient_call.input in names_bound(one)
            or _name_requiring_grad(one) == gradient_call.input
        ):
            edits |= _stop_requiring_grad(site, one)
    edits[line] = cst.FlattenSentinel(_vjp_statements(site, line, call, gradient_call, steps))
    later = bool(bound) and gradient_call.input in live_in(statements_after(site.document, line))
    clause = f"`{gradient_call.input}` need not ask for a gradient afterwards"
    return Rewrite(
        edits,
        "`torch.func.vjp` gives the same gradient inside the graph.",
        assumes=(clause,) if later else (),
        imports=("torch",),
    )


def _parse_gradient_call(site: Site, call: cst.Call) -> GradientCall | Refusal:
    """Return the arguments of a `torch.autograd.grad` call.

    The result is a refusal if the call has arguments that the rewrite does not support.
    """
    given: dict[str, cst.BaseExpression] = {}
    for position, arg in enumerate(call.args):
        key = arg.keyword.value if arg.keyword else _PARAMETERS[min(position, 5)]
        if arg.star or key not in _PARAMETERS:
            return Refusal(f"it takes `{arg.star or key}`")
        given[key] = arg.value
    if not {"outputs", "inputs"} <= given.keys():
        return Refusal("its arguments are not spelled out")
    single = {key: _only_item(given[key]) for key in _PARAMETERS[:3] if key in given}
    output, source = single["outputs"], single["inputs"]
    if (
        output is None
        or source is None
        or (cotangent := single.get("grad_outputs", output)) is None
    ):
        return Refusal("it has several inputs or outputs")
    if not isinstance(source, cst.Name):
        return Refusal("the input is not a local name")
    create = given.get("create_graph")
    if create is not None and (reason := side_effect_of(site, create) or may_raise(site, create)):
        return Refusal(f"the gradient may have a graph, and {reason}")
    ones = "grad_outputs" not in given or dotted_name(cotangent) == "None"
    return GradientCall(
        output,
        source.value,
        None if ones else cotangent,
        create,
    )


def _only_item(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return `x` for the list or tuple literal `[x]`; None if it has no or several items.

    Any other expression is returned unchanged.
    """
    if not isinstance(value, cst.List | cst.Tuple):
        return value
    return value.elements[0].value if len(value.elements) == 1 else None


def _name_requiring_grad(line: cst.CSTNode) -> str:
    """Return the variable whose `requires_grad` a statement sets; "" for other statements."""
    match line:
        case (
            cst.SimpleStatementLine(
                body=[cst.Expr(cst.Call(cst.Attribute(value, cst.Name("requires_grad_"))))]
            )
            | cst.SimpleStatementLine(
                body=[
                    cst.Assign([cst.AssignTarget(cst.Attribute(value, cst.Name("requires_grad")))])
                ]
            )
        ):
            return dotted_name(value)
    return ""


def _dependent_statements(
    lines: Sequence[cst.CSTNode], gradient_call: GradientCall
) -> list[cst.CSTNode]:
    """Return those of the statements `lines` that compute the gradient's output from its input.

    For `torch.autograd.grad(y, x)` these are the statements on the way from `x` to `y`, in order.
    """
    reached = {gradient_call.input}
    for line in lines:
        if names_read(line) & reached:
            reached |= set(names_bound(line))
    needed = set(names_read(gradient_call.output))
    steps: list[cst.CSTNode] = []
    for line in reversed(lines):
        made = set(names_bound(line))
        if made & needed and made & reached:
            needed |= set(names_read(line))
            steps.insert(0, line)
    return steps


def _refusal_reason(
    document: Document,
    line: cst.CSTNode,
    gradient_call: GradientCall,
    steps: Sequence[cst.CSTNode],
    others: Sequence[cst.CSTNode],
) -> str:
    """Return why the statements `steps` cannot be moved into a function; "" if they can.

    `line` is the statement with the call of `torch.autograd.grad`. `others` are the statements
    before `line` that are not in `steps`.
    """
    own = set(names_bound(*steps))
    odd = sorted(n for n in (*own, *names_mutated(*steps)) if "." in n or n not in own)
    if odd:
        return f"`{odd[0]}` changes on the way"
    if any(isinstance(one, _JUMPS) for step in steps for one in walk(step)):
        return "there is a jump on the way"
    if again := sorted(live_in(steps) & own):
        return f"`{again[0]}` is bound again on the way"
    body = document.parent(line)
    assert isinstance(body, cst.IndentedBlock)
    first = body.body.index(steps[0])
    between = [one for one in others if body.body.index(one) > first]
    kept = {dotted_name(gradient_call.output)}
    after = live_in(statements_after(document, line)) | set(names_read(line)) - names_read(
        gradient_call.output
    )
    needed = (set(names_read(*between)) & own) | (
        (after | set(_cotangent_reads(gradient_call))) & own - kept
    )
    if needed:
        return f"`{min(needed)}` is needed, too"
    if moved := (set(names_bound(*between)) | set(names_mutated(*between))) & names_read(*steps):
        return f"`{min(moved)}` changes meanwhile"
    return ""


def _cotangent_reads(gradient_call: GradientCall) -> frozenset[str]:
    """Return the variables that the argument `grad_outputs` of a gradient call reads.

    The set is empty if the argument is not given.
    """
    return (
        names_read(gradient_call.cotangent) if gradient_call.cotangent is not None else frozenset()
    )


def _stop_requiring_grad(site: Site, line: cst.CSTNode) -> dict[cst.CSTNode, Replacement]:
    """Return the edits after which the statement `line` sets no `requires_grad`.

    `x = Variable(y, requires_grad=True)` becomes `x = y.detach()`; `x.requires_grad_()` is removed.
    """
    if _name_requiring_grad(line):
        return {line: cst.RemoveFromParent()}
    edits: dict[cst.CSTNode, Replacement] = {}
    for one in walk(line):
        if not isinstance(one, cst.Call):
            continue
        if site.callee_name(one) in _WRAPPERS and len(one.args) == 2:
            value = one.args[0].value
            cut = value.func if isinstance(value, cst.Call) else value
            bare = isinstance(cut, cst.Attribute) and cut.attr.value in ("data", "detach")
            edits[one] = value if bare else build_expression("{v}.detach()", v=value)
        elif isinstance(one.func, cst.Attribute) and one.func.attr.value == "requires_grad_":
            edits[one] = one.func.value
    return edits


def _vjp_statements(
    site: Site,
    line: cst.SimpleStatementLine,
    call: cst.Call,
    gradient_call: GradientCall,
    steps: Sequence[cst.CSTNode],
) -> list[cst.BaseStatement]:
    """Return the replacement of `line`: a function, the call of `vjp`, and the edited `line`.

    The function consists of the statements `steps`. `call` is the call of `torch.autograd.grad` in
    `line`, and `gradient_call` its arguments.
    """
    unused_name = site.document.unused_name
    output = dotted_name(gradient_call.output) or unused_name("output")
    function, pullback = unused_name(f"{output.rpartition('.')[2]}_of"), unused_name("pullback")
    header = build_statement(f"def {function}({gradient_call.input}):\n    pass\n")
    returned = build_statement("return {v}", v=gradient_call.output)
    match steps[-1]:
        case (
            cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]) as assign]
            ) as last_step
        ) if name == dotted_name(gradient_call.output):
            final = cst.Return(assign.value)
            steps, returned = steps[:-1], last_step.with_changes(body=[final])
    made = header.with_changes(
        body=cst.IndentedBlock([*steps, returned]),  # type: ignore[list-item]
        leading_lines=[cst.EmptyLine(indent=False)],
    )
    primal = gradient_call.input
    taken = build_statement(f"{output}, {pullback} = torch.func.vjp({function}, {primal})")
    taken = taken.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    ones = build_expression(f"torch.ones_like({output})")
    back = build_expression(f"{pullback}({{v}})", v=gradient_call.cotangent or ones)
    create, lines = gradient_call.create_graph, [made, taken]
    flag = "False" if create is None else dotted_name(create)
    if create is not None and flag not in ("True", "False"):
        gradient = unused_name("gradient")
        lines.append(build_statement(f"{gradient} = {{v}}[0]", v=back))
        template = f"{gradient} if {{create}} else {gradient}.detach()"
        first = build_expression(template, create=create)
    else:
        first = build_expression("{v}[0]" if flag == "True" else "{v}[0].detach()", v=back)
    last = line.deep_replace(*_unpacked_gradient(site.document, call, first))
    assert isinstance(last, cst.BaseStatement)
    return [*lines, last]


def _unpacked_gradient(
    document: Document, call: cst.Call, gradient: cst.BaseExpression
) -> tuple[cst.CSTNode, cst.CSTNode]:
    """Return a node to replace, and its replacement, to put `gradient` in place of `call`.

    `call` returns a tuple of one gradient. For `call[0]` the result is this subscript and
    `gradient`; for `(g,) = call` the assignment and `g = gradient`; else `call` and `(gradient,)`.
    """
    parent = document.parent(call)
    match parent:
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer("0")))]):
            return parent, gradient
        case cst.Assign([cst.AssignTarget(cst.Tuple([one]) | cst.List([one]))]):
            if isinstance(one.value, cst.BaseAssignTargetExpression):
                return parent, cst.Assign([cst.AssignTarget(one.value)], gradient)
    return call, build_expression("({v},)", v=gradient)


RULE = Rule("FG605", "use-vjp", frozenset({Category.AUTOGRAD.value}), rewrite)

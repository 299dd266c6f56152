"""`random.random()` always breaks the graph; `random.uniform` is traced, its value an unknown.

`random.uniform(0.0, 1.0)` draws exactly what `random.random()` draws, from the same stream. Where
a branch hangs on it, both arms are computed and the number chooses.

Before:

    if random.random() < self.p:
        y = y + noise

After:

    drop = torch.full((), random.uniform(0.0, 1.0), dtype=torch.float64) < self.p
    y = torch.where(drop, y + noise, y)

(in one expression).

Assumes nothing: the arms are pure, and were seen to be tensors of one dtype and shape.

Refuses: branches that do more than assign one tensor, or that draw random numbers themselves.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.build import expression
from fullgraph.rewrites.facts import purity
from fullgraph.rewrites.facts.seen import Seen
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_NAMES = ("random.random", "random.uniform", "random.Random.random", "random.Random.uniform")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = _call(site)
    if call is None:
        return None
    drawn = _drawn(site, call)
    branch = _branch(site, call)
    if branch is None:
        if drawn is call:
            return Refusal("what is done with the number is more than one assignment by branch")
        return Rewrite(
            {call: drawn},
            "`uniform` draws the same number from the same stream, and is traced.",
            imports=("random",),
        )
    if isinstance(branch, Refusal):
        return branch
    statement, test, target, then, other = branch
    chosen = test.visit(_Exchange(call, expression(_TENSOR, drawn=drawn)))
    new = expression(
        "torch.where({chosen}, {then}, {other})",
        chosen=chosen,  # type: ignore[arg-type]
        then=then,
        other=other,
    )
    line = cst.SimpleStatementLine(
        [cst.Assign([cst.AssignTarget(target)], new)], leading_lines=statement.leading_lines
    )
    assumes = () if _agree(site, then, other) else ("both arms have one dtype and shape",)
    return Rewrite(
        {statement: line},
        "Both arms are computed and the random number chooses, so the graph goes on.",
        Applicability.UNSAFE if assumes else Applicability.SAFE,
        assumes,
        ("torch", "random"),
        (test,),
    )


_TENSOR = "torch.full((), {drawn}, dtype=torch.float64)"


def _call(site: Site) -> cst.Call | None:
    """The call that draws: the node, or one in the test of the statement that it is."""
    found = [site.node] if isinstance(site.node, cst.Call) else []
    if isinstance(site.node, cst.If | cst.Comparison):
        test = site.node.test if isinstance(site.node, cst.If) else site.node
        found = [one for one in m.findall(test, m.Call()) if isinstance(one, cst.Call)]
    return next((one for one in found if site.calls(one) in _NAMES), None)


def _drawn(site: Site, call: cst.Call) -> cst.BaseExpression:
    """The same number from `uniform`."""
    if site.calls(call).endswith("uniform"):
        return call
    if isinstance(call.func, cst.Attribute):
        return call.with_changes(
            func=call.func.with_changes(attr=cst.Name("uniform")), args=_unit()
        )
    spelled = site.document.spelling("random.uniform") or "random.uniform"
    return expression(f"{spelled}(0.0, 1.0)")


def _unit() -> list[cst.Arg]:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [cst.Arg(cst.Float("0.0"), comma=comma), cst.Arg(cst.Float("1.0"))]


Branch = tuple[cst.If, cst.BaseExpression, cst.Name, cst.BaseExpression, cst.BaseExpression]


def _branch(site: Site, call: cst.Call) -> Branch | Refusal | None:
    """The `if` whose test the number is, taken apart; None if it is in no test."""
    test: cst.CSTNode = call
    while isinstance(test, cst.BaseExpression | cst.ComparisonTarget | cst.Arg):
        test = site.document.parent(test)
    if not isinstance(test, cst.If):
        return None
    statement = test
    if not m.matches(statement.test, m.Comparison(comparisons=[m.ComparisonTarget()])):
        return Refusal("the test is more than one comparison")
    match statement:
        case cst.If(body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[then])])):
            pass
        case _:
            return Refusal("the branch does more than one assignment")
    one = _assigned(then)
    other = one[0] if one else None
    match statement.orelse:
        case None:
            pass
        case cst.Else(body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[last])])):
            second = _assigned(last)
            if one is None or second is None or second[0].value != one[0].value:
                return Refusal("the arms do not assign one and the same name")
            other = second[1]  # type: ignore[assignment]
        case _:
            return Refusal("the other arm does more than one assignment")
    if one is None or other is None:
        return Refusal("the branch does something else than assign a name")
    if effect := purity.effect(site, one[1], other):
        return Refusal(effect)
    seen = _seen(site, one[1], one[1]) or _seen(site, other, one[1])
    if seen is None or not seen.is_tensor:
        return Refusal("what the arms give is not known to be a tensor")
    return statement, statement.test, one[0], one[1], other


def _assigned(statement: cst.CSTNode) -> tuple[cst.Name, cst.BaseExpression] | None:
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value):
            return name, value
        case cst.AugAssign(target=cst.Name() as name, operator=operator, value=value):
            sign = cst.Module([]).code_for_node(operator).strip().removesuffix("=")
            return name, expression(f"{{name}} {sign} {{value}}", name=name, value=value)
    return None


def _seen(site: Site, node: cst.BaseExpression, then: cst.BaseExpression) -> Seen | None:
    """What is known of an arm. A name that keeps its value is what it was where it was read: before
    the branch or in its arm; after it only if the arm did not run."""
    found = site.seen(node) if node in site.document.ranges else None
    function = site.document.function(site.node)
    if found is not None or not isinstance(node, cst.Name) or function is None:
        return found
    start = site.document.position(site.statement).line
    for read in m.findall(function, m.Name(node.value)):
        before = site.document.position(read).line <= start or read in m.findall(then, m.Name())
        if (before or site.seen(then) is None) and (seen := site.seen(read)):
            return seen
    return None


def _agree(site: Site, then: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether both arms have one dtype and shape, by what was seen of them.

    An arm that no run took was not seen. It has the other's dtype and shape if it is elementwise
    in the other and numbers.
    """
    one, two = _seen(site, then, then), _seen(site, other, then)
    if one is not None and two is not None:
        return (one.dtypes, one.shapes) == (two.dtypes, two.shapes)
    known, unseen = (one, then) if two is None else (two, then)
    if known is None or not isinstance(unseen, cst.BinaryOperation):
        return False
    sides = (unseen.left, unseen.right)
    numbers = m.Integer() | (m.Float() if all(t.is_float for t in known.tensors) else m.Integer())
    return any(
        isinstance(side, cst.Name) and isinstance(other, cst.Name) and side.value == other.value
        for side in sides
    ) and any(m.matches(side, numbers) for side in sides)


class _Exchange(cst.CSTTransformer):
    def __init__(self, old: cst.CSTNode, new: cst.BaseExpression) -> None:
        super().__init__()
        self.old, self.new = old, new

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        return self.new if original_node is self.old else updated_node


RULE = Rule(
    "FG701",
    "draw-in-graph",
    frozenset({Category.RANDOM.value, Category.BRANCH.value}),
    rewrite,
)

"""A condition that only saves work, or skips what has no effect, is left to eager code.

Before:

    rows = torch.where(picks == number)[0]
    if len(rows) > 0:
        y.index_add_(0, rows, self.experts[number](x[rows]))

    if mask.all():
        return F.scaled_dot_product_attention(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

After:

    rows = torch.where(picks == number)[0]
    if torch.compiler.is_compiling() or len(rows) > 0:
        y.index_add_(0, rows, self.experts[number](x[rows]))

    if not torch.compiler.is_compiling() and mask.all():
        return F.scaled_dot_product_attention(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

Compiled code never takes an early `return`, `continue` or `break`, always runs any other block
without an `else`, and of two blocks takes the `if`, unless the `else` does more, or the `if` is for
the case that nothing was selected: `if len(rows) == 0: … else: …`. An `else` that does nothing, or
adds zero (`y += 0.0 * unused.sum()`), counts as none.

Always unsafe, and accepted only where the proof took both branches and found equal results, and
where fewer graph breaks are left, because compiled code computes more. Where the code that compiled
code always runs draws random numbers, those that follow are others.

Refuses: conditions of a loop or a comprehension, and branches that raise or end the program.
"""

from __future__ import annotations

import re

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import Site, has_raise
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import Replacement
from fullgraph.rewrites.transforms.branches.operands import ConditionOperand, find_operand
from fullgraph.rewrites.transforms.branches.output import leave_output_to_eager
from fullgraph.rewrites.transforms.eager_only import decide_compiled

_WHY = "Compiled code does without the shortcut: the results were the same on every input tried."
_FILTERS = (
    "the data decide how many elements the list has: compute all, and select by the mask at the end"
)
_COUNTS = ("any", "sum", "numel", "count_nonzero")
_LEAVES = cst.Return | cst.Continue | cst.Break
_COUNT = m.Call(func=m.Name("len") | m.Attribute(attr=m.OneOf(*map(m.Name, _COUNTS))))
_IS_ZERO = m.ComparisonTarget(m.Equal() | m.LessThanEqual(), m.Integer("0"))
_HAS_ELEMENTS = _COUNT | m.Comparison(
    comparisons=[
        m.ComparisonTarget(m.GreaterThan() | m.NotEqual(), m.Integer("0"))
        | m.ComparisonTarget(m.GreaterThanEqual(), m.Integer("1"))
    ]
)
_RANDOM = re.compile(r"\brand\w*\(|\bnormal_?\(|\buniform_?\(|\bbernoulli\w*\(|\bmultinomial\(")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    match find_operand(site):
        case ConditionOperand(branch=cst.If() | cst.IfExp() as node) as found:
            pass
        case _:
            filters = any(isinstance(one, cst.CompIf) for one in site.document.ancestors(site.node))
            return Refusal(_FILTERS) if filters else None
    wanted = _wanted_value(node, found)
    if wanted is None:
        return Refusal("neither branch is a shortcut of the other")
    dropped = node.body if not wanted else getattr(node, "orelse", None)
    kept = node.body if wanted else getattr(node, "orelse", None)
    for block in filter(None, (dropped, kept)):
        if has_raise(site.document, block):
            return Refusal("a branch raises")
    value = wanted
    for operator in found.path:
        value ^= isinstance(operator, cst.UnaryOperation)
    code = site.document.code(found.operand)
    assumes = [f"`{code}` only saves work"]
    exempts: frozenset[str] = frozenset()
    edits: dict[cst.CSTNode, Replacement] = {}
    edits |= decide_compiled(site.document, found.operand, found.path, value)
    if wanted and isinstance(node, cst.If) and (output := leave_output_to_eager(site, node.body)):
        edits |= output
        assumes.append("nobody needs this output from the compiled program")
        exempts = frozenset({"text", "records"})
    function = site.document.function(node)
    if function is not None and _RANDOM.search(site.document.code(function)):
        assumes.append("other random numbers may be drawn")
        exempts |= {"randomness"}
    return Rewrite(
        edits,
        _WHY,
        Applicability.UNSAFE,
        tuple(assumes),
        tests=(found.operand,),
        exempts=exempts,
        imports=("torch",),
        needs_both_branches=True,
        has_shortcut=True,
    )


def _wanted_value(node: cst.If | cst.IfExp, found: ConditionOperand) -> bool | None:
    """Return the value of the condition in the general case, whose branch the rewrite keeps.

    False for `return 0 if n == 0 else f(n)`. None if neither branch is a shortcut of the other.
    """
    if isinstance(node, cst.IfExp):
        shortcuts = [_is_constant(node.body), _is_constant(node.orelse)]
        if any(shortcuts) and not all(shortcuts):
            return shortcuts[1]
        return _is_true_of_elements(found)
    if node.orelse is not None:
        if isinstance(node.orelse, cst.If):
            return None
        return _adds_nothing(node.orelse) or _is_true_of_elements(found)
    last = node.body.body[-1] if node.body.body else None
    last = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return not isinstance(last, _LEAVES)


def _is_true_of_elements(found: ConditionOperand) -> bool:
    """Return whether a condition is true where there are elements, as `len(rows) > 0` is."""
    negated = sum(isinstance(one, cst.UnaryOperation) for one in found.path) % 2 == 1
    if m.matches(found.operand, m.Comparison(comparisons=[_IS_ZERO])):
        return negated
    asks = m.matches(found.operand, _HAS_ELEMENTS)
    return asks is not negated if asks else False


def _adds_nothing(block: cst.Else) -> bool:
    """Return whether each statement of a block is `pass`, or adds something times zero."""
    zero = m.Float(value=m.MatchIfTrue(lambda text: float(text) == 0)) | m.Integer("0")
    nothing = m.BinaryOperation(left=zero, operator=m.Multiply()) | m.BinaryOperation(
        right=zero, operator=m.Multiply()
    )
    added = nothing | m.BinaryOperation(operator=m.Add(), right=nothing)
    statement = (
        m.Pass() | m.AugAssign(operator=m.AddAssign(), value=nothing) | m.Assign(value=added)
    )
    return all(m.matches(one, m.SimpleStatementLine([statement])) for one in block.body.body)


def _is_constant(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.BaseNumber | cst.SimpleString) or (
        isinstance(node, cst.Name) and node.value in ("None", "True", "False")
    )


RULE = Rule(
    "FG307",
    "drop-shortcut",
    frozenset(
        one.value for one in (Category.BRANCH, Category.COMPARISON, Category.SCALAR, Category.GUARD)
    ),
    rewrite,
)

"""`i, j = torch.where(m)` makes as many indices as the mask is true, only to index with them.

TorchDynamo cannot give the indices a shape in its default mode and breaks the graph there. What is
read with them is what the mask selects: then the rules for masks apply (FG401, FG402, FG403).

Before:

    keep = (score > 0.5).nonzero(as_tuple=True)
    x[keep] = 0
    return loss[keep].mean()

After:

    keep = score > 0.5
    x[keep] = 0
    return torch.where(keep, loss, 0).sum() / keep.sum()

`if i.numel() == 0: continue` goes where it only skips such assignments: they change nothing then.
Where a layer multiplies the selected rows, eager code still multiplies only these:

    for level, head in enumerate(self.heads):
        at = levels == level
        if torch.compiler.is_compiling():
            y = torch.where(at[..., None], head(torch.where(at[..., None], x, 0)), y)
        elif at.any():
            y[at] = head(x[at])

Likewise `y.index_fill_(0, i, 0.0)`, which becomes `y.masked_fill_(mask, 0.0)`, and the question
whether there are indices at all, `if i.numel() == 0`, which becomes a branch on `~mask.any()`: the
rules for branches rewrite it.

Refuses: indices that are used otherwise, and reads that do not end in a reduction, a loss or an
assignment with the same indices, because then their number shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    NotApplicable,
    Site,
    assignment_targets,
    find_definitions,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    integer_literal,
)
from fullgraph.rewrites.transforms.masks.counts import find_count
from fullgraph.rewrites.transforms.masks.flow import find_flow
from fullgraph.rewrites.transforms.masks.nonzero import (
    QuestionKind,
    find_indices,
    flattening_around,
    parse_nonzero,
    question_of,
)
from fullgraph.rewrites.transforms.masks.reads import Read, find_read, is_name
from fullgraph.rewrites.transforms.masks.rewriting import require_unchanged_mask, rewrite_flow

_WHY = "A mask has a fixed shape, where its indices have none."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    if parse_nonzero(site, site.node) is None:
        return None
    subscripts, others = _uses_of_indices(site)
    asked = [_replaceable_use(site, use) for use in others]
    if (not subscripts and not others) or None in asked:
        return Refusal("its indices are needed themselves, and how many there are depends on data")
    if not subscripts and all(one is None or one.kind != "fill" for one in asked):
        return None
    places = [find_read(site, one) for one in subscripts]
    found = [one for one in places if one is not None and one.indices is site.node]
    if len(found) != len(subscripts):
        return Refusal(
            "its indices select other elements than a mask does: compute all of them, and mask the "
            "result"
        )
    assign = next(
        (n for n in site.document.ancestors(site.node) if isinstance(n, cst.Assign)), None
    )
    bound = assign is not None and not any(
        use in walk(assign) for use in (*(one.node for one in found), *others)
    )
    edits = dict[cst.CSTNode, Replacement]()
    mask = bare = (found[0].mask if found else _mask_of(site)).with_changes(lpar=(), rpar=())
    if bound and assign is not None:
        line = site.document.statement(assign)
        if is_name(mask) and isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            edits[line] = cst.RemoveFromParent()
        else:
            target = assign.targets[0].target
            name = (
                target.value
                if isinstance(target, cst.Name)
                else site.document.unused_local(site.node, "mask", "keep", "selected")
            )
            made = build_statement("{name} = {mask}", name=name, mask=mask)
            assert isinstance(made, cst.SimpleStatementLine)
            edits[assign] = made.body[0]
            mask = cst.Name(name)
    answers: dict[cst.CSTNode, Replacement] = {
        one.node: _mask_expression(site, one, mask) for one in asked if one is not None
    }
    try:
        known = find_definitions(site.document, site.node)
        require_unchanged_mask(site.document, known, (site.node, *answers), bare)
    except NotApplicable as reason:
        return Refusal(str(reason))
    edits |= answers
    answer = _rewrite_all(site, found, mask if bound else None, edits)
    for one in asked:
        if one is not None and isinstance(answer, Rewrite):
            answer = _without_question(site, answer, one)
    return answer


def _without_question(site: Site, made: Rewrite, use: IndicesUse) -> Rewrite:
    """Return `made` without `if not len(indices): continue` where that only skips assignments.

    Where nothing is selected, the assignments change nothing. `use` is the condition.
    """
    node = site.document.parents.get(use.node)
    match node:
        case cst.If(body=cst.IndentedBlock(body=[line]), orelse=None) if node.test is use.node:
            skips = m.matches(line, m.SimpleStatementLine([m.Continue()]))
        case _:
            return made
    block = getattr(site.document.parent(node), "body", ())
    after = block[block.index(node) + 1 :]
    stores = [one.body[0] for one in after if isinstance(one, cst.SimpleStatementLine)]
    changed = all(
        _is_store(one) and {one, site.document.statement(one)} & made.replacements.keys()
        for one in stores
    )
    if use.kind != "none" or not skips or not stores or len(stores) < len(after) or not changed:
        return made
    kept = {one: new for one, new in made.replacements.items() if one is not use.node}
    match made.replacements[use.node], kept.get(after[0]):
        case cst.UnaryOperation(expression=found), cst.If(orelse=cst.Else(body=body)) as guard:
            kept[after[0]] = guard.with_changes(orelse=cst.If(found, body))
    return replace(
        made,
        replacements={**kept, node: cst.RemoveFromParent()},
        applicability=Applicability.UNSAFE,
        assumes=(*made.assumes, "a gradient of zero is as good as none where nothing is selected"),
    )


def _is_store(statement: cst.CSTNode) -> bool:
    """Return whether a statement assigns to elements: `y[i] = x`, `y[i] += x`."""
    target = m.AssignTarget(m.Subscript())
    return m.matches(statement, m.Assign([target]) | m.AugAssign(m.Subscript()))


def _rewrite_all(
    site: Site,
    found: list[Read],
    mask: cst.BaseExpression | None,
    edits: dict[cst.CSTNode, Replacement],
) -> Rewrite | Refusal:
    """Return the rewrite of all subscripts `found` from `x[indices]` to use the mask.

    `mask` is the variable that holds the mask; if None, each subscript repeats the mask's
    expression. `edits` replace the other uses of the indices and become part of the rewrite. If a
    subscript cannot be rewritten, a refusal is returned.
    """
    assumes: list[str] = []
    has_shortcut = False
    covered: set[cst.CSTNode] = set()
    for one in found:
        if one.node in covered or _is_target(site, one.node):
            continue
        gone = find_flow(replace(site, node=one.node))
        if gone is None or isinstance(gone, NotApplicable):
            return Refusal(str(gone or "it is not read through a mask"))
        made = rewrite_flow(gone, _WHY, mask)
        if isinstance(made, Refusal):
            return made
        edits |= dict(made.replacements)
        assumes += made.assumes
        has_shortcut |= made.has_shortcut
        covered |= set(gone.reads)
    for one in found:
        inside = any(node in edits for node in (one.node, *site.document.ancestors(one.node)))
        if one.node in covered or inside:
            continue
        bare = one.mask.with_changes(lpar=(), rpar=())
        try:
            known = find_definitions(site.document, site.node)
            require_unchanged_mask(site.document, known, (site.node, one.node), bare)
        except NotApplicable as reason:
            return Refusal(str(reason))
        index = cst.SubscriptElement(cst.Index(mask or bare))
        assert isinstance(one.node, cst.Subscript)
        edits[one.node] = one.node.with_changes(slice=[index])
    return Rewrite(
        edits,
        _WHY,
        assumes=tuple(dict.fromkeys(assumes)),
        imports=("torch",),
        has_shortcut=has_shortcut,
    )


@dataclass(frozen=True, eq=False)
class IndicesUse:
    """Expression that uses nonzero indices, and that can be written with the mask instead."""

    node: cst.BaseExpression
    kind: str
    """"count" (their number), "any" (whether there are some), "none" (whether there are none) or
    "fill" (`index_fill`); "" if the mask can replace the indices without another change."""


def _uses_of_indices(site: Site) -> tuple[list[cst.Subscript], list[cst.BaseExpression]]:
    """Return the subscripts indexed by the nonzero indices, `x[indices]`, and all other uses.

    The site's expression computes the indices: `indices = mask.nonzero()`.
    """
    known = find_definitions(site.document, site.node)
    assign = next(
        (n for n in site.document.ancestors(site.node) if isinstance(n, cst.Assign)), None
    )
    names = (
        []
        if assign is None or known is None
        else [
            use
            for target in assignment_targets(assign)
            for node in walk(target)
            for use in known.uses(node)
        ]
    )
    found: dict[cst.Subscript, None] = {}
    others: list[cst.BaseExpression] = []
    for use in (*names,) or (site.node,):
        around = site.document.ancestors(use)
        outer = next(
            (one for one in around if isinstance(one, cst.Subscript | cst.BaseStatement)), None
        )
        if isinstance(outer, cst.Subscript) and use not in walk(outer.value):
            found[outer] = None
        elif isinstance(use, cst.BaseExpression):
            others.append(use)
    return list(found), others


def _replaceable_use(site: Site, use: cst.BaseExpression) -> IndicesUse | None:
    """Return a use of the nonzero indices that a mask can replace, such as `len(indices)`.

    `use` is the variable or call with the indices. None if the mask cannot replace this use.
    """
    found, document = find_indices(site), site.document
    if found is None or found.dims != 1 or not (found.bound or use is site.node):
        return None
    asked = question_of(site, found, use)
    if asked is not None and asked.asked in _TESTS:
        return IndicesUse(asked.node, _TESTS[asked.asked])
    if asked is not None and asked.asked is QuestionKind.COUNT:
        try:
            count = find_count(site, asked.node, use)
        except NotApplicable:
            return None
        return IndicesUse(count.node, "count") if count.least is None else None
    if document.code(document.parent(document.parent(use))) == f"{document.code(use)}.dim()":
        test = document.parent(document.parent(document.parent(use)))
        return IndicesUse(use, "") if document.code(test).endswith(".dim() > 0") else None
    flat, _ = flattening_around(site, use, False)
    bare = document.parents.get(document.parent(use))
    if isinstance(bare, cst.Call) and document.code(bare) == f"{document.code(use)}.squeeze()":
        flat = bare
    call = document.parents.get(document.parent(flat))
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        values = [arg.value for arg in call.args if arg.keyword is None]
        seen = site.observed(call.func.value)
        known = seen is not None and len(seen.dims) == 1 and len(values) == len(call.args) == 3
        first = known and call.func.attr.value in _FILLS and integer_literal(values[0]) == 0
        if first and values[1] is flat:
            return IndicesUse(call, "fill")
    return None


_TESTS = {QuestionKind.ANY: "any", QuestionKind.NONE: "none"}
_FILLS = {"index_fill": "masked_fill", "index_fill_": "masked_fill_"}


def _mask_expression(site: Site, use: IndicesUse, mask: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression that replaces a use of the nonzero indices: `mask.sum()`.

    `use` says what the expression asks, here the number of indices; `mask` is the code of the mask.
    """
    match use.kind:
        case "count":
            return build_expression("{mask}.sum()", mask=mask)
        case "any":
            return build_expression("{mask}.any()", mask=mask)
        case "none":
            return build_expression("~{mask}.any()", mask=mask)
        case "":
            return mask
    call = cst.ensure_type(use.node, cst.Call)
    func = cst.ensure_type(call.func, cst.Attribute)
    seen = site.observed(func.value)
    rest = next(iter(seen.dims)) - 1 if seen is not None else 0
    spread = "[:" + ", None" * rest + "]" if rest else ""
    return build_expression(
        f"{{x}}.{_FILLS[func.attr.value]}({{mask}}{spread}, {{value}})",
        x=func.value,
        mask=mask,
        value=call.args[2].value,
    )


def _mask_of(site: Site) -> cst.BaseExpression:
    """Return the mask whose nonzero indices the site's expression computes."""
    found = find_indices(site)
    assert found is not None
    return found.truth


def _is_target(site: Site, node: cst.CSTNode) -> bool:
    """Return whether a node is a target of an assignment."""
    parent = site.document.parent(node)
    if not isinstance(parent, cst.AssignTarget):
        return False
    assign = site.document.parent(parent)
    return isinstance(assign, cst.Assign)


RULE = Rule("FG405", "index-by-mask", frozenset({Category.NONZERO.value}), rewrite)

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

Refuses: indices that are used otherwise, and reads that do not end in a reduction, a loss or an
assignment with the same indices, because then their number shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.rewrites.build import statement
from fullgraph.rewrites.document import Replacement
from fullgraph.rewrites.facts.definitions import definitions
from fullgraph.rewrites.facts.flow import targets, walk
from fullgraph.rewrites.masked.flow import flow
from fullgraph.rewrites.masked.goals import Escape
from fullgraph.rewrites.masked.hits import nonzero
from fullgraph.rewrites.masked.reads import Read, is_name, read
from fullgraph.rewrites.masked.rewriting import check, rewriting
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.site import Site

_WHY = "A mask has a fixed shape, where its indices have none."


def rewrite(site: Site) -> Rewrite | Refusal | None:
    if nonzero(site, site.node) is None:
        return None
    subscripts = list(_subscripts(site))
    if not subscripts:
        return Refusal("its indices are needed themselves, and how many there are depends on data")
    places = [read(site, one) for one in subscripts]
    found = [one for one in places if one is not None and one.indices is site.node]
    if len(found) != len(subscripts):
        return Refusal("its indices are used otherwise than all together")
    assign = next((n for n in site.document.around(site.node) if isinstance(n, cst.Assign)), None)
    bound = assign is not None and not any(one.node in walk(assign) for one in found)
    mask, edits = found[0].mask.with_changes(lpar=(), rpar=()), dict[cst.CSTNode, Replacement]()
    if bound and assign is not None:
        line = site.document.statement(assign)
        if is_name(mask) and isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            edits[line] = cst.RemoveFromParent()
        else:
            target = assign.targets[0].target
            name = target.value if isinstance(target, cst.Name) else site.document.fresh("mask")
            made = statement("{name} = {mask}", name=name, mask=mask)
            assert isinstance(made, cst.SimpleStatementLine)
            edits[assign] = made.body[0]
            mask = cst.Name(name)
    return _all(site, found, mask if bound else None, edits)


def _all(
    site: Site,
    found: list[Read],
    mask: cst.BaseExpression | None,
    edits: dict[cst.CSTNode, Replacement],
) -> Rewrite | Refusal:
    """All reads and assignments at full shape."""
    assumes: list[str] = []
    covered: set[cst.CSTNode] = set()
    for one in found:
        if one.node in covered or _is_target(site, one.node):
            continue
        gone = flow(replace(site, node=one.node))
        if gone is None or isinstance(gone, Escape):
            return Refusal(str(gone or "it is not read through a mask"))
        made = rewriting(gone, _WHY, mask)
        if isinstance(made, Refusal):
            return made
        edits |= dict(made.replacements)
        assumes += made.assumes
        covered |= set(gone.reads)
    for one in found:
        inside = any(node in edits for node in (one.node, *site.document.around(one.node)))
        if one.node in covered or inside:
            continue
        bare = one.mask.with_changes(lpar=(), rpar=())
        try:
            known = definitions(site.document, site.node)
            check(site.document, known, (site.node, one.node), bare)
        except Escape as reason:
            return Refusal(str(reason))
        index = cst.SubscriptElement(cst.Index(mask or bare))
        assert isinstance(one.node, cst.Subscript)
        edits[one.node] = one.node.with_changes(slice=[index])
    applicability = Applicability.UNSAFE if assumes else Applicability.SAFE
    return Rewrite(edits, _WHY, applicability, tuple(dict.fromkeys(assumes)), ("torch",))


def _subscripts(site: Site) -> Iterator[cst.Subscript]:
    """The subscripts in which the indices stand; none if they stand anywhere else."""
    known = definitions(site.document, site.node)
    assign = next((n for n in site.document.around(site.node) if isinstance(n, cst.Assign)), None)
    names = (
        []
        if assign is None or known is None
        else [
            use for target in targets(assign) for node in walk(target) for use in known.uses(node)
        ]
    )
    found: dict[cst.Subscript, None] = {}
    places: list[cst.CSTNode] = [*names] or [site.node]
    for use in places:
        around = site.document.around(use)
        outer = next(
            (one for one in around if isinstance(one, cst.Subscript | cst.BaseStatement)), None
        )
        if not isinstance(outer, cst.Subscript):
            return
        found[outer] = None
    yield from found


def _is_target(site: Site, node: cst.CSTNode) -> bool:
    """Whether a number is assigned there, which takes no reading."""
    parent = site.document.parent(node)
    if not isinstance(parent, cst.AssignTarget):
        return False
    assign = site.document.parent(parent)
    return isinstance(assign, cst.Assign)


RULE = Rule("FG405", "index-by-mask", frozenset({Category.NONZERO.value}), rewrite)

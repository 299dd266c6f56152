"""A loop over the indices that occur has as many iterations as the data say.

TorchDynamo breaks at `unique()` and `nonzero()` in its default mode, and under `fullgraph=True` at
a list of modules that a tensor indexes. A loop over all indices has a fixed number of iterations.

Before:

    for k in top.unique():
        chosen = top == k
        y[chosen] = self.experts[k](x[chosen])

After:

    if torch.compiler.is_compiling():
        indices = range(len(self.experts))
    else:
        indices = top.unique().tolist()
    for k in indices:
        chosen = top == k
        y[chosen] = self.experts[k](x[chosen])

Eager code still skips the layers of an index that does not occur, and reads all indices at once. A
loop that calls no layer and multiplies no matrices is `for k in range(len(self.experts))` in both.

A loop over `(counts > 0).nonzero()` likewise, also where the index is `k[0]` or `k.item()`, and
where a name is made of it: `self.experts[f"expert_{k[0]}"]`.

Before:

    counts = torch.bincount(top, minlength=8)
    hit = (counts > 0).nonzero()
    for k in hit:
        y = y + share[k] * self.experts[k](x)

After:

    counts = torch.bincount(top, minlength=8)
    hit = counts > 0
    if torch.compiler.is_compiling():
        indices = range(len(self.experts))
    else:
        indices = hit.nonzero().flatten().tolist()
    for k in indices:
        y = y + share[k] * self.experts[k](x)

What such a loop over `unique()` adds up is masked, because an average over no element is NaN:

Before:

    for c in labels.unique():
        loss = loss + (x[labels == c] - self.centers[c]).pow(2).mean()

After, with an edit of the selection:

    for c in range(len(self.centers)):
        absent = (labels != c).all()
        mask = labels == c
        loss = torch.where(absent, loss, loss + … / torch.where(absent, 1, mask.sum()))

A variable with a row for each class says how many there are, too; the rows of absent classes stay
as they are: `means[c] = x[labels == c].mean(0)`.

Unsafe: it assumes that an iteration for an index that does not occur changes nothing, and that
every element is an index; the additional iterations cost compiled code time.

Refuses: loops in which the index goes elsewhere than into subscripts and comparisons, those that
neither compare nor index a tensor with it, those after which it is read, and those in which no list
of modules, no parameter and no mask says how many indices there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    Definitions,
    Site,
    find_definitions,
    is_tensor,
    live_in,
    names_read,
    statements_after,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    build_statement,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.absent_iterations import (
    NamedTensor,
    mask_absent,
    name_tensor,
)
from fullgraph.rewrites.transforms.branches.shortcut import count_work
from fullgraph.rewrites.transforms.eager_only import compiling_condition
from fullgraph.rewrites.transforms.masks.index_uses import IndexUses
from fullgraph.rewrites.transforms.masks.nonzero import parse_nonzero

_SAME = ("tolist", "flatten", "ravel", "view", "reshape", "squeeze", "unbind", "cpu")


def rewrite(site: Site) -> Rewrite | Refusal | None:
    call = site.node
    nonzero = parse_nonzero(site, call)
    if not isinstance(call, cst.Call):
        return None
    if nonzero is None and site.callee_name(call).rpartition(".")[2] != "unique":
        return None
    known = find_definitions(site.document, call)
    found = _find_loop(site, known, call) if known is not None else None
    if known is None or found is None or not isinstance(found[0].target, cst.Name):
        return None
    loop, line = found
    index, name = IndexUses(site, known), cst.ensure_type(loop.target, cst.Name)
    if not index.follow(name):
        return Refusal(f"`{index.elsewhere}` takes the index itself")
    if not index.selects:
        return Refusal("an iteration does something also for an index that does not occur")
    if name.value in live_in(statements_after(site.document, loop)):
        return Refusal(f"`{name.value}` is read after the loop")
    tensor = nonzero[0] if nonzero is not None else _elements(site, call)
    return _LoopOverAll(site, loop, line, index, tensor, nonzero is not None).rewrite()


@dataclass(frozen=True)
class _LoopOverAll:
    """Rewrite of a loop over the indices that occur."""

    site: Site
    loop: cst.For
    line: cst.SimpleStatementLine | None
    """The statement that names the indices; None if the loop's header has their call."""
    index: IndexUses
    tensor: cst.BaseExpression | None
    """The mask or counts, or else the tensor with the indices as elements; None if not known."""
    is_mask: bool

    def rewrite(self) -> Rewrite | Refusal:
        skips = self._skips_work()
        named = None
        if skips and self.tensor is not None:
            named = name_tensor(self.site, self.loop, self.line, self.tensor)
        count = self._count(named)
        if count is None:
            return Refusal("nothing says how many indices there are")
        text = self.site.document.code(self.site.node)
        assumes = {f"an iteration for an index that `{text}` lacks changes nothing": None}
        every = build_expression("range(len({all}))", all=count.deep_clone())
        edits: dict[cst.CSTNode, Replacement] = {self.loop.iter: every, **self.index.edits}
        if masked := self._masked(named):
            edits, assumes = {self.loop: masked[0].with_changes(iter=every)}, masked[1]
        if named is not None:
            edits = self._read_at_once(named, every, edits)
        else:
            edits, skips = self._without_name(edits), False
        if self.tensor is not None and not count.deep_equals(named.value if named else self.tensor):
            where, within = map(self.site.document.code, (self.tensor, count))
            clause = f"every element of `{where}` is an index of `{within}`"
            if self.is_mask:
                clause = f"`{where}` has no more elements than `{within}`"
            assumes[clause] = None
        return Rewrite(
            edits,
            "A loop over all indices has a fixed number of iterations"
            + ("; eager code still skips those without an element." if skips else "."),
            Applicability.UNSAFE,
            tuple(assumes),
            ("torch",),
            has_shortcut=skips,
        )

    @cached_property
    def _is_flat(self) -> bool:
        """Whether the tensor is a mask with one dimension."""
        seen = self.site.observed(self.tensor) if self.tensor is not None else None
        return self.is_mask and seen is not None and seen.dims == {1}

    def _skips_work(self) -> bool:
        """Return whether eager code would do work for the indices that do not occur."""
        works = self.index.modules is not None or count_work(self.site, [self.loop.body]) > 0
        block = isinstance(self.loop.body, cst.IndentedBlock)
        return block and works and (self._is_flat or not self.is_mask)

    def _count(self, named: NamedTensor | None) -> cst.BaseExpression | None:
        """Return an expression with an element for each index; None if there is none."""
        if count := self.index.modules or self.index.table:
            return count
        rows = self.index.rows_before(self.loop)
        if not self.is_mask:
            return rows
        if not self._is_flat or self.tensor is None:
            return None
        if named is not None:
            return named.value
        by_row = rows is not None and _has_element_per_row(self.site, self.tensor, rows)
        return rows if by_row else self.tensor

    def _masked(self, named: NamedTensor | None) -> tuple[cst.For, dict[str, None]] | None:
        """Return the loop with what it adds up masked, and what that assumes; None if it cannot."""
        if self.is_mask or self.tensor is None or self.index.edits:
            return None
        return mask_absent(self.site, self.loop, named.value if named else self.tensor)

    def _read_at_once(
        self,
        named: NamedTensor,
        every: cst.BaseExpression,
        edits: dict[cst.CSTNode, Replacement],
    ) -> dict[cst.CSTNode, Replacement]:
        """Return the edits by which eager code has the indices that occur, and compiled code all.

        Eager code reads them at once: each element that it read alone would wait for the GPU.
        """
        name = self.site.document.unused_local(self.site.node, "indices")
        found = "nonzero().flatten()" if self.is_mask else "unique()"
        choice = build_statement(
            f"if {compiling_condition(self.site.document)}:\n"
            f"    {name} = {{every}}\n"
            f"else:\n    {name} = {{tensor}}.{found}.tolist()\n",
            every=every.deep_clone(),
            tensor=named.value.deep_clone(),
        )
        loop = replace_nodes(self.loop, edits).with_changes(leading_lines=(), iter=cst.Name(name))
        if named.assignment is not None and self.line is None:
            return {self.loop: cst.FlattenSentinel([named.assignment, choice, loop])}
        first = choice.with_changes(leading_lines=self.loop.leading_lines)
        made = self._without_name({self.loop: cst.FlattenSentinel([first, loop])})
        if named.assignment is not None and self.line is not None:
            made[self.line] = named.assignment
        return made

    def _without_name(
        self, edits: dict[cst.CSTNode, Replacement]
    ) -> dict[cst.CSTNode, Replacement]:
        """Return the edits of the loop with no name for the indices."""
        return edits if self.line is None else {**edits, self.line: cst.RemoveFromParent()}


def _has_element_per_row(site: Site, mask: cst.BaseExpression, rows: cst.Name) -> bool:
    """Return whether a mask, such as `torch.greater(rows.sum(1), 0)`, has an element for each row.

    False for a mask with a name of its own, which says as much.
    """
    seen, table = site.observed(mask), site.observed(rows)
    if seen is None or table is None or isinstance(mask, cst.Name):
        return False
    lengths = {shape[:1] for shape in table.shapes}
    return rows.value in names_read(mask) and lengths == set(seen.shapes)


def _elements(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor whose distinct elements a call of `unique` returns; None if not known."""
    match call:
        case cst.Call(func=cst.Attribute(value=tensor), args=[]) if is_tensor(site, tensor):
            return tensor
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None)]) if is_tensor(site, tensor):
            return tensor
    return None


def _find_loop(
    site: Site, known: Definitions, call: cst.Call
) -> tuple[cst.For, cst.SimpleStatementLine | None] | None:
    """Return the `for` loop over the indices from `call`, and the statement that names them.

    The statement is `indices = call`; None if `call` is in the loop's header itself. The whole
    result is None if no loop iterates over the indices, or if they have another use.
    """
    document = site.document
    node = _outermost(site, call)
    parent = document.parent(node)
    line: cst.SimpleStatementLine | None = None
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        uses = known.uses(parent.targets[0].target)
        statement = document.statement(parent)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            return None
        if len(uses) != 1 or len(known.reaching[uses[0]]) > 1:
            return None
        line = statement
        node = _outermost(site, uses[0])
        parent = document.parent(node)
    if not isinstance(parent, cst.For) or parent.iter is not node or parent.orelse is not None:
        return None
    return parent, line


def _outermost(site: Site, node: cst.CSTNode) -> cst.CSTNode:
    """Return `node` with all conversions around it that keep its indices.

    For the node `x.nonzero()` in `x.nonzero().flatten().tolist()` this is the whole expression.
    """
    document = site.document
    while True:
        parent = document.parent(node)
        outer = document.parent(parent)
        first = isinstance(parent, cst.Subscript) and parent.value is node
        if isinstance(parent, cst.Attribute) and parent.attr.value in _SAME:
            node = outer
        elif first and document.code(parent).endswith("[0]"):
            node = parent
        else:
            return node


_CATEGORIES = (Category.DYNAMIC_SHAPE, Category.NONZERO)

RULE = Rule("FG410", "loop-over-all", frozenset(one.value for one in _CATEGORIES), rewrite)

"""A choice between two elements by the length of a tensor, as a slice without a branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise

import libcst as cst

from fullgraph.rewrites.analysis import (
    Site,
    find_definitions,
    infer,
    parameter_of,
    removable_line,
    split_statements,
    walk,
)
from fullgraph.rewrites.source import (
    Document,
    Replacement,
    build_expression,
    dotted_name,
    integer_literal,
    leading_lines,
    replace_nodes,
)
from fullgraph.rewrites.transforms.branches.block_lines import lost_comments, replacement_of_if
from fullgraph.rewrites.transforms.branches.branches import blocks_of

Conditional = cst.If | cst.IfExp
_LONGER = {
    cst.GreaterThan: (0, True),
    cst.GreaterThanEqual: (-1, True),
    cst.LessThan: (-1, False),
    cst.LessThanEqual: (0, False),
}
"""What to add to a number that a length is compared with, and whether longer tensors pass."""


@dataclass(frozen=True, eq=False)
class _Positions:
    """The positions that are read in longer tensors and in others: the one before it, or -1."""

    tensor: cst.BaseExpression
    long: int
    short: int

    def read(self, node: cst.Subscript) -> cst.Subscript:
        """Return `node`, a subscript of the tensor, as one of the last element of a slice."""
        start = f"{self.short} : " if self.short > 0 else ":"
        part = build_expression(f"{{tensor}}[{start}{self.long + 1}]", tensor=self.tensor)
        first, *others = node.slice
        last = first.with_changes(slice=cst.Index(build_expression("-1")))
        return node.with_changes(value=part, slice=[last, *others])

    def select(self, long: cst.CSTNode, short: cst.CSTNode) -> cst.CSTNode | None:
        """Return the code for both branches; None if they differ in more than the position."""
        one, other = self._reads(long, self.long), self._reads(short, self.short)
        new = replace_nodes(long, one)
        return new if one and other and new.deep_equals(replace_nodes(short, other)) else None

    def _reads(self, node: cst.CSTNode, position: int) -> dict[cst.CSTNode, Replacement]:
        """Return the subscripts in `node` that read `position`, each with its new expression."""
        return {
            one: self.read(one)
            for one in walk(node)
            if isinstance(one, cst.Subscript)
            and dotted_name(one.value) == dotted_name(self.tensor)
            and _position(one.slice[0].slice) == position
        }


def find_length_choice(
    site: Site, node: Conditional
) -> tuple[dict[cst.CSTNode, Replacement], tuple[str, ...]] | None:
    """Return the edits that read with a slice what `node` chooses by a length; None for others.

    The texts say what they assume.

    `node` is `S[1] if len(S) > 1 else S[0]`, an `if` whose `else` does the same with another
    element, or `k = 1 if len(S) > 1 else 0` where `S[k]` is the only use of `k`.
    """
    compared, branches = _compared_length(site, node.test), _branches(node)
    if compared is None or branches is None:
        return None
    tensor, length, is_longer = compared
    branches = branches if is_longer else branches[::-1]
    edits = _choose_by_slice(site, node, (tensor, length), branches)
    return None if edits is None else (edits, _assumed(site, tensor))


def _assumed(site: Site, tensor: cst.BaseExpression) -> tuple[str, ...]:
    """Return what is assumed of a parameter that no annotation calls a tensor."""
    parameter, code = parameter_of(site.document, tensor), site.document.code
    if parameter is None or not isinstance(tensor, cst.Name):
        return ()
    told = code(parameter.annotation) if parameter.annotation is not None else ""
    return () if "Tensor" in told else (f"`{code(tensor)}` is a tensor in each call",)


def _choose_by_slice(
    site: Site,
    node: Conditional,
    longer: tuple[cst.BaseExpression, int],
    branches: Sequence[cst.CSTNode],
) -> dict[cst.CSTNode, Replacement] | None:
    """Return the edits for a tensor that is longer than a number in the first of the branches."""
    (tensor, length), (long, short) = longer, branches
    for position in (length - 1, -1):
        found = _Positions(tensor, length, position)
        if (new := found.select(long, short)) is not None:
            if isinstance(node, cst.IfExp):
                return {node: new}
            assert isinstance(new, cst.BaseSmallStatement)
            line = cst.SimpleStatementLine([new])
            return {node: replacement_of_if(blocks_of(node), [line], site.document.parent(node))}
        if (_number(long), _number(short)) == (length, position):
            return _inline_position(site, node, found, (long, short))
    return None


def _compared_length(
    site: Site, test: cst.BaseExpression
) -> tuple[cst.BaseExpression, int, bool] | None:
    """Return a tensor, a number, and whether `test` asks if the tensor is longer than the number.

    Else `test` asks if it is not longer. None for other conditions.
    """
    match test:
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
            pass
        case _:
            return None
    if type(operator) not in _LONGER:
        return None
    added, is_longer = _LONGER[type(operator)]
    if integer_literal(left) is not None:
        left, right = right, left
        added, is_longer = -1 - added, not is_longer
    tensor, number = _measured(site, left), integer_literal(right)
    if tensor is None or number is None or number + added < 1 or not site.is_tensor(tensor):
        return None
    return tensor, number + added, is_longer


def _measured(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the variable or attribute whose length an expression is; None for others."""
    match node:
        case cst.Call(func=cst.Name("len"), args=[cst.Arg(value=tensor)]):
            pass
        case cst.Subscript(value=cst.Attribute(value=tensor, attr=cst.Name("shape"))) if (
            _position(node.slice[0].slice) == 0
        ):
            pass
        case cst.Call(
            func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=[cst.Arg(value=first)]
        ) if integer_literal(first) == 0:
            pass
        case cst.Call(
            func=cst.Attribute(value=tensor, attr=cst.Name("numel" | "nelement")), args=[]
        ) if (seen := infer(site, tensor)) is not None and seen.dims == {1}:
            pass
        case _:
            return None
    return tensor if dotted_name(tensor) else None


def _position(part: cst.BaseSlice) -> int | None:
    """Return an index that is an integer literal; None for others."""
    return integer_literal(part.value) if isinstance(part, cst.Index) else None


def _branches(node: Conditional) -> Sequence[cst.CSTNode] | None:
    """Return the values of a conditional expression, or the only statements of both blocks."""
    if isinstance(node, cst.IfExp):
        return node.body, node.orelse
    if not isinstance(node.orelse, cst.Else):
        return None
    blocks = split_statements(node.body), split_statements(node.orelse.body)
    if any(len(one) != 1 or not isinstance(one[0], cst.BaseSmallStatement) for one in blocks):
        return None
    return [one[0] for one in blocks]


def _number(branch: cst.CSTNode) -> int | None:
    """Return the integer literal that a branch is, or assigns; None for others."""
    value = branch.value if isinstance(branch, cst.Assign) else branch
    return integer_literal(value) if isinstance(value, cst.BaseExpression) else None


def _inline_position(
    site: Site, node: Conditional, found: _Positions, branches: Sequence[cst.CSTNode]
) -> dict[cst.CSTNode, Replacement] | None:
    """Return the edits for positions that a conditional gives to one subscript of the tensor.

    None if they are used otherwise. `branches` are the values, or the assignments of them.
    """
    document = site.document
    parent = document.parent(node)
    if isinstance(node, cst.IfExp) and not isinstance(parent, cst.Assign):
        read = _subscript_with(document, node, found)
        return None if read is None else {read: found.read(read)}
    assigns = [parent] if isinstance(node, cst.IfExp) else branches
    targets = [
        one.targets[0].target
        for one in assigns
        if isinstance(one, cst.Assign) and len(one.targets) == 1
    ]
    known = find_definitions(document, node)
    if known is None or len(targets) < len(assigns):
        return None
    uses = known.uses(targets[0])
    if len(uses) != 1 or known.reaching[uses[0]] != {*targets}:
        return None
    read = _subscript_with(document, uses[0], found)
    line = node if isinstance(node, cst.If) else removable_line(document, parent)
    if read is None or line is None or not isinstance(found.tensor, cst.Name):
        return None
    assert isinstance(read.value, cst.Name)
    if known.reaching[read.value] != known.reaching[found.tensor]:
        return None
    return _move_up(document, line, read, found)


def _subscript_with(
    document: Document, index: cst.BaseExpression, found: _Positions
) -> cst.Subscript | None:
    """Return the subscript of the tensor with an expression as its first index; None without."""
    part = document.parent(index)
    read = document.parent(document.parent(part))
    if not isinstance(read, cst.Subscript) or read.slice[0].slice is not part:
        return None
    return read if dotted_name(read.value) == dotted_name(found.tensor) else None


def _move_up(
    document: Document, line: cst.CSTNode, read: cst.Subscript, found: _Positions
) -> dict[cst.CSTNode, Replacement] | None:
    """Return the edits that drop a statement before `read`; its comments go to the next one."""
    block = document.parent(line)
    body = block.body if isinstance(block, cst.IndentedBlock | cst.Module) else ()
    after = next((new for old, new in pairwise(body) if old is line), None)
    if after is None:
        return None
    edits: dict[cst.CSTNode, Replacement] = {read: found.read(read)}
    above, below = [*leading_lines(line), *lost_comments(line, [])], leading_lines(after)
    if any(one.comment for one in above):
        above += dropwhile(lambda one: one.comment is None, below)
    inside = any(one is read for one in walk(after))
    moved = replace_nodes(after, edits if inside else {})
    moved = moved.with_changes(leading_lines=above or below)
    return {line: cst.RemoveFromParent(), after: moved, **({} if inside else edits)}

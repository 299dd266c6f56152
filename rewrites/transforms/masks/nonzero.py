"""Indices of true elements, `hits = m.nonzero()`, and what code computes from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import libcst as cst

from fullgraph.rewrites.analysis import (
    Site,
    assigned_values,
    find_definitions,
)
from fullgraph.rewrites.source import build_expression, integer_literal
from fullgraph.rewrites.transforms.masks.operators import integer_literals


class QuestionKind(Enum):
    """A fact about the indices of true elements that the mask itself can give."""

    FIRST = "first"
    LAST = "last"
    NTH = "nth"
    """The one at `Question.position`."""
    COUNT = "count"
    """How many true elements there are."""
    ANY = "any"
    """Whether there is a true element."""
    NONE = "none"
    """Whether there is no true element."""


@dataclass(frozen=True, eq=False)
class Question:
    """Expression over the indices of true elements that can be computed from the mask instead."""

    node: cst.BaseExpression
    asked: QuestionKind
    """What the expression computes."""
    kept: bool = False
    """Whether an index keeps a size-one dimension."""
    is_single: bool = False
    """Whether the code assumes exactly one index: `.item()`."""
    position: cst.BaseExpression | None = None
    """Of the one at a position, that position: 1 for the second; never negative."""

    @property
    def reads_index(self) -> bool:
        """Return whether an index is read, and not only their number."""
        return self.asked in (QuestionKind.FIRST, QuestionKind.LAST, QuestionKind.NTH)


@dataclass(frozen=True, eq=False)
class NonzeroIndices:
    """Result of `m.nonzero()` and similar calls."""

    mask: cst.BaseExpression
    dims: int
    """The number of the mask's dimensions; 0 if unknown."""
    is_bool: bool
    value: cst.BaseExpression
    """The outermost expression with the indices, such as `m.nonzero().squeeze(1)`."""
    flat: bool
    """Whether the indices have only one dimension."""
    uses: tuple[cst.BaseExpression, ...]
    """The uses of the indices: `value` itself, or the uses of the name it is bound to."""
    bound: bool
    """Whether a name is bound to `value`."""

    @property
    def truth(self) -> cst.BaseExpression:
        """Return the mask as a boolean tensor."""
        mask = self.mask.with_changes(lpar=(), rpar=())
        return mask if self.is_bool else build_expression("{mask} != 0", mask=mask)


def find_indices(site: Site) -> NonzeroIndices | None:
    """Return the indices that the call at a site computes; None if it computes no indices."""
    call = site.node
    found = parse_nonzero(site, call)
    if found is None or not isinstance(call, cst.Call):
        return None
    mask, is_tuple = found
    value, flat = flattening_around(site, call, is_tuple)
    if is_tuple and not flat:
        return None
    seen = site.observed(mask)
    dims = next(iter(seen.dims)) if seen is not None and len(seen.dims) == 1 else 0
    is_bool = seen is None or seen.dtypes == {"bool"}
    uses = _uses_of(site, value)
    bound = uses is not None
    return NonzeroIndices(
        mask, dims, is_bool, value, flat, (value,) if uses is None else uses, bound
    )


def parse_nonzero(site: Site, node: cst.CSTNode) -> tuple[cst.BaseExpression, bool] | None:
    """Return the mask whose indices a call returns, and whether it returns a tuple.

    None if `node` is no such call.
    """
    if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return None
    name = site.callee_name(node)
    plain = [arg.value for arg in node.args if arg.keyword is None]
    options = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    given = options.pop("as_tuple", None)
    is_tuple = isinstance(given, cst.Name) and given.value == "True"
    if options:
        return None
    if name in ("torch.nonzero", "torch.argwhere", "torch.where") and len(plain) == 1:
        return plain[0], is_tuple or name == "torch.where"
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if method in ("nonzero", "argwhere") and not plain and isinstance(node.func, cst.Attribute):
        return node.func.value, is_tuple
    return None


def question_of(site: Site, found: NonzeroIndices, use: cst.BaseExpression) -> Question | None:
    """Return what a use computes from the indices; None if it needs the indices themselves."""
    parent = site.document.parent(use)
    outer = site.document.parents.get(parent)
    match parent:
        case cst.Arg() if isinstance(outer, cst.Call) and site.callee_name(outer) == "len":
            return _question_of_count(site, outer)
        case cst.Arg() if isinstance(outer, cst.Call) and site.callee_name(outer) == "int":
            return Question(use, QuestionKind.FIRST, is_single=True)
        case cst.Attribute() if isinstance(outer, cst.Call) and outer.func is parent:
            return _question_of_method(site, found, parent.attr.value, outer)
        case cst.Attribute() if parent.attr.value == "shape" and isinstance(outer, cst.Subscript):
            return _question_of_count(site, outer) if _literal_index(outer) == (0,) else None
        case cst.Subscript() if parent.value is use:
            return _question_of_index(site, found, parent)
    return None


def answer_question(
    question: Question | QuestionKind, mask: cst.BaseExpression, dim: str = ""
) -> cst.BaseExpression:
    """Return code that computes from `mask` what the program asks of `mask.nonzero()`.

    "mask.int().argmax()" for the first index, "mask.sum()" for the number of indices. `dim` is the
    source of the dimension to search along, such as "1"; "" for the whole mask.
    """
    asked = question.asked if isinstance(question, Question) else question
    match asked:
        case QuestionKind.FIRST:
            return build_expression("{mask}.int().argmax(" + dim + ")", mask=mask)
        case QuestionKind.LAST:
            last = "{mask}.shape[-1] - 1 - {mask}.flip(-1).int().argmax(" + dim + ")"
            return build_expression(last, mask=mask)
        case QuestionKind.NTH:
            assert isinstance(question, Question) and question.position is not None
            nth = "({mask}.cumsum(-1) > {position}).int().argmax(" + dim + ")"
            return build_expression(nth, mask=mask, position=question.position)
        case QuestionKind.COUNT:
            return build_expression("{mask}.sum(" + dim + ")", mask=mask)
        case QuestionKind.ANY:
            return build_expression("{mask}.any(" + dim + ")", mask=mask)
    return build_expression("~{mask}.any(" + dim + ")", mask=mask)


def flattening_around(
    site: Site, node: cst.BaseExpression, is_tuple: bool
) -> tuple[cst.BaseExpression, bool]:
    """Return the expression around `node` that makes its indices 1-d, and True.

    If there is none, return `node` and False. `is_tuple` tells whether `node` is a tuple with a
    tensor for each dimension, as `torch.where(m)` returns it.
    """
    parent = site.document.parent(node)
    outer = site.document.parents.get(parent)
    if isinstance(parent, cst.Subscript) and parent.value is node:
        if is_tuple and _literal_index(parent) == (0,):
            return parent, True
        if not is_tuple and site.document.code(parent).endswith("[:, 0]"):
            return parent, True
    if isinstance(parent, cst.Attribute) and isinstance(outer, cst.Call) and not is_tuple:
        options = [integer_literal(arg.value) for arg in outer.args]
        flat = {"squeeze": ([1], [-1]), "view": ([-1],), "reshape": ([-1],), "flatten": ([],)}
        if outer.func is parent and options in flat.get(parent.attr.value, ()):
            return outer, True
    return node, False


def _uses_of(site: Site, value: cst.BaseExpression) -> tuple[cst.Name, ...] | None:
    """Return the uses of `hits` in `hits = value`.

    Empty if a use may read another value of the name. None if `value` is not assigned to a single
    local name.
    """
    parent = site.document.parent(value)
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0].target
    known = find_definitions(site.document, value)
    if not isinstance(target, cst.Name) or known is None:
        return None
    uses = tuple(known.uses(target))
    alone = all(known.reaching[use] == {target} for use in uses)
    return uses if alone else ()


def _question_of_method(
    site: Site, found: NonzeroIndices, name: str, call: cst.Call
) -> Question | None:
    """Return what a method call computes from the indices: their number, the first, the last.

    None for other methods.
    """
    if name in ("numel", "nelement") and not call.args:
        return _question_of_count(site, call)
    if name == "size" and [integer_literal(arg.value) for arg in call.args] == [0]:
        return _question_of_count(site, call)
    if name == "item" and not call.args and isinstance(call.func, cst.Attribute):
        return Question(call.func.value, QuestionKind.FIRST, is_single=True)
    if name in ("min", "max") and not call.args:
        return Question(call, QuestionKind.FIRST if name == "min" else QuestionKind.LAST)
    return None


def _question_of_index(site: Site, found: NonzeroIndices, node: cst.Subscript) -> Question | None:
    """Return which of the indices a subscript such as `hits[0]` reads, as a Question.

    None if it does not read exactly one index.
    """
    index = _literal_index(node)
    if index is None or index[0] not in (0, -1):
        position = _position_of(site, node)
        if position is None or (index is not None and len(index) > 1 and found.flat):
            return None
        if index is not None and len(index) > 1:
            return Question(node, QuestionKind.NTH, position=position) if index[1] == 0 else None
        return _read_one(site, found, node, QuestionKind.NTH, position)
    asked = QuestionKind.FIRST if index[0] == 0 else QuestionKind.LAST
    if found.flat:
        return Question(node, asked) if len(index) == 1 else None
    if len(index) == 2:
        return Question(node, asked) if index[1] == 0 else None
    return _read_one(site, found, node, asked)


def _read_one(
    site: Site,
    found: NonzeroIndices,
    node: cst.Subscript,
    asked: QuestionKind,
    position: cst.BaseExpression | None = None,
) -> Question:
    """Return the Question for `node`, the subscript `hits[i]`, which reads one index.

    If `hits` is 2-d, `hits[i]` has a dimension of size 1; then the Question is for `hits[i][0]` if
    that is what the code reads. `asked` tells which index it is, for NTH with `i` as `position`.
    """
    outer = site.document.parent(node)
    if found.flat:
        return Question(node, asked, position=position)
    if isinstance(outer, cst.Subscript) and outer.value is node and _literal_index(outer) == (0,):
        return Question(outer, asked, position=position)
    as_number = isinstance(outer, cst.Attribute) and outer.attr.value == "item"
    kept = not (as_number and asked is QuestionKind.NTH)
    return Question(node, asked, kept=kept, position=position)


def _position_of(site: Site, node: cst.Subscript) -> cst.BaseExpression | None:
    """Return `i` of `hits[i]`; None unless each value it may have is a nonnegative literal."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=index)), *_]:
            pass
        case _:
            return None
    if isinstance(index, cst.Integer):
        return index
    values = assigned_values(site.document, index)
    return index if values and all(_is_position(value) for value in values) else None


def _is_position(value: cst.BaseExpression | None) -> bool:
    """Return whether a value is a nonnegative literal, or `0 if t else 1` with two of them."""
    if isinstance(value, cst.IfExp):
        return _is_position(value.body) and _is_position(value.orelse)
    return isinstance(value, cst.Integer)


def _question_of_count(site: Site, count: cst.BaseExpression) -> Question:
    """Return what the code computes from `count`, an expression for the number of indices.

    ANY or NONE if the number is only compared with zero or used as a condition; else COUNT.
    """
    parent = site.document.parent(count)
    if isinstance(parent, cst.If | cst.IfExp) and parent.test is count:
        return Question(count, QuestionKind.ANY)
    if isinstance(parent, cst.Comparison) and len(parent.comparisons) == 1:
        one = parent.comparisons[0]
        case = (type(one.operator), integer_literal(one.comparator))
        if parent.left is count and case in _SOME:
            return Question(parent, QuestionKind.ANY)
        if parent.left is count and case in _NOTHING:
            return Question(parent, QuestionKind.NONE)
    return Question(count, QuestionKind.COUNT)


_SOME = ((cst.GreaterThan, 0), (cst.NotEqual, 0), (cst.GreaterThanEqual, 1))
_NOTHING = ((cst.Equal, 0), (cst.LessThan, 1), (cst.LessThanEqual, 0))


def _literal_index(node: cst.Subscript) -> tuple[int, ...] | None:
    """Return the indices of a subscript if all are integer literals; else None."""
    found = [
        integer_literals(s.slice.value) if isinstance(s.slice, cst.Index) else None
        for s in node.slice
    ]
    if any(one is None or len(one) != 1 for one in found):
        return None
    return tuple(one[0] for one in found if one)

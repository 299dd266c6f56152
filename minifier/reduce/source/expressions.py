"""Expressions that become smaller ones: a part of themselves, or the value they had."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import libcst as cst

from fullgraph.minifier.reduce.source.observe import Facts, Seen
from fullgraph.minifier.reduce.source.tree import Edit, Tree, hoisted, put, removal

Expression = cst.BaseExpression

_OPAQUE = (
    cst.Annotation,
    cst.Decorator,
    cst.Import,
    cst.ImportFrom,
    cst.AsName,
    cst.NameItem,
    cst.Del,
    cst.ExceptHandler,
    cst.Raise,
    cst.FormattedString,
    cst.ConcatenatedString,
    cst.MatchCase,
    cst.CompFor,
    cst.Expr,
)
_LITERALS = (cst.BaseNumber, cst.BaseString)


class Values:
    """The expressions of a tree that another value could stand for."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.paths = _fixed_names(tree)
        self.nodes = [n for n in tree.of(cst.BaseExpression) if self._is_value(n)]  # type: ignore[type-abstract]
        known = set(self.nodes)
        self.around: dict[Expression, Expression | None] = {}
        for node in self.nodes:
            outer = next((one for one in tree.around(node) if one in known or _is_line(one)), None)
            self.around[node] = outer if outer in known else None  # type: ignore[assignment]

    def level(self, node: Expression) -> int:
        """How many values hold this one."""
        count, outer = 0, self.around[node]
        while outer is not None:
            count, outer = count + 1, self.around[outer]
        return count

    def parts(self, node: Expression) -> list[Expression]:
        """The values right inside `node`."""
        return [one for one in self.nodes if self.around[one] is node]

    def below(self, node: Expression) -> Iterator[Expression]:
        """All values inside `node`, the outer ones first."""
        for part in self.parts(node):
            yield part
            yield from self.below(part)

    def seen(self, node: Expression, facts: Facts) -> Seen | None:
        place = self.tree.place(node)
        return None if place is None else facts.values.get(place)

    def _is_value(self, node: Expression) -> bool:
        if self._is_path(node) or isinstance(node, cst.StarredElement):
            return False
        parent = self.tree.parents[node]
        match parent:
            case cst.Attribute():
                return node is parent.value
            case cst.Call():
                return node is not parent.func or isinstance(node, cst.Call)
            case cst.Arg():
                holder = self.tree.parents[parent]
                return node is parent.value and not isinstance(holder, cst.ClassDef)
            case cst.Param():
                return node is parent.default
            case cst.AssignTarget() | cst.ClassDef() | cst.FunctionDef() | cst.ImportAlias():
                return False
            case cst.AugAssign() | cst.AnnAssign() | cst.NamedExpr():
                return node is parent.value
            case cst.For() | cst.CompFor():
                return node is parent.iter
            case cst.Element() | cst.StarredElement():
                holder = self.tree.parents[parent]
                return isinstance(holder, Expression) and self._is_value(holder)
            case cst.DictElement():
                return node is parent.value
        return not isinstance(parent, _OPAQUE) and not isinstance(node, cst.Ellipsis)

    def _is_path(self, node: Expression) -> bool:
        """Whether it is the name of something that the text imports or defines."""
        while isinstance(node, cst.Attribute):
            node = node.value
        return isinstance(node, cst.Name) and node.value in self.paths


def bypasses(facts: Facts, level: int) -> Callable[[Tree], list[Edit]]:
    """Tensors `level` deep, replaced by the smallest tensor inside that has their shape."""

    def propose(tree: Tree) -> list[Edit]:
        values = Values(tree)
        found = []
        for node in values.nodes:
            if values.level(node) != level:
                continue
            seen = values.seen(node, facts)
            if seen is None or not seen.tensor:
                continue
            inner = [
                one for one in values.below(node) if (s := values.seen(one, facts)) and s == seen
            ]
            if inner:
                found.append(hoisted(tree, node, min(inner, key=lambda one: len(tree.code(one)))))
        return found

    return propose


def known_values(facts: Facts) -> Callable[[Tree], list[Edit]]:
    """Numbers, booleans and strings that are computed, replaced by what they always were."""

    def propose(tree: Tree) -> list[Edit]:
        values = Values(tree)
        found: list[Edit] = []
        taken: set[Expression] = set()
        for node in values.nodes:
            if values.around[node] in taken:
                taken.add(node)
                continue
            seen = values.seen(node, facts)
            if seen is None or not seen.literal or isinstance(node, _LITERALS):
                continue
            if tree.code(node) in ("True", "False", "None", seen.literal):
                continue
            taken.add(node)
            found.append(put(tree, node, seen.literal, len(tree.code(node))))
        return found

    return propose


def cuts(facts: Facts, level: int) -> Callable[[Tree], list[Edit]]:
    """What computes a tensor `level` deep, replaced by a tensor of ones of the same shape."""

    def propose(tree: Tree) -> list[Edit]:
        values = Values(tree)
        found = []
        for node in values.nodes:
            seen = values.seen(node, facts)
            if values.level(node) != level or seen is None or not seen.tensor:
                continue
            text = _ones(seen)
            if text and not isinstance(node, cst.Name) and not _is_made(tree, node):
                found.append(put(tree, node, text, len(tree.code(node))))
        return found

    return propose


def parts(tree: Tree) -> list[Edit]:
    """Every expression replaced by a part of it, large savings first."""
    values = Values(tree)
    found = []
    for node in values.nodes:
        for part in values.parts(node):
            if isinstance(part, _LITERALS) and not isinstance(node, cst.BinaryOperation):
                continue
            found.append(hoisted(tree, node, part))
    return sorted(found, key=lambda edit: -edit.size)


def elements(tree: Tree) -> list[Edit]:
    """The removals of arguments, keywords first, and of elements of tuples, lists and dicts."""
    keywords: list[Edit] = []
    others: list[Edit] = []
    for node in tree.of(cst.Arg, cst.Element, cst.StarredElement, cst.DictElement):
        parent = tree.parents[node]
        if isinstance(parent, cst.ClassDef) or isinstance(tree.parents[parent], cst.AssignTarget):
            continue
        named = isinstance(node, cst.Arg) and node.keyword is not None
        (keywords if named else others).append(removal(node, len(tree.code(node))))
    indices = [
        removal(node, len(tree.code(node)))
        for node in tree.of(cst.SubscriptElement)
        if len(tree.parents[node].slice) > 1  # type: ignore[attr-defined]
    ]
    return keywords + others[::-1] + indices


def displayed(tree: Tree) -> list[Edit]:
    """The removals of elements of tuples, lists and dicts that are values."""
    values = set(Values(tree).nodes)
    return [
        removal(node, len(tree.code(node)))
        for node in tree.of(cst.Element, cst.DictElement)
        if tree.parents[node] in values
    ]


def _is_made(tree: Tree, node: Expression) -> bool:
    """Whether a tensor is made from nothing, as `torch.ones(2, 3)` is."""
    return tree.code(node).startswith(("torch.ones(", "torch.zeros("))


def _ones(seen: Seen) -> str:
    """A tensor of ones, or of zeros for indices; "" for what torch does not make that way."""
    kind, _, rest = seen.kind.partition(" torch.")
    dtype, _, rest = rest.partition(" ")
    shape, _, device = rest.rpartition(" ")
    if kind != "Tensor" or device != "cpu":
        return ""
    inner = shape.strip("()").rstrip(",") or "()"
    if dtype == "float32":
        return f"torch.ones({inner})"
    made = "zeros" if dtype.startswith(("int", "uint")) else "ones"
    return f"torch.{made}({inner}, dtype=torch.{dtype})"


def _is_line(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseSmallStatement | cst.BaseStatement)


def _fixed_names(tree: Tree) -> frozenset[str]:
    """What is imported, or defined at the top; and Python's own functions."""
    found = {"super", "isinstance", "range", "len", "print", "enumerate", "zip"}
    for node in ast.walk(ast.parse(tree.text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return frozenset(found)

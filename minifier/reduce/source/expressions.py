"""Proposals for expressions: a subexpression in place of it, or its value in eager."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import libcst as cst

from fullgraph.compiler.facts import ValueSummary
from fullgraph.minifier.reduce.source.observe import ObservedRun
from fullgraph.minifier.reduce.source.source_tree import (
    SourceTree,
    TreeEdit,
    hoist,
    remove_node,
    replace_expression,
)

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
"""Nodes whose direct expressions must not be replaced."""
_NOT_RUN = ValueSummary(types=(), count=0)
Metadata = tuple[str, str, tuple[int, ...], str]
"""Class, dtype, shape and device of a tensor or array."""
_LITERALS = (cst.BaseNumber, cst.BaseString)


class ValueExpressions:
    """The expressions of a text that only give a value, so that another one can replace them.

    In `y = f(x + 1)`: `f(x + 1)`, `x + 1`, `x` and `1`, but neither `y` nor `f`.
    """

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.paths = _fixed_names(tree)
        self.nodes = [n for n in tree.nodes_of_kind(cst.BaseExpression) if self._is_value(n)]  # type: ignore[type-abstract]
        known = set(self.nodes)
        self.enclosing: dict[Expression, Expression | None] = {}
        """The replaceable expression around each one; None if there is none."""
        for node in self.nodes:
            outer = next(
                (one for one in tree.ancestors(node) if one in known or _is_statement(one)), None
            )
            self.enclosing[node] = (
                outer if isinstance(outer, cst.BaseExpression) and outer in known else None
            )

    def level(self, node: Expression) -> int:
        """Return the number of replaceable expressions around `node`."""
        count, outer = 0, self.enclosing[node]
        while outer is not None:
            count, outer = count + 1, self.enclosing[outer]
        return count

    def subexpressions(self, node: Expression) -> list[Expression]:
        """Return the replaceable expressions in `node`, without those inside others."""
        return [one for one in self.nodes if self.enclosing[one] is node]

    def below(self, node: Expression) -> Iterator[Expression]:
        """Yield all replaceable expressions in `node`, outer ones first."""
        for part in self.subexpressions(node):
            yield part
            yield from self.below(part)

    def literal(self, node: Expression, facts: ObservedRun) -> str:
        """Return the observed value as source; "" if it is long or was not always the same."""
        seen = self._observed(node, facts)
        if not len(seen.types) == len(seen.values) == 1:
            return ""
        value = seen.values[0]
        if isinstance(value, int) and value.bit_length() > 100:  # `repr` refuses the longest
            return ""
        text = repr(value)
        return "" if len(text) > 30 or text.strip("-").startswith(("inf", "nan")) else text

    def tensor(self, node: Expression, facts: ObservedRun) -> Metadata | None:
        """Return the metadata of the first observed value; None if it was no tensor or array."""
        seen = self._observed(node, facts)
        for one in (*seen.tensors, *seen.arrays):
            return one.kind.replace("Parameter", "Tensor"), one.dtype, one.shape, one.device
        return None

    def _observed(self, node: Expression, facts: ObservedRun) -> ValueSummary:
        """Return the observed values of an expression, empty if it was not evaluated."""
        place = self.tree.place(node)
        return facts.values.get(place, _NOT_RUN) if place is not None else _NOT_RUN

    def _is_value(self, node: Expression) -> bool:
        """Return whether an expression only gives a value, so that another can replace it."""
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
        """Return whether `node` is a fixed name of the text, or an attribute of one."""
        while isinstance(node, cst.Attribute):
            node = node.value
        return isinstance(node, cst.Name) and node.value in self.paths


def tensor_bypasses(facts: ObservedRun, level: int) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer of `x` in place of `relu(x)` if both had the same shape, dtype and device.

    `facts` has the metadata, from an eager run. `level` selects the expressions to replace: those
    that are inside `level` other ones. Each is replaced by the shortest one inside it that fits.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose an inner tensor expression in place of each tensor expression."""
        values = ValueExpressions(tree)
        found = []
        for node in values.nodes:
            if values.level(node) != level:
                continue
            tensor = values.tensor(node, facts)
            if tensor is None:
                continue
            inner = [one for one in values.below(node) if values.tensor(one, facts) == tensor]
            if inner:
                found.append(hoist(tree, node, min(inner, key=lambda one: len(tree.code(one)))))
        return found

    return propose


def constant_values(facts: ObservedRun) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer of the value that an expression had in eager: `2` for `len(x.shape)`.

    It replaces numbers, booleans and strings that were always the same. `facts` has the values.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose a literal in place of each computed number, boolean or string."""
        values = ValueExpressions(tree)
        found: list[TreeEdit] = []
        replaced: set[Expression] = set()
        for node in values.nodes:
            if values.enclosing[node] in replaced:
                replaced.add(node)
                continue
            literal = values.literal(node, facts)
            if not literal or isinstance(node, _LITERALS):
                continue
            if tree.code(node) in ("True", "False", "None", literal):
                continue
            replaced.add(node)
            found.append(replace_expression(tree, node, literal, len(tree.code(node))))
        return found

    return propose


def replace_with_ones(facts: ObservedRun, level: int) -> Callable[[SourceTree], list[TreeEdit]]:
    """Return a proposer of `torch.ones(2, 3)` in place of a tensor expression of that shape.

    It replaces the expressions that are inside `level` other ones. `facts` has the shapes in eager.
    """

    def propose(tree: SourceTree) -> list[TreeEdit]:
        """Propose `torch.ones` or `torch.zeros` in place of each tensor expression."""
        values = ValueExpressions(tree)
        found = []
        for node in values.nodes:
            tensor = values.tensor(node, facts)
            if values.level(node) != level or tensor is None:
                continue
            text = _ones_text(tensor)
            if text and not isinstance(node, cst.Name) and not _is_ones_or_zeros(tree, node):
                found.append(replace_expression(tree, node, text, len(tree.code(node))))
        return found

    return propose


def propose_subexpressions(tree: SourceTree) -> list[TreeEdit]:
    """Propose `x` in place of `f(x)`, for each subexpression of the text, large savings first."""
    values = ValueExpressions(tree)
    found = []
    for node in values.nodes:
        for part in values.subexpressions(node):
            if isinstance(part, _LITERALS) and not isinstance(node, cst.BinaryOperation):
                continue
            found.append(hoist(tree, node, part))
    return sorted(found, key=lambda edit: -edit.size)


def remove_elements(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each argument, element, index and part of an f-string, one per edit."""
    keywords: list[TreeEdit] = []
    others: list[TreeEdit] = []
    for node in tree.nodes_of_kind(cst.Arg, cst.Element, cst.StarredElement, cst.DictElement):
        parent = tree.parents[node]
        if isinstance(parent, cst.ClassDef) or isinstance(tree.parents[parent], cst.AssignTarget):
            continue
        named = isinstance(node, cst.Arg) and node.keyword is not None
        (keywords if named else others).append(remove_node(node, len(tree.code(node))))
    indices = [
        remove_node(node, len(tree.code(node)))
        for node in tree.nodes_of_kind(cst.SubscriptElement)
        if isinstance(parent := tree.parents[node], cst.Subscript) and len(parent.slice) > 1
    ]
    parts = [
        remove_node(node, len(tree.code(node)))
        for whole in tree.nodes_of_kind(cst.FormattedString)
        for node in whole.parts
        if len(whole.parts) > 1
    ]
    return keywords + others[::-1] + indices + parts


def literal_elements(tree: SourceTree) -> list[TreeEdit]:
    """Propose to remove each element of a tuple, list or dict, except in a target: `a, b = x`."""
    values = set(ValueExpressions(tree).nodes)
    return [
        remove_node(node, len(tree.code(node)))
        for node in tree.nodes_of_kind(cst.Element, cst.DictElement)
        if tree.parents[node] in values
    ]


def _is_ones_or_zeros(tree: SourceTree, node: Expression) -> bool:
    """Return whether an expression is a call of `torch.ones` or `torch.zeros`."""
    return tree.code(node).startswith(("torch.ones(", "torch.zeros("))


def _ones_text(tensor: Metadata) -> str:
    """Return source for a tensor with this metadata: "torch.ones(2, 3)".

    It has zeros if its dtype is an integer one. "" for an array, and for a tensor not on the CPU.
    """
    kind, dtype, shape, device = tensor
    if kind != "Tensor" or device != "cpu":
        return ""
    inner = ", ".join(map(str, shape)) or "()"
    if dtype == "float32":
        return f"torch.ones({inner})"
    made = "zeros" if dtype.startswith(("int", "uint")) else "ones"
    return f"torch.{made}({inner}, dtype=torch.{dtype})"


def _is_statement(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseSmallStatement | cst.BaseStatement)


def _fixed_names(tree: SourceTree) -> frozenset[str]:
    """Return the names that proposers leave alone: imports, functions, classes, some builtins."""
    found = {"super", "isinstance", "range", "len", "print", "enumerate", "zip"}
    for node in ast.walk(ast.parse(tree.text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return frozenset(found)

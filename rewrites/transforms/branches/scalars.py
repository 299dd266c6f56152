"""Uses of a scalar, and the same code with a 0-d tensor in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import libcst as cst

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import TensorSummary, Term, ValueSummary
from fullgraph.rewrites.analysis import (
    Knowledge,
    NotApplicable,
    Site,
    find_definitions,
    follow_or_assume,
    infer,
    is_tensor,
    skipping_flag,
    walk,
)
from fullgraph.rewrites.source import Replacement, build_expression, replace_nodes
from fullgraph.rewrites.transforms.branches.branches import leaves_early
from fullgraph.rewrites.transforms.branches.predicate import (
    Decision,
    find_conditional,
    predicate_of,
    tensor_of,
)
from fullgraph.rewrites.transforms.branches.use_cond import CondWriter
from fullgraph.rewrites.transforms.branches.use_where import WhereWriter
from fullgraph.rewrites.transforms.branches.whole_branch import edits_for_branch
from fullgraph.rewrites.transforms.number_tensor import argument_behind
from fullgraph.rewrites.transforms.random import find_random_calls

_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_AUGMENTED = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
Edits = dict[cst.CSTNode, Replacement]


@dataclass
class Numbers:
    """Calls that return Python numbers, each with the tensor that replaces it."""

    site: Site
    tensors: Mapping[cst.Call, cst.BaseExpression]
    decisions: list[cst.If | cst.IfExp] = field(default_factory=list)
    """Conditionals that depend on the scalars, in order."""
    assumes: dict[str, None] = field(default_factory=dict)
    tests: list[cst.BaseExpression] = field(default_factory=list)
    has_shortcut: bool = False
    """Whether eager code goes on to skip work (`Rewrite.has_shortcut`)."""
    device: str = "cpu"
    dtype: str = "float64"
    zero_dim_operands: dict[cst.BaseExpression, cst.BaseExpression] = field(default_factory=dict)
    """For each operation on a scalar and a 0-d tensor that tensor: its dtype must be kept."""
    operands: list[cst.BaseExpression] = field(default_factory=list)
    """The tensors that the scalars meet."""
    _names: set[str] = field(default_factory=set)
    """The variables that hold the number."""
    _divisors: list[cst.BaseExpression] = field(default_factory=list)
    _known: dict[Position, ValueSummary | None] = field(default_factory=dict)
    """Facts that override the observed ones, since the scalars are now tensors; None: unknown."""

    def follow(self, call: cst.Call, dtype: str, device: str = "cpu") -> None:
        """Follow every use of the number that `call` returns, up to the branches on it.

        `dtype` and `device` are those of its tensor. Raises NotApplicable if a tensor cannot
        replace the number.
        """
        self.device, self.dtype = device, dtype
        tensor = TensorSummary(dtype, (), device, False, True)
        self._follow_uses(call, ValueSummary(("torch.Tensor",), 1, (tensor,)))

    def edits(self) -> Edits:
        """Return the edits of the conditionals and of the scalars. Raises NotApplicable."""
        facts = _Facts(self.site.facts, self._known)
        found: Edits = {}
        self._assume_nonzero()
        for node in self.decisions:
            if any(one in tuple(self.site.document.ancestors(node)) for one in self.decisions):
                continue  # an `elif`: it goes with its `if`
            if self._is_never_tested(node):
                continue
            site = replace(self.site, node=node, facts=facts)
            found |= self._rewrite_branch(site, node)
        made = [one for one in found.values() if isinstance(one, cst.CSTNode)]
        made += [n for one in found.values() if isinstance(one, cst.FlattenSentinel) for n in one]
        plain: Edits = {}
        for call, tensor in self.tensors.items():
            again = [n for one in made for n in walk(one) if call.deep_equals(n)]
            inside = any(one in found for one in self.site.document.ancestors(call))
            if inside and len(again) != 1:
                raise NotApplicable("the number would not be drawn exactly once")
            if not inside:
                plain[call] = tensor
        plain = self._keep_dtype(plain, found)
        return plain | {node: _exchange_calls(new, self.tensors) for node, new in found.items()}

    def _keep_dtype(self, plain: Edits, found: Edits) -> Edits:
        """Write `(n * t[None]).squeeze(0)` for `n * t`, so that the dtype of `t` is kept.

        `plain` are the edits of scalars outside of the rewritten conditionals `found`.
        """
        ancestors = self.site.document.ancestors
        for node in sorted(
            self.zero_dim_operands, key=lambda one: len(tuple(ancestors(one))), reverse=True
        ):
            if any(one in found for one in (node, *ancestors(node))):
                raise NotApplicable("the number meets a tensor without dimensions in a decision")
            inside = {one: plain.pop(one) for one in walk(node) if one in plain}
            other = self.zero_dim_operands[node]
            inside[other] = build_expression("{t}[None]", t=replace_nodes(other, inside))
            plain[node] = build_expression("{w}.squeeze(0)", w=replace_nodes(node, inside))
        return plain

    def _follow_uses(self, node: cst.BaseExpression, seen: ValueSummary | None) -> None:
        """Record `seen` as the facts of `node`, now a tensor, and follow its uses.

        `seen` is None if they are unknown. Adds the conditionals on the number to `decisions`.
        Raises NotApplicable if a use needs a number.
        """
        document = self.site.document
        self._known[document.position(node)] = seen
        parent = document.parent(node)
        if isinstance(parent, cst.ComparisonTarget):
            parent = document.parent(parent)
        match parent:
            case cst.If() | cst.IfExp() if parent.test is node:
                if parent not in self.decisions:
                    self.decisions.append(parent)
            case cst.BinaryOperation() if isinstance(parent.operator, _ARITHMETIC):
                other = parent.right if parent.left is node else parent.left
                if is_tensor(self.site, other):
                    self._note_operands(parent, other)
                else:
                    self._check_arithmetic(parent, other)
                    self._follow_uses(parent, None)
            case cst.AugAssign(target=target) if (
                parent.value is node
                and isinstance(parent.operator, _AUGMENTED)
                and (at := infer(self.site, target)) is not None
                and at.is_tensor
            ):
                self._note_operands(target, target)
                if self.zero_dim_operands.pop(target, None) is not None:
                    raise NotApplicable("the number meets a tensor of another dtype in place")
            case cst.Comparison(comparisons=[target]):
                other = target.comparator if parent.left is node else parent.left
                if self.site.is_tensor(other):
                    self._note_operands(parent, other)
                else:
                    self._follow_uses(parent, None)
            case cst.IfExp():
                self._follow_uses(parent, seen)
            case cst.UnaryOperation() | cst.BooleanOperation():
                self._follow_uses(parent, None)
            case cst.Arg(keyword=None, star="") if self._is_max_or_min(document.parent(parent)):
                call = cst.ensure_type(document.parent(parent), cst.Call)
                for one in call.args:
                    if one is not parent:
                        self._check_arithmetic(call, one.value)
                self._follow_uses(call, None)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=kept))]) if (
                is_tensor(self.site, kept)
            ):
                pass
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
                known = find_definitions(document, node)
                self._names.add(name.value)
                for use in known.uses(name) if known is not None else ():
                    others = known.reaching[use] - {name} if known is not None else {name}
                    if not all(self._is_decided(other) for other in others):
                        raise NotApplicable(f"`{use.value}` is not always that number")
                    clause = follow_or_assume(
                        self.site, use, self, partial(self._follow_uses, use, seen)
                    )
                    self.assumes |= {clause: None} if clause else {}
            case _:
                raise NotApplicable("a tensor cannot stand where the number is used")

    def _check_arithmetic(self, operation: cst.BaseExpression, other: cst.BaseExpression) -> None:
        """Check that an operation with the number `other` gives what Python's gives.

        Raises NotApplicable where an int64 tensor would become a float.
        """
        divides = isinstance(operation, cst.BinaryOperation) and isinstance(
            operation.operator, cst.Divide
        )
        if self.dtype == "int64":
            seen = infer(self.site, other)
            is_int = isinstance(other, cst.Integer) or (seen is not None and seen.types == ("int",))
            if divides or not is_int:
                raise NotApplicable("the number is an int, and becomes a float")
        elif divides:
            divisor = cst.ensure_type(operation, cst.BinaryOperation).right
            if not (isinstance(divisor, cst.Integer | cst.Float) and divisor.evaluated_value):
                self._divisors.append(divisor)

    def _assume_nonzero(self) -> None:
        """Assume that no divisor is zero, unless a branch on the numbers compares it."""
        for divisor in self._divisors:
            tests = [one.test for one in self.decisions]
            if not any(divisor.deep_equals(one) for test in tests for one in walk(test)):
                text = self.site.document.code(divisor.with_changes(lpar=(), rpar=()))
                self.assumes[f"`{text}` is not zero, for otherwise Python raises"] = None

    def _note_operands(self, operation: cst.BaseExpression, other: cst.BaseExpression) -> None:
        """Check an operation on the number and the tensor `other`; record it if `other` is 0-d.

        Raises NotApplicable if the result would have another dtype.
        """
        seen = infer(self.site, other)
        same = self.dtype == "int64" and seen is not None and seen.dtypes == {"int64"}
        if seen is None or not (same or all(tensor.is_float for tensor in seen.tensors)):
            raise NotApplicable("the number meets a tensor that is not of a floating dtype")
        if self.device != "cpu" and {tensor.device for tensor in seen.tensors} != {self.device}:
            raise NotApplicable("the number meets a tensor on another device")
        mixed = "float" in self.dtype and () in seen.shapes and seen.dtypes != {self.dtype}
        self.operands.append(other)
        if self._is_stored(operation):
            return
        if mixed:
            self.zero_dim_operands[operation] = other
        computes = isinstance(operation, cst.BinaryOperation)
        if computes and self.dtype == "float64" and (name := argument_behind(self.site, other)):
            clause = (
                f"`{name}` is of a floating dtype on all inputs, for the number is a float64 tensor"
            )
            self.assumes[clause] = None

    def _is_stored(self, operation: cst.BaseExpression) -> bool:
        """Return whether all that arithmetic gives is stored in a tensor, which keeps its dtype."""
        parent = self.site.document.parent(operation)
        while isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _ARITHMETIC):
            parent = self.site.document.parent(parent)
        match parent:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=tensor))]):
                return is_tensor(self.site, tensor) is True
        return False

    def _is_decided(self, binding: cst.CSTNode) -> bool:
        """Return whether a name is bound in a branch that depends on a replaced number."""
        return any(one in self.decisions for one in self.site.document.ancestors(binding))

    def _is_max_or_min(self, node: cst.CSTNode) -> bool:
        """Return whether a node is a `max` or `min` of two values."""
        return (
            isinstance(node, cst.Call)
            and self.site.callee_name(node) in ("max", "min")
            and len(node.args) == 2
        )

    def _rewrite_branch(self, site: Site, node: cst.If | cst.IfExp) -> Edits:
        """Return the edits that write a conditional with `torch.where`, or else `torch.cond`.

        Raises NotApplicable.
        """
        if leaves_early(site, node):
            raise NotApplicable("a branch leaves the loop or raises")
        condition = predicate_of(site, node.test)
        if condition is None:
            raise NotApplicable("its test is not one that a tensor can decide")
        if condition.guard is not None and self._is_evaluated_later(condition.guard):
            raise NotApplicable("the number is drawn before a test of Python, whatever that says")
        exact = self._names if self.dtype in ("int64", "float64") else ()
        selection = WhereWriter(site, operands=frozenset(exact))
        try:
            edits = edits_for_branch(selection, node, condition)
        except NotApplicable:
            conditional = CondWriter(site)
            edits = edits_for_branch(conditional, node, condition)
            self.assumes |= conditional.assumes
        else:
            self.assumes |= selection.assumes
            self.has_shortcut |= selection.has_shortcut
        self.tests.append(node.test)
        return edits

    def _is_never_tested(self, node: cst.If | cst.IfExp) -> bool:
        """Return whether a flag decided a conditional each time, so that no number was tested."""
        document = self.site.document
        return all(
            skipping_flag(self.site, one) is not None
            for one in walk(node.test)
            if isinstance(one, cst.Name | cst.Call) and document.position(one) in self._known
        )

    def _is_evaluated_later(self, guard: cst.BaseExpression) -> bool:
        """Return whether a condition `guard` is evaluated after a number drawn in the same test."""
        document = self.site.document
        if guard not in document.ranges:
            return True
        place = document.position(guard)
        branch_draws = find_random_calls(self.site, document.parent(guard))
        places = [document.position(one) for one in branch_draws]
        return any((p.line, p.column or 0) < (place.line, place.column or 0) for p in places)


@dataclass(frozen=True)
class _Facts:
    """Observed values of expressions, except where a replaced number changes them."""

    seen: Knowledge
    known: Mapping[Position, ValueSummary | None]

    def at(self, position: Position) -> ValueSummary | None:
        """Return what is known about a position: the override if there is one, else observed."""
        return self.known[position] if position in self.known else self.seen.at(position)

    def at_other_sizes(self, position: Position) -> tuple[ValueSummary | None, ...]:
        """Return what was observed at a position in runs on inputs of other sizes."""
        return self.seen.at_other_sizes(position)

    def evaluate(self, term: Term) -> ValueSummary | None:
        """Return what is known about the value of a term."""
        return self.seen.evaluate(term)


def _exchange_calls(
    new: Replacement, tensors: Mapping[cst.Call, cst.BaseExpression]
) -> Replacement:
    """Return `new` with each call that `tensors` contains replaced by its tensor.

    Calls are recognized by their source, since `new` may contain copies of them.
    """

    def exchange_calls(node: cst.CSTNode) -> cst.CSTNode:
        """Replace the random calls in a tree."""
        return replace_nodes(
            node,
            {
                call: tensor
                for call in walk(node)
                for old, tensor in tensors.items()
                if old.deep_equals(call)
            },
        )

    if isinstance(new, cst.FlattenSentinel):
        return cst.FlattenSentinel([exchange_calls(node) for node in new])
    return exchange_calls(new) if isinstance(new, cst.CSTNode) else new


def arithmetic_in_graph(
    site: Site, value: cst.BaseExpression, assumes: dict[str, None]
) -> cst.BaseExpression | None:
    """Return arithmetic on `t.item()` and numbers as arithmetic on 0-d tensors of float64.

    None if there is no `t.item()`, or anything else. Adds to `assumes` what Python would raise for.
    """
    edits: dict[cst.CSTNode, cst.BaseExpression] = {}
    divisors: list[cst.BaseExpression] = []
    stack: list[cst.BaseExpression] = [value]
    while stack:
        node = stack.pop()
        tensor = tensor_of(site, node)
        seen = infer(site, tensor)
        if tensor is not node and seen is not None and seen.shapes == {()}:
            edits[node] = build_expression("{t}.double()", t=tensor)
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
            stack += [node.left, node.right]
            match node.operator, node.right:
                case cst.Divide(), cst.Integer() | cst.Float() as number if number.evaluated_value:
                    pass
                case cst.Divide(), divisor:
                    divisors.append(divisor)
        elif seen is None or not seen.is_number:
            return None
    if not edits:
        return None
    for one in divisors:
        text = site.document.code(one.with_changes(lpar=(), rpar=()))
        assumes[f"`{text}` is not zero, for otherwise Python raises"] = None
    return edits[value] if value in edits else replace_nodes(value, edits)


def find_scalar_sources(site: Site) -> Iterator[cst.Call]:
    """Yield the calls that may compute the number at a site, or the number its branch tests.

    `t.item()` for a site in `if n > 0` after `n = t.item()`.
    """
    node: cst.CSTNode = site.node
    if isinstance(node, Decision):
        node = node.test
    elif (found := find_conditional(site)) is not None:
        node = found.test
    known = find_definitions(site.document, site.node)
    for one in walk(node):
        if isinstance(one, cst.Call):
            yield one
        if isinstance(one, cst.Name) and known is not None:
            for binding in known.reaching.get(one, ()):
                statement = site.document.statement(binding)
                if isinstance(statement, cst.SimpleStatementLine):
                    yield from (call for call in walk(statement) if isinstance(call, cst.Call))

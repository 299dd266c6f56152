"""A loop over the numbers in a tensor of indices is one step that indexes with the tensor.

`tolist()` takes the numbers out of the graph, and what they decide in the loop breaks it.

Before:

    for token in set(tokens[i].tolist()):
        if scores[i, token] < 0:
            scores[i, token] *= penalty
        else:
            scores[i, token] /= penalty

After:

    index = tokens[i]
    scores[i, index] = torch.where(
        scores[i, index] < 0, scores[i, index] * penalty, scores[i, index] / penalty
    )

An index that occurs twice does no harm: each place is read before any is written, and all that is
written to it is the same. Without `set` it is assumed to occur once, where an element is changed
by what it was; a loop that counts adds up all of them:

Before:

    for label in labels.tolist():
        counts[label] += 1

After:

    counts.index_add_(0, labels, torch.ones_like(labels, dtype=counts.dtype))

`for i, k in enumerate(labels.tolist())` indexes with `torch.arange(len(labels))` too.

Refuses: loops that do more than assign elements of tensors at places that the index says, from
sums, products and quotients of such elements and numbers, perhaps under a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
    COMPARED,
    NotApplicable,
    Site,
    infer,
    live_in,
    names_read,
    statements_after,
    walk,
)
from fullgraph.rewrites.rule import Applicability, Refusal, Rewrite, Rule
from fullgraph.rewrites.source import (
    build_expression,
    build_statement,
    dotted_name,
    inline_block,
    integer_literal,
    replace_nodes,
)

_SAME = ("tolist", "cpu", "numpy", "detach")
"""Methods that keep the numbers of a tensor."""
_CONTINUE = m.SimpleStatementLine([m.Continue()])
_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_AUGMENTED = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)


def rewrite(site: Site) -> Rewrite | Refusal | None:
    around = site.document.ancestors(site.node)
    loop = next((one for one in around if isinstance(one, cst.For)), None)
    found = _parse_header(loop) if loop is not None and loop.orelse is None else None
    if loop is None or found is None or not isinstance(loop.body, cst.IndentedBlock):
        return None
    names, tensor, is_set = found
    seen = infer(site, tensor)
    if seen is None or seen.dims != {1} or not seen.dtypes <= {"int64", "int32"}:
        return None
    read = {*names} & live_in(statements_after(site.document, loop))
    if read:
        return Refusal(f"`{min(read)}` is read after the loop")
    try:
        return _IndexedLoop(site, loop, names, tensor, is_set).rewrite()
    except NotApplicable as error:
        return Refusal(str(error)) if error.args else None


def _parse_header(loop: cst.For) -> tuple[list[str], cst.BaseExpression, bool] | None:
    """Return the loop's variables, the tensor of indices and whether each counts once.

    The last variable is the index; one before it is the number of the iteration. None if the loop
    does not go over the numbers in a tensor.
    """
    match loop:
        case cst.For(target=cst.Name(name), iter=node):
            names = [name]
        case cst.For(
            target=cst.Tuple(
                elements=[cst.Element(value=cst.Name(row)), cst.Element(value=cst.Name(name))]
            ),
            iter=cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=node, keyword=None)]),
        ):
            names = [row, name]
        case _:
            return None
    is_set = is_list = False
    while True:
        match node:
            case cst.Call(
                func=cst.Name("set" | "list" | "sorted" as kind),
                args=[cst.Arg(value=node, keyword=None, star="")],
            ):
                is_set = is_set or kind == "set"
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(method)), args=[]) if (
                method in _SAME
            ):
                node, is_list = inner, True
            case _:
                break
    return (names, node, is_set) if is_list and not (is_set and len(names) > 1) else None


@dataclass
class _IndexedLoop:
    """Rewrite of a loop over the numbers in a tensor of indices."""

    site: Site
    loop: cst.For
    names: Sequence[str]
    tensor: cst.BaseExpression
    is_set: bool
    targets: dict[str, cst.Subscript] = field(default_factory=dict)
    """The place that is assigned, by the name of its tensor."""
    kept: set[int] = field(default_factory=set)
    """How many dimensions the places have."""
    repeats: bool = False
    """Whether a number that occurs twice changes what it changed before."""
    chooses: bool = False
    """Whether a condition on elements says what is written."""

    def rewrite(self) -> Rewrite:
        """Return the edit; raise NotApplicable if the loop does something else."""
        body = cst.ensure_type(self.loop.body, cst.IndentedBlock)
        for target in self._targets(body):
            first = self.targets.setdefault(dotted_name(target.value), target)
            if dotted_name(target.value) in names_read(self.tensor):
                raise NotApplicable(f"`{self._code(target)}` changes what the loop goes over")
            if self.names[0] not in self._indices(target):
                raise NotApplicable(f"`{self._code(target)}` is assigned in each iteration")
            if not first.deep_equals(target):
                raise NotApplicable(f"`{self._code(target.value)}` is assigned at several places")
        statements = list(body.body)
        if m.findall(body, m.Continue()):
            lines = [self._choice(statements)]
        else:
            lines = [self._line(line) for line in statements]
        if self.chooses and self.kept != {0}:
            raise NotApplicable("a condition chooses between slices")
        clause = f"no number is twice in `{self._code(self.tensor)}`"
        return Rewrite(
            {self.loop: inline_block(self.loop, self._with_index(lines))},
            "A tensor as the index takes all places at once, and no number leaves the graph.",
            Applicability.UNSAFE if self.repeats else Applicability.SAFE,
            (clause,) if self.repeats else (),
            ("torch",),
        )

    def _code(self, node: cst.CSTNode) -> str:
        return self.site.document.code(node).strip().partition("\n")[0]

    def _depends(self, node: cst.CSTNode) -> bool:
        """Return whether an expression has a variable of the loop in it."""
        return not names_read(node).isdisjoint(self.names)

    def _targets(self, statement: cst.CSTNode) -> Iterator[cst.Subscript]:
        """Yield the places that a statement assigns.

        Raise NotApplicable without a reason for other statements: the loop is of another kind.
        """
        match statement:
            case cst.If(body=body, orelse=orelse):
                yield from self._targets(body)
                if orelse is not None:
                    yield from self._targets(orelse)
            case cst.Else(body=body):
                yield from self._targets(body)
            case cst.IndentedBlock(body=lines) | cst.SimpleStatementLine(body=lines):
                for line in lines:
                    yield from self._targets(line)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
                yield target
            case cst.AugAssign(target=cst.Subscript() as target, operator=operator) if isinstance(
                operator, _AUGMENTED
            ):
                yield target
            case cst.Pass() | cst.Continue():
                pass
            case _:
                raise NotApplicable

    def _line(self, line: cst.BaseStatement) -> cst.BaseStatement:
        """Return a statement of the loop's body for all places at once."""
        match line:
            case cst.SimpleStatementLine(body=[cst.Assign() as made]):
                (target,) = self._targets(line)
                self._place(target)
                return line.with_changes(body=[made.with_changes(value=self._value(made.value))])
            case cst.SimpleStatementLine(body=[cst.AugAssign(target=target) as added]):
                value = self._value(added.value)
                place = cst.ensure_type(target, cst.Subscript)
                self._read(place)
                is_sum = isinstance(added.operator, cst.AddAssign) and not self._depends(value)
                if self.repeats and is_sum and len(place.slice) == 1 and self.kept == {0}:
                    self.repeats = False
                    filled = (
                        "ones_like({k}, " if integer_literal(value) == 1 else "full_like({k}, {v}, "
                    )
                    return build_statement(
                        "{x}.index_add_(0, {k}, {torch}." + filled + "dtype={x}.dtype))",
                        x=place.value,
                        k=self.names[-1],
                        v=value,
                        torch=self.site.document.torch,
                    )
                return line.with_changes(body=[added.with_changes(value=value)])
        return self._choice([line])

    def _choice(self, body: Sequence[cst.BaseStatement]) -> cst.BaseStatement:
        """Return the assignment of what the statements `body` leave at their only place."""
        targets = [target for line in body for target in self._targets(line)]
        if len({self._code(target) for target in targets}) != 1:
            raise NotApplicable("conditions decide on several places")
        value = self._result(body, targets[0])
        return build_statement("{place} = {value}", place=self._place(targets[0]), value=value)

    def _result(
        self, body: Sequence[cst.BaseStatement], target: cst.Subscript
    ) -> cst.BaseExpression:
        """Return what is at `target` after the statements `body`."""
        match body:
            case [] | [cst.SimpleStatementLine(body=[cst.Continue() | cst.Pass()])]:
                return self._read(target)
            case [cst.SimpleStatementLine(body=[cst.Assign(value=value)])]:
                return self._value(value)
            case [cst.SimpleStatementLine(body=[cst.AugAssign(operator=operator, value=value)])]:
                now, value = self._read(target), self._value(value)
                sign = self._code(operator).removesuffix("=")
                return build_expression(f"{{now}} {sign} {{value}}", now=now, value=value)
            case [cst.If(test=test, body=cst.IndentedBlock(body=then), orelse=orelse), *rest]:
                if rest and (orelse is not None or not m.matches(then[-1], _CONTINUE)):
                    raise NotApplicable(f"`{self._code(body[0])}` is followed by more")
                match orelse:
                    case cst.If():
                        rest = [orelse]
                    case cst.Else(body=cst.IndentedBlock(body=other)):
                        rest = list(other)
                one, two = self._result(then, target), self._result(rest, target)
                if not self._depends(one) and not self._depends(two):
                    raise NotApplicable(f"`{self._code(test)}` chooses between numbers")
                self.chooses = True
                return build_expression(
                    "{torch}.where({test}, {one}, {two})",
                    torch=self.site.document.torch,
                    test=self._condition(test),
                    one=one,
                    two=two,
                )
        raise NotApplicable(f"`{self._code(body[0])}` is followed by more")

    def _condition(self, test: cst.BaseExpression) -> cst.BaseExpression:
        """Return a condition on an element as a mask."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return build_expression("~{inner}", inner=self._condition(inner))
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                return build_expression(
                    f"{{left}} {'&' if isinstance(operator, cst.And) else '|'} {{right}}",
                    left=self._condition(left),
                    right=self._condition(right),
                )
            case cst.Comparison(left=left, comparisons=[one]) if self._depends(test) and isinstance(
                one.operator, tuple(COMPARED)
            ):
                other = one.with_changes(comparator=self._operand(one.comparator))
                return test.with_changes(left=self._operand(left), comparisons=[other])
        raise NotApplicable(f"`{self._code(test)}` does not compare elements")

    def _operand(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return one side of a comparison, perhaps the index itself."""
        is_index = isinstance(node, cst.Name) and node.value == self.names[-1]
        return node if is_index else self._value(node)

    def _value(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a value with an element for each place, or a number for all."""
        if not self._depends(node):
            seen = infer(self.site, node)
            if seen is None or not (seen.is_number or (seen.is_tensor and seen.dims == {0})):
                raise NotApplicable(f"`{self._code(node)}` is not known to be a number")
            if not names_read(node).isdisjoint(self.targets):
                raise NotApplicable(f"`{self._code(node)}` may be assigned by an iteration")
            return node
        match node:
            case cst.Subscript():
                return self._read(node)
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                return node.with_changes(expression=self._value(inner))
            case cst.BinaryOperation(left=left, operator=operator, right=right) if isinstance(
                operator, _OPERATORS
            ) and not (isinstance(operator, cst.Divide) and self._depends(right)):
                return node.with_changes(left=self._value(left), right=self._value(right))
        raise NotApplicable(f"`{self._code(node)}` needs the number itself")

    def _read(self, place: cst.Subscript) -> cst.Subscript:
        """Return a place that is read; an assigned tensor may be read where it is assigned only."""
        target = self.targets.get(dotted_name(place.value))
        if target is not None:
            if not target.deep_equals(place):
                raise NotApplicable(f"`{self._code(place)}` may be assigned by another iteration")
            self.repeats = self.repeats or not (self.is_set or len(self.names) > 1)
        return self._place(place)

    def _place(self, place: cst.Subscript) -> cst.Subscript:
        """Return `x[i, k]`, whose indices are numbers and variables of the loop, as it is."""
        seen = infer(self.site, place.value)
        if not dotted_name(place.value) or seen is None or not seen.is_tensor or len(seen.dims) > 1:
            raise NotApplicable(f"`{self._code(place.value)}` is not known to be a tensor")
        for one in place.slice:
            index = one.slice.value if isinstance(one.slice, cst.Index) else one.slice
            if isinstance(index, cst.Slice | cst.Ellipsis):
                fits = not self._depends(index)
            elif self._depends(index):
                fits = isinstance(index, cst.Name)
            else:
                number = infer(self.site, index)
                fits = number is not None and number.types == ("int",)
            if not fits:
                raise NotApplicable(f"`{self._code(place)}` has another index than numbers")
        (dims,) = seen.dims
        self.kept.add(dims - len(self._indices(place)))
        return place

    def _indices(self, place: cst.Subscript) -> list[str]:
        """Return the code of the indices of a place that are no slices and no `...`."""
        plain = m.SubscriptElement(m.Index(~m.Ellipsis()))
        return [self._code(one) for one in place.slice if m.matches(one, plain)]

    def _with_index(self, lines: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Return the lines with tensors of indices in place of the loop's variables."""
        document, made = self.site.document, self.tensor
        above: list[cst.BaseStatement] = []
        new: dict[str, cst.BaseExpression] = {}
        for variable, stem in zip(reversed(self.names), ("index", "rows"), strict=False):
            uses = sum(len(_variables(line, variable)) for line in lines)
            uses += len(self.names) - 1 - len(new)  # the rows are counted by the index
            if not isinstance(made, cst.Name) and uses > 1:
                name = document.unused_local(self.loop, stem, f"{stem}_2")
                above.append(build_statement("{name} = {made}", name=name, made=made))
                made = cst.Name(name)
            new[variable] = made
            made = build_expression(
                "{torch}.arange(len({t}), device={t}.device)", torch=document.torch, t=made
            )
        return above + [
            replace_nodes(line, {one: new[one.value] for k in new for one in _variables(line, k)})
            for line in lines
        ]


def _variables(tree: cst.CSTNode, variable: str) -> list[cst.Name]:
    """Return the uses of a variable in new code."""
    return [
        child
        for node in walk(tree)
        for child in node.children
        if isinstance(child, cst.Name)
        and child.value == variable
        and child not in (getattr(node, "attr", None), getattr(node, "keyword", None))
    ]


_CATEGORIES = (Category.SCALAR, Category.GUARD, Category.BRANCH)

RULE = Rule("FG200", "index-at-once", frozenset(one.value for one in _CATEGORIES), rewrite)

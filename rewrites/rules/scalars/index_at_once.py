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

A loop that counts adds up what it adds to one place:

Before:

    for label in labels.tolist():
        counts[label] += 1

After:

    counts.index_put_((labels,), torch.ones_like(labels, dtype=counts.dtype), accumulate=True)

`for i, k in enumerate(labels.tolist())` indexes with `torch.arange(len(labels))` too.

Unsafe: it assumes that the indices are on the tensor's device. Where an element is changed by what
it was, it assumes that no place is changed twice; where elements are read, that no gradient is
asked for if a number is there twice, as it would be added up; where a condition asks about the
number, that it is an index in any case; and that tensors do not share memory.

Refuses: loops that do more than assign the elements of one tensor at a place that the index says,
from sums, products and quotients of such elements and numbers, perhaps under a condition, in which
nothing divides by an element; and tensors of several dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.diagnose.taxonomy import Category
from fullgraph.rewrites.analysis import (
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
    Replacement,
    build_expression,
    build_statement,
    dotted_name,
    inline_block,
    integer_literal,
    replace_nodes,
)
from fullgraph.rewrites.transforms.scalars.element_values import ElementValues

_SAME = ("tolist", "cpu", "numpy", "detach")
"""Methods that keep the numbers of a tensor."""
_UPDATES = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
_PASS = m.SimpleStatementLine([m.Pass()])
_CONTINUE = m.SimpleStatementLine([m.Continue()])


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
        targets = [*_targets(loop.body)]
        if not targets:
            return None
        values = ElementValues(site, names, tensor, is_set, targets[0])
        if not all(one.deep_equals(targets[0]) for one in targets):
            raise NotApplicable("several places are assigned")
        return _IndexedLoop(site, loop, loop.body, values).rewrite()
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
            ) if kind == "list" or len(names) == 1:
                is_set = is_set or kind == "set"
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(method)), args=[]) if (
                method in _SAME
            ):
                node, is_list = inner, True
            case _:
                break
    return (names, node, is_set) if is_list else None


def _targets(statement: cst.CSTNode) -> Iterator[cst.Subscript]:
    """Yield the places that a statement assigns.

    Raise NotApplicable without a reason for other statements: the loop is of another kind.
    """
    match statement:
        case cst.If(body=body, orelse=orelse):
            yield from _targets(body)
            if orelse is not None:
                yield from _targets(orelse)
        case cst.Else(body=body):
            yield from _targets(body)
        case cst.IndentedBlock(body=lines) | cst.SimpleStatementLine(body=lines):
            for line in lines:
                yield from _targets(line)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
            yield target
        case cst.AugAssign(target=cst.Subscript() as target, operator=operator) if isinstance(
            operator, _UPDATES
        ):
            yield target
        case cst.Pass() | cst.Continue():
            pass
        case _:
            raise NotApplicable


@dataclass(frozen=True)
class _IndexedLoop:
    """Rewrite of a loop over the numbers in a tensor of indices."""

    site: Site
    loop: cst.For
    body: cst.IndentedBlock
    values: ElementValues

    def rewrite(self) -> Rewrite:
        """Return the edit; raise NotApplicable if the loop does something else."""
        values, target = self.values, self.values.target
        place, indices, table = map(values.code, (target, values.indices, target.value))
        if dotted_name(target.value) in names_read(values.indices):
            raise NotApplicable(f"`{place}` changes what the loop goes over")
        if values.names[0] not in values.plain_indices(target):
            raise NotApplicable(f"`{place}` is assigned in each iteration")
        line = self._line([one for one in self.body.body if not m.matches(one, _PASS)])
        values.check_place(target)
        if values.has_parts(target) and (values.reads_others or values.branches):
            raise NotApplicable(f"`{place}` is no single element")
        if not values.has_one_dtype():
            raise NotApplicable(f"what is assigned to `{place}` is of another dtype")
        return Rewrite(
            {self.loop: inline_block(self.loop, self._with_index(line))},
            "A tensor as the index takes all places at once, and no number leaves the graph.",
            Applicability.UNSAFE,
            (f"`{indices}` is on the device of `{table}`", *values.assumes),
            ("torch",),
        )

    def _line(self, body: Sequence[cst.BaseStatement]) -> cst.BaseStatement:
        """Return the loop's body, without `pass`, as one statement for all places."""
        match body:
            case [cst.SimpleStatementLine(body=[cst.Assign(value=value)]) as line]:
                self.values.check_value(value)
                return line
            case [cst.SimpleStatementLine(body=[cst.AugAssign() as made]) as line]:
                if (counted := self._counted(made)) is not None:
                    return counted
                self._updated(made)
                return line
        value = self._result(body)
        return build_statement("{place} = {value}", place=self.values.target, value=value)

    def _counted(self, made: cst.AugAssign) -> cst.BaseStatement | None:
        """Return the line for `x[k] += 1`, which adds up repeated numbers; None for others."""
        values, number = self.values, made.value
        values.check_value(number)
        one_index = len(values.target.slice) == 1 and len(values.names) == 1 and not values.is_set
        if not isinstance(made.operator, cst.AddAssign) or values.depends(number) or not one_index:
            return None
        if values.dims(values.target) > 1:
            return None
        filled = "ones_like({k}" if integer_literal(number) == 1 else "full_like({k}, {number}"
        return build_statement(
            "{x}.index_put_(({k},), {torch}." + filled + ", dtype={x}.dtype), accumulate=True)",
            x=values.target.value,
            k=values.names[-1],
            number=number,
            torch=self.site.document.torch,
        )

    def _updated(self, made: cst.AugAssign) -> cst.BaseExpression:
        """Return what `x[k] *= value` makes of `x[k]`."""
        sign = self.values.code(made.operator).removesuffix("=")
        new = build_expression(f"{{x}} {sign} {{value}}", x=self.values.target, value=made.value)
        self.values.check_value(new)
        return new

    def _result(self, body: Sequence[cst.BaseStatement]) -> cst.BaseExpression:
        """Return what is at the place after the statements `body`."""
        match body:
            case [] | [cst.SimpleStatementLine(body=[cst.Continue() | cst.Pass()])]:
                self.values.check_value(self.values.target)
                return self.values.target
            case [cst.SimpleStatementLine(body=[cst.Assign(value=value)])]:
                self.values.check_value(value)
                return value
            case [cst.SimpleStatementLine(body=[cst.AugAssign() as made])]:
                return self._updated(made)
            case [cst.If(test=test, body=cst.IndentedBlock(body=then), orelse=orelse), *rest]:
                if rest and (orelse is not None or not m.matches(then[-1], _CONTINUE)):
                    raise NotApplicable(f"`{self.values.code(body[0])}` is followed by more")
                match orelse:
                    case cst.If():
                        rest = [orelse]
                    case cst.Else(body=cst.IndentedBlock(body=other)):
                        rest = list(other)
                self.values.branches += 1
                one, two = self._result(then), self._result(rest)
                if not self.values.depends(one) and not self.values.depends(two):
                    raise NotApplicable(f"`{self.values.code(test)}` chooses between numbers")
                return build_expression(
                    "{torch}.where({test}, {one}, {two})",
                    torch=self.site.document.torch,
                    test=self.values.condition(test),
                    one=one,
                    two=two,
                )
        raise NotApplicable(f"`{self.values.code(body[0])}` is followed by more")

    def _with_index(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        """Return the line with tensors of indices in place of the loop's variables."""
        document, made = self.site.document, self.values.indices
        names = self.values.names
        above: list[cst.BaseStatement] = []
        new: dict[str, cst.BaseExpression] = {}
        for variable, stem in zip(reversed(names), ("index", "rows"), strict=False):
            uses = len(_variables(line, variable))
            uses += len(names) - 1 - len(new)  # the rows are counted by the index
            if not isinstance(made, cst.Name) and uses > 1:
                name = document.unused_local(self.loop, stem, f"{stem}_2")
                above.append(build_statement("{name} = {made}", name=name, made=made))
                made = cst.Name(name)
            new[variable] = made
            made = build_expression(
                "{torch}.arange(len({t}), device={t}.device)", torch=document.torch, t=made
            )
        edits: dict[cst.CSTNode, Replacement] = {
            one: new[name] for name in new for one in _variables(line, name)
        }
        return [*above, replace_nodes(line, edits)]


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

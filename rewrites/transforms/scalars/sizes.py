"""Python numbers in place of tensors that are computed from sizes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.rewrites.analysis import (
    Definitions,
    NotApplicable,
    Site,
    chain_root,
    find_definitions,
    names_mutated,
    torch_name,
    walk,
)
from fullgraph.rewrites.source import (
    Replacement,
    build_expression,
    dotted_name,
    integer_literal,
    replace_nodes,
)

MAKERS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.IntTensor")
"""Functions that make a tensor of numbers."""
_DTYPES = frozenset({"int32", "int64", "float32", "float64"})
_STORES = cst.AssignTarget | cst.AugAssign | cst.Del | cst.Element
_READERS = ("len", "sum", "min", "max", "sorted", "list", "tuple", "enumerate", "zip", "any", "all")
"""Functions that do not change a list that they are given."""
_ALL = {"min": "min", "max": "max", "amin": "min", "amax": "max", "sum": "sum", "prod": "math.prod"}
"""Reductions of a whole tensor, each with a Python function of a sequence."""
_MATH = {"ceil": "math.ceil", "floor": "math.floor", "sqrt": "math.sqrt", "abs": "abs"}
_KEEP = frozenset({"to", "float", "double", "cpu", "detach", "clone", "item"})
"""Methods that keep the value."""
_WHOLE = frozenset({"int", "long"})
_IS_WHOLE = m.Call(func=m.Attribute(m.Name("math"), m.Name("ceil") | m.Name("floor")))
_ROUNDS = "sizes computed in float64 are rounded as in float32"


@dataclass
class SizeNumbers:
    """Writer of numbers that are computed in Python, from sizes, instead of with tensors."""

    site: Site
    edits: dict[cst.CSTNode, Replacement] = field(default_factory=dict)
    """The new values of the variables on the way, and statements with a list before its tensor."""
    assumes: dict[str, None] = field(default_factory=dict)
    bindings: dict[cst.Name, None] = field(default_factory=dict)
    """The names that were bound to tensors of sizes."""
    uses: set[cst.Name] = field(default_factory=set)
    """The uses of these names that get numbers."""
    tensors: set[cst.Name] = field(default_factory=set)
    """The names among these bindings that are needed as tensors, too."""
    made: bool = False
    """Whether a tensor of sizes was found."""

    def write(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression without tensors: `min(x.shape)` for `torch.tensor(x.shape).min()`.

        A variable that is needed as a tensor keeps it, beside the list that it is made of. Raises
        NotApplicable if anything but sizes and numbers goes in, or such a tensor is not made of a
        list.
        """
        new = self._write(node)
        self.tensors = set(self._needed_as_tensors(node))
        return self._write_again(node) if self.tensors else new

    def _write_again(self, node: cst.BaseExpression) -> cst.BaseExpression:
        for known in (self.edits, self.assumes, self.bindings, self.uses):
            known.clear()
        return self._write(node)

    def write_list(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the list that a tensor is made of; all variables stay tensors.

        Raises NotApplicable if it is not made of a list of sizes or numbers.
        """
        self._write(node)
        self.tensors = set(self.bindings)
        return self._write_again(node)

    def _needed_as_tensors(self, node: cst.BaseExpression) -> Iterator[cst.Name]:
        """Yield the bound names with a use that needs a tensor."""
        known = find_definitions(self.site.document, node)
        for name in self.bindings:
            uses = known.uses(name) if known is not None else ()
            if any(use not in self.uses and not self._accepts_number(use) for use in uses):
                yield name

    def _write(self, node: cst.BaseExpression) -> cst.BaseExpression:
        seen = self.site.observed(node)
        if seen is not None and not seen.is_tensor:
            if isinstance(node, cst.Call | cst.BinaryOperation | cst.UnaryOperation):
                return self._write_operation(node)
            if not seen.is_number and not set(seen.types) <= {"torch.Size", "tuple", "list"}:
                raise NotApplicable("it is no number")
            return node
        match node:
            case cst.Integer() | cst.Float():
                return node
            case cst.Name():
                return self._write_variable(node)
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]) if (
                integer_literal(index) is not None
            ):
                return node.with_changes(value=self._write(node.value))
        return self._write_operation(node)

    def _write_operation(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a call or an operator on numbers."""
        match node:
            case cst.UnaryOperation(operator=cst.Minus()):
                return node.with_changes(expression=self._write_scalar(node.expression))
            case cst.BinaryOperation() if not isinstance(node.operator, cst.MatrixMultiply):
                if isinstance(node.operator, cst.Divide):
                    self.assumes[_ROUNDS] = None
                left, right = self._write_scalar(node.left), self._write_scalar(node.right)
                return node.with_changes(left=left, right=right)
            case cst.Call():
                return self._write_call(node)
        raise NotApplicable("it is not computed from sizes alone")

    def _write_scalar(self, node: cst.BaseExpression) -> cst.BaseExpression:
        seen = self.site.observed(node)
        if seen is not None and seen.is_tensor and seen.dims != {0}:
            raise NotApplicable("several sizes are computed at once")
        return self._write(node)

    def _write_call(self, call: cst.Call) -> cst.BaseExpression:
        """Return a call as Python's own: `min(a, b)` for `torch.min(a, b)`."""
        called = self.site.callee_name(call)
        values = [arg.value for arg in call.args if arg.keyword is None]
        named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if any(arg.star for arg in call.args):
            raise NotApplicable("its arguments are not spelled out")
        if called in MAKERS and len(values) == 1 and named <= {"dtype", "device"}:
            return self._write_maker(call, values[0])
        if called in ("int", "float", "abs", "min", "max", "round") or called.startswith("math."):
            return self._with_arguments(call)
        name = torch_name(self.site, call)
        if isinstance(call.func, cst.Attribute) and self._is_tensor(call.func.value):
            values = [call.func.value, *values]
        if name in _KEEP and values:
            return self._write(values[0])
        if named or not values:
            raise NotApplicable("it is not computed from sizes alone")
        if name in _WHOLE:
            new = self._write_scalar(values[0])
            return new if m.matches(new, _IS_WHOLE) else build_expression("int({n})", n=new)
        if name in ("min", "max", "minimum", "maximum") and len(values) == 2:
            a, b = map(self._write_scalar, values)
            return build_expression(f"{name[:3]}({{a}}, {{b}})", a=a, b=b)
        if name in _ALL and len(values) == 1:
            seen = self.site.observed(values[0])
            if seen is not None and seen.dims == {0}:
                return self._write(values[0])
            return build_expression(f"{_ALL[name]}({{all}})", all=self._write(values[0]))
        if name in _MATH and len(values) == 1:
            return build_expression(f"{_MATH[name]}({{n}})", n=self._write_scalar(values[0]))
        raise NotApplicable("it is not computed from sizes alone")

    def _with_arguments(self, call: cst.Call) -> cst.BaseExpression:
        """Return a call of a Python function with numbers as its arguments."""
        args = [arg.with_changes(value=self._write(arg.value)) for arg in call.args]
        return call.with_changes(args=args)

    def _write_maker(self, maker: cst.Call, sizes: cst.BaseExpression) -> cst.BaseExpression:
        """Return what a tensor is made of: `x.shape` for `torch.tensor(x.shape)`."""
        seen, made = self.site.observed(sizes), self.site.observed(maker)
        if seen is None:
            raise NotApplicable("what the tensor is made of is not known to be a shape")
        listed = set(seen.types) <= {"torch.Size", "tuple", "list"} and set(seen.items) <= {"int"}
        counts = set(seen.types) == {"int"} and self.site.callee_name(maker) in MAKERS[:2]
        if not listed and not counts:
            raise NotApplicable("what the tensor is made of is not all integers")
        self.made = True
        if made is not None and not made.dtypes <= _DTYPES:
            raise NotApplicable(f"the tensor is {min(made.dtypes)}, which not all integers fit in")
        return sizes

    def _write_variable(self, use: cst.Name) -> cst.BaseExpression:
        """Return a name whose only definition gets the number."""
        known = find_definitions(self.site.document, use)
        found = known.reaching.get(use, frozenset()) if known is not None else frozenset()
        binding = next(iter(found), None)
        target = self.site.document.parents.get(binding) if binding is not None else None
        line = self.site.document.parents.get(target) if target is not None else None
        if len(found) != 1 or not isinstance(line, cst.Assign) or len(line.targets) != 1:
            raise NotApplicable("it is not computed from sizes alone")
        assert known is not None and isinstance(binding, cst.Name)
        if binding in self.tensors:
            return self._list_beside(known, use, binding, line)
        self.uses.add(use)
        if binding not in self.bindings:
            self.bindings[binding] = None
            self.edits[line.value] = self._write(line.value)
        return use

    def _list_beside(
        self, known: Definitions, use: cst.Name, binding: cst.Name, line: cst.Assign
    ) -> cst.BaseExpression:
        """Return the name of the list that a tensor is made of, a new one where it has none."""
        document = self.site.document
        match line.value:
            case cst.Call(args=[cst.Arg(keyword=None, star="", value=sizes), *_]) as maker if (
                self.site.callee_name(maker) in MAKERS
            ):
                self._write_maker(maker, sizes)
            case _:
                raise NotApplicable(f"`{binding.value}` is needed as a tensor")
        if binding.value in _changed_names(known.function.body):
            raise NotApplicable(f"`{binding.value}` changes after it is made")
        statement = document.statement(line)
        if isinstance(sizes, cst.Name) and self.is_only_read(known, sizes):
            there = known.before.get(document.statement(use), {}).get(sizes.value)
            if there is not None and there == known.reaching.get(sizes):
                return sizes
        alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
        if not alone or not isinstance(sizes, cst.Name | cst.List | cst.ListComp):
            raise NotApplicable(f"`{binding.value}` is needed as a tensor")
        name = cst.Name(document.unused_name(f"{binding.value}_list"))
        if binding not in self.bindings:
            self.bindings[binding] = None
            copied = build_expression("list({n})", n=sizes)
            made = copied if isinstance(sizes, cst.Name) else sizes
            first = cst.Assign([cst.AssignTarget(name)], made)
            head = cst.SimpleStatementLine([first], leading_lines=statement.leading_lines)
            tail = replace_nodes(statement, {sizes: name}).with_changes(leading_lines=[])
            self.edits[statement] = cst.FlattenSentinel([head, tail])
        return name

    def is_only_read(self, known: Definitions, sizes: cst.Name) -> bool:
        """Return whether nothing that has a list can change it."""
        uses = [use for one in known.reaching.get(sizes, ()) for use in known.uses(one)]
        return all(map(self._only_reads, uses))

    def _only_reads(self, use: cst.Name) -> bool:
        document = self.site.document
        match document.parent(use):
            case cst.Arg() as arg:
                call = document.parent(arg)
                return self.site.callee_name(call) in (*MAKERS, *_READERS)
            case cst.For(iter=read) | cst.CompFor(iter=read) | cst.Subscript(value=read):
                around = document.parent(document.parent(use))
                return read is use and not isinstance(around, _STORES)
        return False

    def _accepts_number(self, use: cst.Name) -> bool:
        """Return whether code that reads a name is right for a number, too."""
        match self.site.document.parent(use):
            case cst.Arg() as arg:
                call = self.site.document.parent(arg)
                return isinstance(call, cst.Call) and self.site.callee_name(call) == "isinstance"
        return False

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        seen = self.site.observed(node)
        return seen is not None and seen.is_tensor


def _changed_names(body: cst.CSTNode) -> set[str]:
    """Return the names of what changes in place, through a view too: "x" for `x[1:].zero_()`.

    Also "x" for `f(out=x)`, and for `view = x[1:]` where `view` changes.
    """
    changed = {path.partition(".")[0] for path in names_mutated(body)}
    views: list[tuple[str, str]] = []
    for one in walk(body):
        match one:
            case cst.Arg(keyword=cst.Name("out"), value=cst.Name(value=name)):
                changed.add(name)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                views.append((name, dotted_name(chain_root(value))))
    for name, root in reversed(views):
        if name in changed:
            changed.add(root)
    return changed


def is_made_of_sizes(site: Site, node: cst.BaseExpression) -> bool:
    """Return whether a number is computed from sizes alone, and Python computes the same one."""
    numbers = SizeNumbers(site)
    try:
        numbers.write(node)
    except NotApplicable:
        return False
    return numbers.made and not numbers.assumes

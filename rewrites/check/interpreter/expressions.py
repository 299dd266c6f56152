"""Evaluation of expressions other than calls."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from fullgraph.rewrites.check.facts import span_of
from fullgraph.rewrites.check.interpreter.attributes import Attributes
from fullgraph.rewrites.check.interpreter.folding import OPERATORS, fold, identity, plain_result
from fullgraph.rewrites.check.interpreter.machine import OutOfFuel
from fullgraph.rewrites.check.interpreter.operations import (
    NUMERIC_ONLY,
    TENSOR_ONLY,
    operator_result,
)
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    INT,
    PLAIN,
    STR,
    UNKNOWN,
    Data,
    Function,
    Literal,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    data_only,
    is_plain,
    is_proved,
    join,
    join_all,
    literal,
    make_sequence,
    sequence_of,
    truth,
    with_fact,
)
from fullgraph.rewrites.check.project import FunctionDefinition
from fullgraph.rewrites.check.syntax import dotted


class Expressions(Attributes):
    """Part of the interpreter that evaluates expressions, with one method for each type of node."""

    def evaluate(self, node: ast.expr) -> Value:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel
        method = self.methods.get(node.__class__)
        value: Value = (method or self.method_for("eval", node, self.eval_parts))(node)
        if self.facts.tensors and self.frames:
            value = self._with_fact(node, value)
        if self.values is not None:
            known = self.values.get(node)
            self.values[node] = value if known is None else join(known, value)
        return value

    def _with_fact(self, node: ast.expr, value: Value) -> Value:
        """Return the value of an expression, refined by the facts of a run."""
        module = self.frame.module
        if id(module) not in self.tensors:
            self.tensors[id(module)] = self.facts.of(module.source)
        dtype = self.tensors[id(module)].get(span_of(node))
        return value if dtype is None else with_fact(value, dtype)

    def eval_parts(self, node: ast.AST) -> Value:
        """Evaluate the parts of an expression whose type has no method; its value is unknown."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        return UNKNOWN

    def eval_Constant(self, node: ast.Constant) -> Value:
        known = self.constants.get(node)
        if known is None:
            known = self.constants[node] = literal(node.value)
        return known

    def eval_Name(self, node: ast.Name) -> Value:
        self.note_global_read(node)
        return self.lookup(node.id)

    def eval_Attribute(self, node: ast.Attribute) -> Value:
        env = self.frames[-1].env
        if env is not None and (known := env.get(dotted(node))) is not None:
            return known
        value = self.evaluate(node.value)
        if isinstance(node.value, ast.Name):
            self._prove(node.value.id, value, node.attr)
        return self.attribute(value, node.attr, node)

    def _prove(self, name: str, value: Value, attribute: str) -> None:
        """Mark a likely tensor as proved if `attribute`, which was read, is one of tensors only."""
        if attribute not in TENSOR_ONLY and attribute not in NUMERIC_ONLY:
            return
        env = self.frame.env
        likely = any(isinstance(one, Tensor) and not one.proved for one in value)
        if likely and env is not None and name in env:
            env[name] = tuple(
                replace(one, proved=True) if isinstance(one, Tensor) else one
                for one in self.as_tensor(value, attribute)
            )

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.assign(node.target, value)
        return value

    def eval_Starred(self, node: ast.Starred) -> Value:
        return self.evaluate(node.value)

    def eval_Await(self, node: ast.Await) -> Value:
        self.evaluate(node.value)
        return UNKNOWN

    def eval_Yield(self, node: ast.Yield) -> Value:
        value = self.evaluate(node.value) if node.value is not None else literal(None)
        self.frame.yielded.append(value)
        return UNKNOWN

    def eval_YieldFrom(self, node: ast.YieldFrom) -> Value:
        self.frame.yielded.append(self.element_of(self.evaluate(node.value)))
        return UNKNOWN

    def eval_Lambda(self, node: ast.Lambda) -> Value:
        frame = self.frame
        inside = f"{frame.function.qualified}."
        definition = self.definition_of(node, frame.function, inside)
        return (Function(definition, (), self.visible_names()),)

    def definition_of(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, around: Any, prefix: str
    ) -> FunctionDefinition:
        """Return the definition of a function nested in `around`; the same object for a node."""
        if node not in self.inner:
            self.inner[node] = FunctionDefinition(node, around.module, None, prefix)
        return self.inner[node]

    def visible_names(self) -> dict[str, Value]:
        """Return the local and enclosing variables that a function defined here can read."""
        frame = self.frame
        return {**(frame.enclosing or {}), **(frame.env or {})}

    # Containers.

    def eval_Tuple(self, node: ast.Tuple) -> Value:
        return self._display(node.elts, "tuple")

    def eval_List(self, node: ast.List) -> Value:
        return self._display(node.elts, "list")

    def eval_Set(self, node: ast.Set) -> Value:
        return self._display(node.elts, "set")

    def _display(self, elements: list[ast.expr], kind: str) -> Value:
        values, known = [], True
        for one in elements:
            value = self.evaluate(one)
            if isinstance(one, ast.Starred):
                known = False
                value = self.element_of(value)
            values.append(value)
        return make_sequence(kind, values) if known else sequence_of(join_all(values), kind)

    def eval_Dict(self, node: ast.Dict) -> Value:
        items: dict[object, Value] = {}
        rest: list[Value] = []
        for key, value in zip(node.keys, node.values, strict=True):
            made = self.evaluate(value)
            known = self.evaluate(key) if key is not None else ()
            if key is None:
                for one in made:
                    if isinstance(one, Mapping):
                        items |= dict(one.items)
                        rest.append(one.element)
                    else:
                        rest.append(UNKNOWN)
            elif len(known) == 1 and isinstance(known[0], Literal):
                items[known[0].value] = made
            else:
                rest.append(made)
        return (Mapping(tuple(items.items()), join_all(rest)),)

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.evaluate(part.value)
                if part.format_spec is not None:
                    self.evaluate(part.format_spec)
                self.note_tensor(part.value, value, "text.fstring")
        return STR

    def eval_Slice(self, node: ast.Slice) -> Value:
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                value = self.evaluate(bound)
                self.note_tensor(bound, value, "scalar.slice_bound")
                self.note_branch(bound, data_only(value), "branch.slice_bound")
        return (Plain("slice"),)

    # Operators.

    def eval_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        return self.operate(node.op, left, right)

    def operate(self, op: ast.AST, left: Value, right: Value) -> Value:
        """Return the result of the binary operator `op`."""
        if (found := operator_result(op, [left, right])) is not None:
            return found
        both = left[0], right[0]
        if len(left) == len(right) == 1:
            a, b = both
            if isinstance(a, Literal) and isinstance(b, Literal) and type(op) in OPERATORS:
                return fold(op, a, b)
            if isinstance(a, Sequence) and isinstance(b, Sequence) and isinstance(op, ast.Add):
                if a.items is not None and b.items is not None:
                    return make_sequence(a.kind, (*a.items, *b.items))
                return sequence_of(join_all((a.element, b.element)), a.kind)
            if isinstance(op, ast.Mult):
                for one, other in (both, both[::-1]):
                    if isinstance(one, Sequence) and not isinstance(other, Unknown):
                        return sequence_of(one.element, one.kind)
            if isinstance(a, Literal | Plain) and isinstance(b, Literal | Plain):
                return plain_result(op, a.kind, b.kind)
        if is_plain((*left, *right)):
            return PLAIN
        return UNKNOWN

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            known = self.condition(node.operand, "branch.not")
            return BOOL if known is None else literal(not known)
        value = self.evaluate(node.operand)
        if (found := operator_result(node.op, [value])) is not None:
            return found
        match value:
            case (Literal(value=int() | float() as number),) if isinstance(node.op, ast.USub):
                return literal(-number)
            case (Literal() | Plain(),):
                return (Plain(value[0].kind),)
        return UNKNOWN

    def eval_BoolOp(self, node: ast.BoolOp) -> Value:
        """Evaluate the operands from left to right, and all but the last as conditions."""
        construct = "branch.and" if isinstance(node.op, ast.And) else "branch.or"
        stops = not isinstance(node.op, ast.And)
        before, found = self.frame.env, []
        for operand in node.values[:-1]:
            self.frame.env = dict(self.frame.env or {})
            self.seen_value = UNKNOWN
            known = self.condition(operand, construct)
            found.append(self._part(self.seen_value, known, stops))
            if known is stops:
                self.frame.env = before
                return join_all(found) or BOOL
            self.narrow(operand, not stops)
        found.append(self.evaluate(node.values[-1]))
        self.frame.env = before
        return join_all(found) or UNKNOWN

    def _part(self, value: Value, known: bool | None, stops: bool) -> Value:
        """Return the alternatives of an operand that can be the result of the `and` or `or`."""
        if known is not None and known is not stops:
            return ()
        return tuple(one for one in value if truth((one,)) in (None, stops)) or UNKNOWN

    def eval_Compare(self, node: ast.Compare) -> Value:
        left, value = self.evaluate(node.left), UNKNOWN
        for number, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.evaluate(right_node)
            value = self._compare(node, op, left, right, right_node)
            if number < len(node.ops) - 1:
                self.note_branch(node, value, "branch.chained")
            left = right
        return value

    def _compare(
        self, node: ast.Compare, op: ast.cmpop, left: Value, right: Value, right_node: ast.expr
    ) -> Value:
        if isinstance(op, ast.Is | ast.IsNot):
            return identity(left, right, isinstance(op, ast.IsNot))
        if isinstance(op, ast.In | ast.NotIn):
            return self._membership(node, left, right)
        if (found := operator_result(op, [left, right])) is not None:
            return found
        match left, right:
            case (Literal() as a,), (Literal() as b,) if type(op) in OPERATORS:
                return fold(op, a, b)
        return BOOL if is_plain(left) and is_plain(right) else UNKNOWN

    def _membership(self, node: ast.Compare, left: Value, right: Value) -> Value:
        if any(isinstance(one, Tensor) for one in left):
            inside = [one for one in right if isinstance(one, Sequence)]
            if inside:
                self.note_tensor(node, left, "branch.in_list")
                return BOOL
        for one in right:
            if isinstance(one, Sequence) and any(isinstance(e, Tensor) for e in one.element):
                self.note_tensor(node, one.element, "branch.in_list")
        if any(isinstance(one, Tensor) for one in right):
            self.note_tensor(node, right, "branch.in_tensor")
            return (Data(is_proved(right), "bool"),)
        match left, right:
            case (Literal(value=key),), (Mapping(items=items, element=()),):
                known = any(k == key for k, _ in items)
                positive = isinstance(node.ops[0], ast.In)
                return literal(known is positive)
        return BOOL

    def eval_IfExp(self, node: ast.IfExp) -> Value:
        known = self.condition(node.test, "branch.ternary")
        before, found = self.frame.env, []
        for outcome, branch in ((True, node.body), (False, node.orelse)):
            if known is not None and known is not outcome:
                continue
            self.frame.env = dict(before or {})
            self.narrow(node.test, outcome)
            found.append(self.evaluate(branch))
        self.frame.env = before
        return join_all(found) or UNKNOWN

    # Comprehensions.

    def eval_ListComp(self, node: ast.ListComp) -> Value:
        return sequence_of(self._comprehend(node.generators, [node.elt])[0])

    def eval_SetComp(self, node: ast.SetComp) -> Value:
        return sequence_of(self._comprehend(node.generators, [node.elt])[0], "set")

    def eval_GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return sequence_of(self._comprehend(node.generators, [node.elt])[0], "generator")

    def eval_DictComp(self, node: ast.DictComp) -> Value:
        return (Mapping((), self._comprehend(node.generators, [node.key, node.value])[1]),)

    def _comprehend(
        self, generators: list[ast.comprehension], parts: list[ast.expr]
    ) -> list[Value]:
        before = self.frame.env
        self.frame.env = dict(before or {})
        self.comprehensions += 1
        for one in generators:
            values = self.evaluate(one.iter)
            self.note_iteration(one.iter, values)
            element = self.element_of(values)
            self.assign(one.target, element or UNKNOWN)
            for test in one.ifs:
                self.condition(test, "branch.comprehension")
                self.narrow(test, True)
        found = [self.evaluate(part) for part in parts]
        self.comprehensions -= 1
        self.frame.env = before
        return found

    def note_iteration(self, node: ast.expr, value: Value) -> None:
        """Note a loop over a NumPy array, which breaks the graph."""
        self.note_tensor(
            node, tuple(o for o in value if isinstance(o, Tensor) and o.array), "numpy.iterate"
        )

    def element_of(self, value: Value) -> Value:
        """Return the join of the elements that iterating over a value yields."""
        found: list[Value] = []
        for one in value:
            match one:
                case Sequence():
                    found.append(one.element)
                case Tensor():
                    found.append((one,))
                case Data():
                    found.append((Data(one.proved, "int" if one.kind == "size" else ""),))
                case Mapping():
                    found.append(STR if one.items else PLAIN)
                case Plain(kind="size" | "range"):
                    found.append(INT)
                case Plain() | Literal():
                    found.append(PLAIN)
                case _:
                    found.append(self.elements_of_module(one))
        return join_all(found) or UNKNOWN

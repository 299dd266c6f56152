"""Evaluation of conditions, and narrowing of variables by their outcome."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.builtin_calls import classes_in, is_instance
from fullgraph.rewrites.check.interpreter.subscripts import Subscripts
from fullgraph.rewrites.check.interpreter.values import (
    UNKNOWN,
    ClassObject,
    Instance,
    Tensor,
    Value,
    join_all,
    only_none,
    truth,
    without_none,
)
from fullgraph.rewrites.check.syntax import dotted


class Conditions(Subscripts):
    """Part of the interpreter that decides conditions and narrows variables in their branches.

    After `x is not None`, for example, `x` is no longer None.
    """

    def condition(self, node: ast.expr, construct: str) -> bool | None:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self.condition(operand, construct)
                return None if known is None else not known
            case ast.BoolOp():
                return self._conditions(node, construct)
        value = self.evaluate(node)
        self.seen_value = value
        known = truth(value)
        if known is None:
            self.note_branch(node, value, construct)
        return known

    def _conditions(self, node: ast.BoolOp, construct: str) -> bool | None:
        """Evaluate the operands of `and` or `or` as conditions; return the truth of the whole.

        None if it is unknown.
        """
        stops = isinstance(node.op, ast.Or)
        before, answers = self.frame.env, []
        for operand in node.values:
            self.frame.env = dict(self.frame.env or {})
            known = self.condition(operand, construct)
            answers.append(known)
            if known is stops:
                break
            self.narrow(operand, not stops)
        self.frame.env = before
        self.seen_value = UNKNOWN
        if stops in answers:
            return (
                stops
                if all(one is not None for one in answers) or answers[0] is stops
                else (stops if answers[-1] is stops else None)
            )
        return not stops if all(one is (not stops) for one in answers) else None

    def narrow(self, node: ast.expr, outcome: bool) -> None:
        env = self.frame.env
        if env is None:
            return
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.narrow(operand, not outcome)
            case ast.BoolOp(op=op, values=values):
                if isinstance(op, ast.And) is outcome:
                    for one in values:
                        self.narrow(one, outcome)
            case ast.Compare(
                left=left,
                ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
                comparators=[ast.Constant(value=None)],
            ):
                positive = isinstance(op, ast.Is | ast.Eq)
                self._restrict(left, positive is outcome)
            case ast.Name() | ast.Attribute():
                if outcome:
                    self._restrict(node, False)
            case ast.Call(func=ast.Name(id="isinstance"), args=[subject, kinds]):
                self._restrict_to_classes(subject, kinds, outcome)
            case ast.Call(func=function, args=[subject]) if dotted(function).endswith("is_tensor"):
                self._keep(subject, lambda one: isinstance(one, Tensor) is outcome, outcome)
            case ast.NamedExpr(target=target):
                self.narrow(target, outcome)

    def _restrict(self, node: ast.expr, to_none: bool) -> None:
        """Narrow a variable or attribute to None if `to_none`, else to its other alternatives."""
        path, env = dotted(node), self.frame.env
        if not path or env is None:
            return
        value = self.quiet(node)
        rest = only_none(value) if to_none else without_none(value)
        if rest:
            env[path] = rest
        elif value:
            env[path] = UNKNOWN

    def _restrict_to_classes(self, subject: ast.expr, kinds: ast.expr, outcome: bool) -> None:
        from_classes = self.quiet(kinds)
        self._keep(
            subject, lambda one: is_instance(one, from_classes) is not (not outcome), outcome
        )
        path, env = dotted(subject), self.frame.env
        if not outcome or not path or env is None:
            return
        if all(type(one).__name__ == "Unknown" for one in env.get(path, UNKNOWN)):
            made = self.instances_of(from_classes)
            if made:
                env[path] = made

    def instances_of(self, kinds: Value) -> Value:
        """Return the value of a variable that is an instance of the classes `kinds`.

        Empty if a class is unknown.
        """
        found: list[Value] = []
        for one in classes_in(kinds):
            if isinstance(one, ClassObject):
                found.append((Instance(one.kind),))
            elif getattr(one, "name", "") == "torch.Tensor":
                found.append((Tensor(),))
            elif getattr(one, "name", "") == "numpy.ndarray":
                found.append((Tensor(array=True),))
            else:
                return ()
        return join_all(found)

    def _keep(self, node: ast.expr, keeps: object, outcome: bool) -> None:
        path, env = dotted(node), self.frame.env
        assert callable(keeps)
        if path and env is not None:
            value = self.quiet(node)
            env[path] = tuple(one for one in value if keeps(one)) or UNKNOWN

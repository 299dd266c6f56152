"""Evaluation of statements: branches are joined, loops run to a small fixpoint."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fullgraph.rewrites.check.interpreter.changes import may_be_new
from fullgraph.rewrites.check.interpreter.conditions import Conditions
from fullgraph.rewrites.check.interpreter.loops import carried_reads
from fullgraph.rewrites.check.interpreter.machine import (
    Env,
    OutOfFuel,
    changed_names,
    join_environments,
)
from fullgraph.rewrites.check.interpreter.recompiles import assignments
from fullgraph.rewrites.check.interpreter.values import (
    NONE,
    UNKNOWN,
    Function,
    Instance,
    Literal,
    Mapping,
    Sequence,
    Tensor,
    Value,
    join_all,
    sequence_of,
)
from fullgraph.rewrites.check.syntax import dotted

ITERATIONS = 3
"""Number of times that the body of a loop is evaluated at most."""


class Statements(Conditions):
    """Part of the interpreter that runs statements, with one method for each type of node."""

    loops: dict[ast.AST, frozenset[str]]
    """What an iteration reads of the one before, by loop."""

    def run_block(self, body: Iterable[ast.stmt]) -> None:
        """Evaluate statements until one leaves the block, as `return` does."""
        frame = self.frame
        for statement in body:
            if frame.env is None:
                return
            self.fuel -= 1
            if self.fuel < 0:
                raise OutOfFuel
            before = frame.statement
            frame.statement = statement
            method = self.methods.get(statement.__class__)
            (method or self.method_for("run", statement, self.ignore))(statement)
            frame.statement = before

    def ignore(self, node: ast.stmt) -> None:
        """Do nothing: a statement such as `pass` changes nothing that the interpreter knows."""

    def run_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and self.defer_call(node.value):
            return
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value)

    def defer_call(self, node: ast.Call) -> bool:
        """Defer a call whose result is not used, if that is possible; return whether it is."""
        raise NotImplementedError

    def run_Assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        self._note_updates(node, value)
        for target in node.targets:
            self.assign(target, value)

    def run_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.evaluate(node.value)
            self._note_updates(node, value)
            self.assign(node.target, value)

    def _note_updates(self, node: ast.Assign | ast.AnnAssign, value: Value) -> None:
        """Note the targets of an assignment that have another value in the next call."""
        if self.silent:
            return
        for target, source in assignments(node):
            if not isinstance(target, ast.Name) or target.id in self.frame.global_names:
                part = value if source is node.value else self.quiet(source)
                self.note_update(target, part, source)

    def run_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            old = self.evaluate_subscript(target, "augmented")
        elif isinstance(target, ast.Attribute):
            old = self.eval_Attribute(target)
        else:
            old = self.lookup(target.id)
        value = self.operate(node.op, old, self.evaluate(node.value))
        self.note_update(target, value, None)
        if not isinstance(target, ast.Subscript):
            self.assign(target, value)

    def run_Return(self, node: ast.Return) -> None:
        value = self.evaluate(node.value) if node.value is not None else NONE
        self.frame.returned.append(value)
        self.frame.env = None

    def run_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.evaluate(node.exc)
        self.frame.env = None

    def run_Delete(self, node: ast.Delete) -> None:
        env = self.frame.env
        for target in node.targets:
            if isinstance(target, ast.Name) and env is not None:
                env.pop(target.id, None)

    def run_Import(self, node: ast.Import) -> None:
        self.import_locally(node)

    def run_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.import_locally(node)

    def run_FunctionDef(self, node: ast.FunctionDef) -> None:
        frame = self.frame
        definition = self.definition_of(node, frame.function, f"{frame.function.qualified}.")
        env = frame.env
        assert env is not None
        env[node.name] = (Function(definition, (), self.visible_names()),)

    run_AsyncFunctionDef = run_FunctionDef

    def run_ClassDef(self, node: ast.ClassDef) -> None:
        self.note(node, "python.class_definition", True)
        env = self.frame.env
        assert env is not None
        env[node.name] = UNKNOWN

    def run_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.frame.global_names.add(name)

    def run_Assert(self, node: ast.Assert) -> None:
        known = self.condition(node.test, assert_construct(node))
        if known is False:
            self.frame.env = None
            return
        if node.msg is not None and known is not True:
            before = self.frame.env
            self.frame.env = dict(before or {})
            self.narrow(node.test, False)
            self.silent += 1  # evaluated only if the assert fails
            self.evaluate(node.msg)
            self.silent -= 1
            self.frame.env = before
        self.narrow(node.test, True)

    # Branches.

    def run_If(self, node: ast.If) -> None:
        known = self.condition(node.test, "branch.if")
        frame, before, after = self.frame, self.frame.env, []
        for outcome, body in ((True, node.body), (False, node.orelse)):
            if known is not None and known is not outcome:
                continue
            frame.env = dict(before or {})
            self.narrow(node.test, outcome)
            self.run_block(body)
            after.append(frame.env)
        frame.env = join_environments(after)

    def run_Match(self, node: ast.Match) -> None:
        self.evaluate(node.subject)
        frame, before = self.frame, self.frame.env
        after: list[Env | None] = [before]
        for case in node.cases:
            frame.env = dict(before or {})
            for part in ast.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    frame.env[name] = UNKNOWN
            self.run_block(case.body)
            after.append(frame.env)
        frame.env = join_environments(after)

    def run_Try(self, node: ast.Try) -> None:
        frame = self.frame
        before = dict(frame.env or {})
        self.run_block(node.body)
        middle = frame.env
        after: list[Env | None] = []
        if middle is not None:
            self.run_block(node.orelse)
            after.append(frame.env)
        for handler in node.handlers:
            frame.env = dict(join_environments([before, middle]) or before)
            if handler.name:
                frame.env[handler.name] = UNKNOWN
            self.run_block(handler.body)
            after.append(frame.env)
        frame.env = join_environments(after)
        if node.finalbody:
            reached = frame.env is not None
            frame.env = frame.env if reached else dict(before)
            self.run_block(node.finalbody)
            frame.env = frame.env if reached else None

    run_TryStar = run_Try

    def run_With(self, node: ast.With) -> None:
        for item in node.items:
            value = self.evaluate(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value)
        self.run_block(node.body)

    run_AsyncWith = run_With

    # Loops.

    def run_For(self, node: ast.For) -> None:
        values = self.evaluate(node.iter)
        self.note_iteration(node.iter, values)
        match values:
            case (Sequence(items=tuple() as items),) if not items:
                self.run_block(node.orelse)
                return
        element = self.element_of(values)

        def start() -> None:
            self.assign(node.target, element)

        self._loop(node, start, None)

    run_AsyncFor = run_For

    def run_While(self, node: ast.While) -> None:
        self._loop(node, lambda: None, node.test)

    def _loop(self, node: ast.For | ast.While, start: object, test: ast.expr | None) -> None:
        """Evaluate a loop until its environment no longer changes, at most ITERATIONS times.

        `start` assigns the target of a `for` loop; `test` is the condition of a `while` loop.
        """
        frame = self.frame
        assert callable(start)
        before = frame.env
        after: list[Env | None] = []
        for _ in range(ITERATIONS):
            frame.env = dict(before or {})
            frame.exits.append([])
            known = self.condition(test, "branch.while") if test is not None else None
            if known is not True:
                left = dict(frame.env)
                after.append(left)
            if known is False:
                frame.exits.pop()
                break
            if test is not None:
                self.narrow(test, True)
            start()
            self.run_block(node.body)
            exits = frame.exits.pop()
            after += exits
            joined = join_environments([before, frame.env, *exits])
            changed = changed_names(before or {}, joined or {})
            before = joined
            if not changed or changed.isdisjoint(self._carried_reads(node)):
                break
        after.append(before if test is None else None)
        frame.env = join_environments(after)
        if frame.env is not None:
            if test is not None:
                self.narrow(test, False)
            self.run_block(node.orelse)

    def _carried_reads(self, node: ast.For | ast.While) -> frozenset[str]:
        if node not in self.loops:
            self.loops[node] = carried_reads(node)
        return self.loops[node]

    def run_Break(self, node: ast.Break) -> None:
        self._leave()

    def run_Continue(self, node: ast.Continue) -> None:
        self._leave()

    def _leave(self) -> None:
        frame = self.frame
        if frame.exits and frame.env is not None:
            frame.exits[-1].append(frame.env)
        frame.env = None

    # Assignments.

    def assign(self, target: ast.expr, value: Value) -> None:
        env = self.frame.env
        if env is None:
            return
        match target:
            case ast.Name(id=name):
                env[name] = value
                prefix = f"{name}."
                for path in [one for one in env if "." in one and one.startswith(prefix)]:
                    del env[path]
            case ast.Attribute():
                self._assign_attribute(target, value)
            case ast.Subscript():
                self._assign_element(target, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                self._unpack(elements, value)
            case ast.Starred(value=inner):
                self.assign(inner, sequence_of(self.element_of(value)))

    def _assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        owner = self.evaluate(target.value)
        self.frame.stored.add(target.attr)
        path = dotted(target)
        if path and self.frame.env is not None:
            self.frame.env[path] = value
        for one in owner:
            if isinstance(one, Instance):
                self.set_attribute(one.kind, target.attr, value)
            elif isinstance(one, Tensor):
                self.note(target, f"store:{target.attr}", one.proved, self.frame_statement())

    def _assign_element(self, target: ast.Subscript, value: Value) -> None:
        base = self.evaluate_subscript(target, "store", value)
        path, env = dotted(target.value), self.frame.env
        for one in base:
            if isinstance(one, Mapping) and path and env is not None:
                key = self.evaluate(target.slice)
                if may_be_new(one, key):
                    self.note_growth(target, target.value, "recompile.module_dict")
                if len(key) == 1 and isinstance(key[0], Literal):
                    items = dict(one.items) | {key[0].value: value}
                    env[path] = (Mapping(tuple(items.items()), one.element),)
                else:
                    env[path] = (Mapping(one.items, join_all((one.element, value))),)
            elif isinstance(one, Sequence) and path and env is not None and one.kind == "list":
                env[path] = sequence_of(join_all((one.element, value)), one.kind)

    def _unpack(self, elements: list[ast.expr], value: Value) -> None:
        """Assign the elements of a value to the targets of a tuple."""
        starred = any(isinstance(one, ast.Starred) for one in elements)
        match value:
            case (Sequence(items=tuple() as items),) if len(items) == len(elements) and not starred:
                for one, item in zip(elements, items, strict=True):
                    self.assign(one, item)
            case _:
                element = self.element_of(value)
                for one in elements:
                    inner = sequence_of(element) if isinstance(one, ast.Starred) else element
                    self.assign(one.value if isinstance(one, ast.Starred) else one, inner)


def assert_construct(node: ast.Assert) -> str:
    """Return the construct of an `assert`, such as "assert.negated" for `assert not x`.

    It depends on the syntax of the condition and of the message.
    """
    if isinstance(node.test, ast.BoolOp):
        return "assert.operators"
    if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        return "assert.negated"
    if node.msg is None:
        return "assert.plain"
    return "assert.message" if isinstance(node.msg, ast.Constant) else "assert.made_message"

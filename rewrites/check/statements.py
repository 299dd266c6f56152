"""Evaluation of statements: branches are joined, loops run to a small fixpoint."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fullgraph.rewrites.check.builtin_calls import classes_in, is_instance
from fullgraph.rewrites.check.calls import Calls
from fullgraph.rewrites.check.expressions import data_only
from fullgraph.rewrites.check.machine import Env, join_environments
from fullgraph.rewrites.check.project import dotted
from fullgraph.rewrites.check.recompiles import (
    construct_of_update,
    is_fresh,
    owners_of,
    reads,
)
from fullgraph.rewrites.check.values import (
    INT,
    NONE,
    UNKNOWN,
    ClassObject,
    Data,
    External,
    Function,
    Instance,
    Layer,
    Literal,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join_all,
    only_none,
    sequence_of,
    truth,
    without_none,
)

ITERATIONS = 3
"""Number of times that the body of a loop is evaluated, at most."""


class Statements(Calls):
    """Layer of the interpreter: statements, assignments and conditions."""

    def run_block(self, body: Iterable[ast.stmt]) -> None:
        """Evaluate statements until one leaves the block."""
        frame = self.frame
        for statement in body:
            if frame.env is None:
                return
            self.burn()
            before = frame.statement
            frame.statement = statement
            method = getattr(self, f"run_{type(statement).__name__}", None)
            if method is not None:
                method(statement)
            frame.statement = before

    def run_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value)

    def run_Assign(self, node: ast.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            path = dotted(target)
            if isinstance(target, ast.Attribute):
                self._note_update(target, value, bool(path) and reads(node.value, path))
            elif path in self.frame.global_names and reads(node.value, path):
                self.note(target, "recompile.global", True, self.around(target))
            self.assign(target, value)

    def run_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value))

    def run_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            old = self.evaluate_subscript(target, "augmented")
        elif isinstance(target, ast.Attribute):
            old = self.eval_Attribute(target)
        else:
            old = self.lookup(target.id)
        value = self.operate(node.op, old, self.evaluate(node.value))
        if isinstance(target, ast.Attribute):
            self._note_update(target, value, True)
        elif isinstance(target, ast.Name) and target.id in self.frame.global_names:
            self.note(target, "recompile.global", True, self.around(target))
        if not isinstance(target, ast.Subscript):
            self.assign(target, value)

    def _note_update(self, target: ast.Attribute, value: Value, reads_itself: bool) -> None:
        """Note an attribute that has another value in the next call."""
        path = dotted(target)
        local = path.partition(".")[0] in (self.frame.env or {}) and not self._is_receiver(path)
        if self.silent or not path or local or is_fresh(self.frames, path):
            return
        for kind in owners_of(self.quiet(target.value)):
            before = self.initial_attribute(kind, target.attr)
            if construct := construct_of_update(kind, before, value, reads_itself):
                self.note(target, construct, True, self.around(target))

    def _is_receiver(self, path: str) -> bool:
        """Return whether a path starts at the instance whose method runs."""
        args = self.frame.function.node.args
        names = [*args.posonlyargs, *args.args]
        first = names[0].arg if names and self.frame.receiver else ""
        return path.partition(".")[0] == first

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
        """Evaluate a loop until its environment no longer changes."""
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
            if joined == before:
                break
            before = joined
        after.append(before if test is None else None)
        frame.env = join_environments(after)
        if frame.env is not None:
            if test is not None:
                self.narrow(test, False)
            self.run_block(node.orelse)

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
                for path in [one for one in env if one.startswith(f"{name}.")]:
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
                self.note(target, f"store:{target.attr}", one.proved, self.around(target))

    def _assign_element(self, target: ast.Subscript, value: Value) -> None:
        base = self.evaluate_subscript(target, "store", value)
        path, env = dotted(target.value), self.frame.env
        for one in base:
            if isinstance(one, Mapping) and path and env is not None:
                key = self.evaluate(target.slice)
                if len(key) == 1 and isinstance(key[0], Literal):
                    items = dict(one.items) | {key[0].value: value}
                    env[path] = (Mapping(tuple(items.items()), one.element),)
                else:
                    env[path] = (Mapping(one.items, join_all((one.element, value))),)
            elif isinstance(one, Sequence) and path and env is not None and one.kind == "list":
                env[path] = sequence_of(join_all((one.element, value)), one.kind)

    def _unpack(self, elements: list[ast.expr], value: Value) -> None:
        """Bind the targets of a tuple to the elements of a value."""
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

    # Subscripts.

    def eval_Subscript(self, node: ast.Subscript) -> Value:
        return self.evaluate_subscript(node, "read")

    def evaluate_subscript(self, node: ast.Subscript, use: str, stored: Value = ()) -> Value:
        """Return an element; note masks. `use` is "read", "store" or "augmented".

        For "store" the container itself is returned.
        """
        base, index = self.evaluate(node.value), self.evaluate(node.slice)
        parts = _index_parts(index)
        found: list[Value] = []
        for one in base:
            found.append(self._element(one, index, parts, node, use, stored))
        return base if use == "store" else join_all(found) or UNKNOWN

    def _element(
        self,
        one: object,
        index: Value,
        parts: list[Value],
        node: ast.Subscript,
        use: str,
        stored: Value,
    ) -> Value:
        match one:
            case Tensor():
                return self._tensor_element(one, parts, node, use, stored)
            case Sequence():
                if any(isinstance(o, Tensor) for o in index):
                    self.note_tensor(node, index, "scalar.list_index")
                match index:
                    case (Literal(value=int() as number),) if one.items is not None:
                        if -len(one.items) <= number < len(one.items):
                            return one.items[number]
                    case (Plain(kind="slice"),):
                        return sequence_of(one.element, one.kind)
                return one.element or UNKNOWN
            case Mapping():
                if any(isinstance(o, Tensor) for o in index):
                    self.note_tensor(node, index, "scalar.dict_index")
                match index:
                    case (Literal(value=key),):
                        known = dict(one.items).get(key)
                        return known if known is not None else one.element or UNKNOWN
                return join_all((*(v for _, v in one.items), one.element)) or UNKNOWN
            case Layer() if one.element:
                self.note_branch(node, data_only(index), "branch.module_index")
                return one.element
            case Plain(kind="size"):
                return (one,) if index == (Plain("slice"),) else INT
            case External(name="numpy.mgrid" | "numpy.ogrid" as name):
                self.note(node, f"call:{name}", True, self.around(node))
                return (Tensor(array=True),)
            case Data():
                return (Data(one.proved, "int" if one.kind == "size" else "", one.random),)
            case Unknown():
                if any(isinstance(o, Tensor) and o.dtype == "bool" for p in parts for o in p):
                    return self._tensor_element(Tensor(), parts, node, use, stored)
                if len(parts) > 1 and any(p == (Plain("slice"),) for p in parts):
                    return (Tensor(),)
        return UNKNOWN

    def _tensor_element(
        self, one: Tensor, parts: list[Value], node: ast.Subscript, use: str, stored: Value
    ) -> Value:
        masks = [p for p in parts if any(isinstance(o, Tensor) and o.dtype == "bool" for o in p)]
        maybe = [p for p in parts if any(isinstance(o, Tensor) and o.dtype == "" for o in p)]
        if parts and all(isinstance(o, Literal) and o.kind == "str" for o in parts[0]):
            return UNKNOWN  # a dict after all
        dynamic = any(isinstance(o, Tensor) and o.dynamic for p in parts for o in p)
        if masks:
            if use == "read":
                construct = "mask.read"
            elif use == "augmented":
                construct = "mask.augmented"
            else:
                tensor = any(isinstance(o, Tensor) for o in stored)
                selected = any(isinstance(o, Tensor) and o.dynamic for o in stored)
                kind = "selection" if selected else "tensor" if tensor else "number"
                construct = f"mask.store_{kind}"
            # A comparison that is used as an index is one of tensors, and indexes a tensor.
            self.note(node, construct, True, self.around(node))
        if maybe and not masks and use == "read" and _looks_like_mask(node.slice):
            self.note(node, "mask.read", False, self.around(node))
        proved = one.proved and all(o.proved for p in parts for o in p if isinstance(o, Tensor))
        return (Tensor(proved, one.dtype, one.dynamic or dynamic or bool(masks), one.array),)

    # Conditions.

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
        """Evaluate the operands of `and` or `or` as conditions."""
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
        """Restrict a variable or attribute to None, or to what is not None."""
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
        """Return the value that `isinstance` with classes promises; empty if not known."""
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

    def quiet(self, node: ast.expr) -> Value:
        """Return the value of an expression without noting anything."""
        self.silent += 1
        try:
            return self.evaluate(node)
        finally:
            self.silent -= 1


def assert_construct(node: ast.Assert) -> str:
    """Return the construct of an assert by the form of its condition and message."""
    if isinstance(node.test, ast.BoolOp):
        return "assert.operators"
    if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        return "assert.negated"
    if node.msg is None:
        return "assert.plain"
    return "assert.message" if isinstance(node.msg, ast.Constant) else "assert.made_message"


def _index_parts(index: Value) -> list[Value]:
    """Return the elements of an index: those of a tuple, else the index itself."""
    match index:
        case (Sequence(kind="tuple", items=tuple() as items),):
            return list(items)
    return [index]


def _looks_like_mask(node: ast.expr) -> bool:
    """Return whether an index has the name of a mask."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    names = [dotted(one).rpartition(".")[2].lower() for one in parts]
    return any(n in ("mask", "valid", "keep") or n.endswith("_mask") for n in names)

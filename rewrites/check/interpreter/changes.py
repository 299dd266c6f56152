"""State that outlives a call: where the compiled code reads it, and where it changes it."""

from __future__ import annotations

import ast

from fullgraph.rewrites.check.interpreter.inputs import set_from_outside
from fullgraph.rewrites.check.interpreter.machine import Machine
from fullgraph.rewrites.check.interpreter.recompiles import (
    MADE,
    READ,
    READ_VALUE,
    carries,
    construct_of_update,
    differs,
    is_fresh,
    kind_of_plain,
    lengthens,
    operands_in,
    owner_of,
    owners_of,
    shortens,
    state_of,
)
from fullgraph.rewrites.check.interpreter.values import Literal, Mapping, Tensor, Value
from fullgraph.rewrites.check.project import ClassDefinition
from fullgraph.rewrites.check.syntax import dotted


class Changes(Machine):
    """Part of the interpreter that notes state which changes from call to call."""

    operands: dict[ast.AST, frozenset[ast.AST]]
    """Operands in each function, by its node."""
    settable: dict[int, frozenset[str]]
    """Attributes that code outside sets by a method, by the class's id."""

    # Reads.

    def note_read(self, node: ast.expr, kind: ClassDefinition, name: str, read: str = "") -> None:
        """Note that the compiled code reads an attribute before it assigns it."""
        if self.silent or name not in kind.written_outside_init or is_fresh(self.frames, name):
            return
        state = state_of(kind, name)
        self.note(node, read or self._read_of(node), state=state)
        if any(name in self._settable(o) for o in kind.order if isinstance(o, ClassDefinition)):
            plain = kind_of_plain(self.initial_attribute(kind, name) or ())
            if plain in ("int", "float"):  # flags and names are settings, as a rule
                construct = f"recompile.{owner_of(kind)}_{plain}"
                self.note(node, construct, False, self.frame_statement(), state)

    def _settable(self, kind: ClassDefinition) -> frozenset[str]:
        if id(kind) not in self.settable:
            self.settable[id(kind)] = set_from_outside(kind)
        return self.settable[id(kind)]

    def note_global_read(self, node: ast.Name) -> None:
        """Note that the compiled code reads a global that a function writes."""
        if node.id in self.frame.module.written_globals and self.is_global(node.id):
            state = f"{self.frame.module.name}:.{node.id}"
            self.note(node, self._read_of(node), state=state)

    def _read_of(self, node: ast.expr) -> str:
        function = self.frame.function
        if function.node not in self.operands:
            self.operands[function.node] = operands_in(function)
        return READ_VALUE if node in self.operands[function.node] else READ

    def is_global(self, name: str) -> bool:
        """Return whether a name means a global that its module assigns."""
        frame = self.frame
        local = name in (frame.env or {}) or name in (frame.enclosing or {})
        return not local and name in frame.module.assigned

    # Changes.

    def note_made(self, node: ast.expr, kind: ClassDefinition) -> None:
        """Note that the compiled code makes an instance of a class."""
        self.note(node, MADE, state=state_of(kind))

    def note_update(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Note an assignment if its target has another value in the next call.

        `source` is the assigned expression; None for an augmented assignment.
        """
        if self.silent:
            return
        match target:
            case ast.Attribute():
                self._note_attribute(target, value, source)
            case ast.Name(id=name) if name in self.frame.global_names:
                self._note_global(target, value, source)
            case ast.Subscript(value=container):
                path = dotted(container)
                carried = source is None or carries(source, f"{path}[]", self.frame.function)
                if carried and path and kind_of_plain(value) and self.owners(container):
                    for kind in self.owners(container):
                        name = f"recompile.{owner_of(kind)}_{kind_of_plain(value)}"
                        self.note(target, name, True, self.frame_statement(), state_of(kind))
                elif carried and isinstance(container, ast.Name) and self.is_global(container.id):
                    self.note(target, "recompile.global", True, self.frame_statement())

    def _note_attribute(self, target: ast.Attribute, value: Value, source: ast.expr | None) -> None:
        path, name = dotted(target), target.attr
        for kind in self.owners(target):
            before = self.initial_attribute(kind, name)
            carried = source is None or carries(source, path, self.frame.function)
            construct, needs = construct_of_update(kind, name, before, value, carried)
            if not construct and source is not None and lengthens(source, path):
                tensor = any(isinstance(one, Tensor) for one in before or ())
                construct = f"recompile.{owner_of(kind)}_tensor" if tensor else ""
            if construct:
                needs = needs if name in kind.written_outside_init else ()
                statement = self.frame_statement()
                self.note(target, construct, True, statement, state_of(kind, name), needs)

    def _note_global(self, target: ast.Name, value: Value, source: ast.expr | None) -> None:
        """Note an assignment to a global."""
        module = self.frame.module
        carried = source is None or carries(source, target.id, self.frame.function)
        first = module.assigned.get(target.id, [None])[0]
        constant = first if isinstance(first, ast.Constant) else None
        from_none = constant is not None and constant.value is None
        filled = from_none and not any(isinstance(o, Literal) and o.value is None for o in value)
        if carried or filled or differs(constant, value):
            needs = () if carried else (READ,) if filled else (READ, READ_VALUE)
            state = f"{module.name}:.{target.id}"
            self.note(target, "recompile.global", True, self.frame_statement(), state, needs)

    def note_growth(self, node: ast.expr, container: ast.expr, construct: str) -> None:
        """Note a list or dict that outlives the call and gets longer.

        `container` is the expression of the container, or of an element of it.
        """
        while isinstance(container, ast.Subscript):
            container = container.value
        if self.silent or shortens(self.frame.function, dotted(container)):
            return
        if isinstance(container, ast.Name) and self.is_global(container.id):
            self.note(node, "recompile.global", True, self.frame_statement())
        for kind in self.owners(container):
            assert isinstance(container, ast.Attribute)
            if any(shortens(method, dotted(container)) for method in kind.own_methods.values()):
                continue  # what is pushed is popped
            state = state_of(kind, container.attr)
            self.note(node, construct, True, self.frame_statement(), state)

    def owners(self, target: ast.expr) -> list[ClassDefinition]:
        """Return the classes of the object that holds an attribute, if it outlives the call.

        Empty if `target` is no attribute, or if this call has already assigned it.
        """
        if not isinstance(target, ast.Attribute) or is_fresh(self.frames, target.attr):
            return []
        first = dotted(target).partition(".")[0]
        if first in (self.frame.env or {}) and not self._is_receiver(first):
            return []
        return owners_of(self.quiet(target.value))

    def _is_receiver(self, name: str) -> bool:
        """Return whether a name is `self` of the method being evaluated."""
        args = self.frame.function.node.args
        names = [*args.posonlyargs, *args.args]
        return bool(names and self.frame.receiver) and name == names[0].arg


def may_be_new(mapping: Mapping, key: Value) -> bool:
    """Return whether calls may give a dict one key after the other.

    A constant key is new in the first call alone.
    """
    return not (is_constant(key) or mapping.element or mapping.items)


def is_constant(value: Value) -> bool:
    """Return whether a value is the same in all calls."""
    return len(value) == 1 and isinstance(value[0], Literal)

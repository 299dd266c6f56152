"""Calls of Python's builtins."""

from __future__ import annotations

import ast
from collections.abc import Callable

from fullgraph.rewrites.check.interpreter.expressions import Expressions
from fullgraph.rewrites.check.interpreter.operations import operator_result
from fullgraph.rewrites.check.interpreter.recompiles import READ_MISSING
from fullgraph.rewrites.check.interpreter.values import (
    BOOL,
    FALSE,
    FLOAT,
    INT,
    NONE,
    PLAIN,
    STR,
    TRUE,
    UNKNOWN,
    ClassObject,
    Data,
    External,
    Function,
    Instance,
    Layer,
    Literal,
    Mapping,
    Object,
    Plain,
    Sequence,
    Super,
    Tensor,
    Unknown,
    Value,
    is_plain,
    is_proved,
    join,
    join_all,
    literal,
    make_sequence,
    sequence_of,
)

_CONVERSIONS = {"int": INT, "float": FLOAT, "bool": BOOL, "complex": PLAIN}
_CONTAINERS = {"list": "list", "tuple": "tuple", "set": "set", "frozenset": "set"}
Handler = Callable[[list[Value], dict[str, Value], ast.Call], Value]


class BuiltinCalls(Expressions):
    """Part of the interpreter that evaluates calls of Python's builtins, such as `len(x)`."""

    def call_builtin(
        self, name: str, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of the builtin called `name`."""
        handler: Handler | None = getattr(self, f"builtin_{name}", None)
        if handler is not None:
            return handler(args, keywords, node)
        if name in _CONVERSIONS:
            return self._convert(name, args, node)
        if name in _CONTAINERS:
            return self._contain(_CONTAINERS[name], args)
        if name in ("str", "repr", "format", "ascii"):
            for arg, value in zip(node.args, args, strict=False):
                self.note_tensor(arg, value, f"text.{name}")
            return STR
        if name.endswith(("Error", "Exception", "Warning")) or name in ("object", "memoryview"):
            return (Object(f"builtins.{name}"),)
        self.note(node, f"call:{name}", True, self.frame_statement())
        return {"id": INT, "hash": INT, "callable": BOOL, "ord": INT, "input": STR}.get(
            name, UNKNOWN
        )

    def _convert(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Return the result of a conversion: `int`, `float`, `bool` or `complex`."""
        value = args[0] if args else ()
        tensors = [one for one in value if isinstance(one, Tensor)]
        data = [one for one in value if isinstance(one, Data)]
        if tensors:
            array = all(one.array for one in tensors)
            self.note_tensor(node, value, f"{'numpy' if array else 'scalar'}.{name}")
        elif data and name == "bool":
            self.note_branch(node, value, "branch.bool")
        if tensors or data:
            return (Data(is_proved(value), name),)
        match value:
            case (Literal(value=int() | float() | bool() as number),):
                try:
                    return literal({"int": int, "float": float, "bool": bool}[name](number))
                except (KeyError, OverflowError, ValueError):
                    pass
        return _CONVERSIONS[name]

    def _contain(self, kind: str, args: list[Value]) -> Value:
        if not args:
            return make_sequence(kind, ())
        parts = []
        for one in args[0]:
            if isinstance(one, Sequence) and one.items is not None:
                parts.append(make_sequence(kind, one.items))
            else:
                parts.append(sequence_of(self.element_of((one,)), kind))
        return join_all(parts) or UNKNOWN

    def builtin_len(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `len`, which depends on data if a tensor's shape does."""
        value = args[0] if args else UNKNOWN
        if any(isinstance(one, Tensor) and one.dynamic for one in value):
            return (Data(is_proved(value), "int"),)
        if any(isinstance(one, Data) and one.kind == "list" for one in value):
            return INT
        match value:
            case (Sequence(items=tuple() as items),):
                return literal(len(items))
        return INT

    def builtin_range(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `range`; note bounds that are tensors or depend on data."""
        data = False
        for arg, value in zip(node.args, args, strict=False):
            array = any(isinstance(one, Tensor) and one.array for one in value)
            self.note_tensor(
                node if array else arg, value, "numpy.range" if array else "scalar.range"
            )
            if any(isinstance(one, Data) for one in value):
                self.note(node, "number.range", is_proved(value), self.frame_statement())
                data = True
        return sequence_of((Data(True, "int"),) if data else INT, "range")

    def builtin_isinstance(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `isinstance`; any bool if it is unknown."""
        if len(args) != 2:
            return BOOL
        answers = {is_instance(one, args[1]) for one in args[0]}
        answer = answers.pop() if len(answers) == 1 else None
        return BOOL if answer is None else literal(answer)

    def builtin_callable(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `callable`."""
        kinds = {type(one) for one in args[0]} if args else set()
        if kinds and kinds <= {Function, ClassObject, External, Layer}:
            return TRUE
        return FALSE if kinds and kinds <= {Tensor, Literal, Plain, Sequence} else BOOL

    def builtin_hasattr(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return any bool: attributes may be set by code that is not interpreted."""
        match args:
            case [(Instance(kind=kind),), (Literal(value=str() as name),)]:
                self.note_read(node, kind, name, READ_MISSING)
        return BOOL

    def builtin_getattr(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `getattr`; unknown unless the name is a constant."""
        if len(args) >= 2 and len(args[1]) == 1 and isinstance(args[1][0], Literal):
            for one in args[0] if len(args) > 2 else ():
                if isinstance(one, Instance):
                    self.note_read(node, one.kind, str(args[1][0].value), READ_MISSING)
            attribute = ast.Attribute(node.args[0], str(args[1][0].value), ast.Load())
            ast.copy_location(attribute, node)
            found = self.attribute(args[0], str(args[1][0].value), attribute)
            return join(found, args[2]) if len(args) > 2 else found
        return UNKNOWN

    def builtin_super(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `super()`; unknown outside of a method."""
        receiver = self.frame.receiver
        owner = self.frame.function.owner
        found = [
            Super(one.kind, owner)
            for one in receiver
            if isinstance(one, Instance) and owner is not None
        ]
        return tuple(found) or UNKNOWN

    def builtin_min(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `min`."""
        return self._extremum("min", args, node)

    def builtin_max(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `max`."""
        return self._extremum("max", args, node)

    def _extremum(self, name: str, args: list[Value], node: ast.Call) -> Value:
        values = args if len(args) > 1 else [self.element_of(args[0])] if args else []
        whole = join_all(values) or UNKNOWN
        tensors = tuple(one for value in values for one in value if isinstance(one, Tensor))
        if tensors:
            sure = any(is_proved(value) for value in values)
            single = len(args) == 1
            self.note(
                node,
                f"builtin.{name}_{'elements' if single else 'arguments'}",
                sure,
                self.frame_statement(),
            )
            return tensors[:1] if sure else join(tensors[:1], UNKNOWN)
        if any(isinstance(one, Data) for one in whole):
            return (Data(any(is_proved(value) for value in values)),)
        return whole if not all(isinstance(o, Literal) for o in whole) else PLAIN

    def builtin_sum(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `sum`."""
        value = self.element_of(args[0]) if args else UNKNOWN
        return operator_result(ast.Add(), [value, value]) or (PLAIN if is_plain(value) else value)

    def builtin_abs(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `abs`."""
        return args[0] if args else UNKNOWN

    def builtin_round(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `round`."""
        value = args[0] if args else UNKNOWN
        self.note_tensor(node, value, "scalar.round")
        return value if not is_plain(value) else PLAIN

    def builtin_any(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `any`, which branches on each element."""
        return self._quantify("any", args, node)

    def builtin_all(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `all`, which branches on each element."""
        return self._quantify("all", args, node)

    def _quantify(self, name: str, args: list[Value], node: ast.Call) -> Value:
        value = self.element_of(args[0]) if args else UNKNOWN
        tensors = [one for one in value if isinstance(one, Tensor)]
        if tensors:
            whole = all(isinstance(one, Tensor) for one in args[0])
            self.note_tensor(node, value, f"builtin.{name}_{'tensor' if whole else 'elements'}")
            return (Data(is_proved(value), "bool"),)
        return BOOL

    def builtin_sorted(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `sorted`, which branches on comparisons of the elements."""
        value = self.element_of(args[0]) if args else UNKNOWN
        if "key" not in keywords:
            self.note_tensor(node, value, "builtin.sorted")
        return sequence_of(value)

    def builtin_enumerate(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `enumerate`."""
        value = args[0] if args else UNKNOWN
        self.note_iteration(node.args[0] if node.args else node, value)
        return sequence_of(make_sequence("tuple", [INT, self.element_of(value)]), "enumerate")

    def builtin_zip(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `zip`."""
        return sequence_of(make_sequence("tuple", map(self.element_of, args)), "zip")

    def builtin_reversed(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `reversed`."""
        return sequence_of(self.element_of(args[0]) if args else UNKNOWN)

    def builtin_iter(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `iter`."""
        return sequence_of(self.element_of(args[0]) if args else UNKNOWN, "iterator")

    def builtin_next(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `next`."""
        return self.element_of(args[0]) if args else UNKNOWN

    def builtin_map(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `map`."""
        if not args:
            return UNKNOWN
        return sequence_of(self.call(args[0], list(map(self.element_of, args[1:])), {}, node))

    def builtin_filter(
        self, args: list[Value], keywords: dict[str, Value], node: ast.Call
    ) -> Value:
        """Return the result of `filter`, which branches on the results of its function."""
        if len(args) < 2:
            return UNKNOWN
        element = self.element_of(args[1])
        self.note_branch(node, self.call(args[0], [element], {}, node), "builtin.filter")
        return sequence_of(element)

    def builtin_dict(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `dict`."""
        base = [one for value in args for one in value if isinstance(one, Mapping)]
        items = dict(base[0].items) if base else {}
        rest = base[0].element if base else (UNKNOWN if args else ())
        return (Mapping((*items.items(), *keywords.items()), rest),)

    def builtin_print(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Note a call of `print`, with or without a tensor."""
        tensor = any(isinstance(one, Tensor) for value in args for one in value)
        self.note(
            node, "output.print_tensor" if tensor else "output.print", True, self.frame_statement()
        )
        return NONE

    def builtin_type(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `type`."""
        match args:
            case [(Instance(kind=kind),)]:
                return (ClassObject(kind),)
        return PLAIN

    def builtin_bin(self, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Return the result of `bin`."""
        return STR


_PYTHON = ("int", "float", "bool", "str")


def is_instance(one: object, kinds: Value) -> bool | None:
    """Return whether `isinstance(one, kinds)` is true; None if unknown.

    `one` is an alternative of an abstract value, `kinds` the value of a class or tuple of classes.
    """
    if isinstance(one, Unknown):
        return None
    answers = [_is_instance_of(one, kind) for kind in classes_in(kinds)]
    if not answers or None in answers:
        return True if True in answers else None
    return any(answers)


def classes_in(kinds: Value) -> list[object]:
    """Return the classes in `kinds`, the abstract value of the second argument of `isinstance`.

    For the tuple `(int, float)` these are its elements, the two classes.
    """
    found: list[object] = []
    for one in kinds:
        if isinstance(one, Sequence) and one.items is not None:
            found += [inner for item in one.items for inner in item]
        else:
            found.append(one)
    return found


def _is_instance_of(one: object, kind: object) -> bool | None:
    if isinstance(kind, ClassObject):
        if isinstance(one, Instance):
            return kind.kind in one.kind.order or (None if one.kind.is_open else False)
        return False if isinstance(one, Tensor | Literal | Sequence | Mapping | Layer) else None
    if not isinstance(kind, External):
        return None
    name = kind.name
    if name in ("torch.Tensor", "torch.FloatTensor", "torch.nn.Parameter", "numpy.ndarray"):
        if isinstance(one, Tensor):
            if name == "numpy.ndarray" or one.array:
                return one.array is (name == "numpy.ndarray")
            return True if name == "torch.Tensor" else None
        return None if isinstance(one, Object) else False
    if name == "torch.nn.Module":
        if isinstance(one, Instance):
            return True if one.kind.has_base(["torch.nn.Module"]) else None
        return isinstance(one, Layer)
    if isinstance(one, Layer):
        return None if not name.startswith("builtins.") else False
    if isinstance(one, Tensor):
        known = name.startswith(("builtins.", "typing.", "collections.", "torch.fx."))
        return False if known or name == "torch.Size" else None
    builtin = name.removeprefix("builtins.")
    if isinstance(one, Literal | Plain | Data) and builtin in _PYTHON:
        if one.kind == "bool" and builtin == "int":
            return True
        return one.kind == builtin if one.kind else None
    if isinstance(one, Literal) and one.value is None:
        return False
    if isinstance(one, Sequence) and builtin in ("list", "tuple", "dict", "set", *_PYTHON):
        return (
            None
            if builtin in ("list", "tuple", "set") and one.kind != builtin
            else (one.kind == builtin)
        )
    if isinstance(one, Mapping):
        return None if builtin not in ("dict", "list", "tuple", *_PYTHON) else builtin == "dict"
    return None

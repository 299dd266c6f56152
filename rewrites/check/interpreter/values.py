"""Abstract values: what an expression may be, as a small tuple of alternatives.

A `Value` has one alternative where the source decides, more after a join. `UNKNOWN` is one of them:
nothing is reported for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fullgraph.rewrites.check.project import ClassDefinition, FunctionDefinition, Module

LIMIT = 6
"""Number of alternatives above which a value becomes unknown."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A possible value of an expression: a tensor, or a NumPy array, which Dynamo traces as one."""

    proved: bool = True
    """Whether it is known to be a tensor; else that is guessed."""
    dtype: str = ""
    """"bool", "int", "float"; "" if unknown."""
    dynamic: bool = False
    """Whether its shape depends on the elements of a tensor."""
    array: bool = False
    """Whether it is a NumPy array."""


@dataclass(frozen=True, slots=True)
class Data:
    """A possible value of an expression: a Python value that depends on a tensor's elements.

    An example is what `t.item()` returns.
    """

    proved: bool = True
    kind: str = ""
    """"int", "float", "bool", "list"; "" if unknown."""
    random: bool = False
    """Whether it comes from the random numbers of Python and not from a tensor."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A possible value of an expression: a known Python constant, such as 3 or None."""

    value: Any
    kind: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A possible value of an expression: a Python value that depends on no tensor's elements.

    Only its type is known: a number, str, size, … (a known value is a `Literal`).
    """

    kind: str = ""
    """"int", "float", "bool", "str", "size", "dtype", "device"; "" if unknown."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A possible value of an expression: a tuple, list, set or iterator."""

    kind: str
    items: tuple[Value, ...] | None = None
    """Its elements in order, if their number is known."""
    element: Value = ()
    """The join of its elements; () if it has none."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """A possible value of an expression: a dict."""

    items: tuple[tuple[object, Value], ...] = ()
    """Pairs of a known key and its value."""
    element: Value = ()
    """The join of the values of all other keys; () if there are none."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A possible value of an expression: an instance of a class of the project."""

    kind: ClassDefinition


@dataclass(frozen=True, slots=True)
class Super:
    """A possible value of an expression: what `super()` returns in a method of class `after`.

    `kind` is the class of `self`.
    """

    kind: ClassDefinition
    after: ClassDefinition


@dataclass(frozen=True, slots=True)
class Layer:
    """A possible value of an expression: a module of torch.nn, such as an `nn.Linear`."""

    name: str
    """"torch.nn.Linear"."""
    element: Value = ()
    """The join of the modules in a container such as ModuleList; () otherwise."""


@dataclass(frozen=True, slots=True)
class Function:
    """A possible value of an expression: a function, method or lambda of the project."""

    definition: FunctionDefinition
    receiver: Value = ()
    """The first argument of a bound method; () for a function."""
    scope: dict[str, Value] | None = field(default=None, compare=False)
    """Variables of the functions around a nested one; None for others."""


@dataclass(frozen=True, slots=True)
class ClassObject:
    """A possible value of an expression: a class of the project itself, not an instance of it."""

    kind: ClassDefinition


@dataclass(frozen=True, slots=True)
class ModuleObject:
    """A possible value of an expression: a Python module (file) of the project."""

    module: Module


@dataclass(frozen=True, slots=True)
class External:
    """A possible value of an expression: a function, class or module outside the project.

    `name` is its qualified name, such as "torch.where".
    """

    name: str


@dataclass(frozen=True, slots=True)
class Object:
    """A possible value of an expression: an instance of a class outside the project.

    `name` is the qualified name of the class, such as "logging.Logger".
    """

    name: str


@dataclass(frozen=True, slots=True)
class Method:
    """A possible value of an expression: a bound method, such as `x.item` of a tensor `x`.

    Methods of the project's own classes are `Function` instead.
    """

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A possible value of an expression: one of which nothing is known."""


Value = tuple[Any, ...]
"""Abstract value: the alternatives, instances of the classes above, that it may be."""

UNKNOWN: Value = (Unknown(),)
TENSOR: Value = (Tensor(),)
BOOL_TENSOR: Value = (Tensor(dtype="bool"),)
LIKELY_TENSOR: Value = (Tensor(proved=False),)
NONE: Value = (Literal(None, "NoneType"),)
TRUE: Value = (Literal(True, "bool"),)
FALSE: Value = (Literal(False, "bool"),)
PLAIN: Value = (Plain(),)
INT: Value = (Plain("int"),)
FLOAT: Value = (Plain("float"),)
BOOL: Value = (Plain("bool"),)
STR: Value = (Plain("str"),)
SIZE: Value = (Plain("size"),)


def literal(value: object) -> Value:
    """Return the abstract value of a known Python constant, such as 3."""
    if value is None:
        return NONE
    if value is True:
        return TRUE
    return FALSE if value is False else (Literal(value, type(value).__name__),)


def with_fact(value: Value, dtype: str) -> Value:
    """Return the abstract value of an expression once a run has shown that it was a tensor.

    `value` is what the source shows. Of its alternatives the tensors stay, as proved ones. If there
    is none but `value` may be unknown, it becomes a tensor of `dtype` ("bool", "int", "float", "").
    """
    tensors = tuple(replace(one, proved=True) for one in value if isinstance(one, Tensor))
    unknown = any(isinstance(one, Unknown) for one in value)
    return tensors or ((Tensor(dtype=dtype),) if unknown else value)


def join(*values: Value) -> Value:
    """Return the value that has the alternatives of all `values`; similar ones are merged.

    The result is UNKNOWN if there are more than LIMIT (6) alternatives.
    """
    first = values[0]
    for one in values:
        if one is not first and one != first:
            break
    else:
        return first
    found: list[Any] = []
    for value in values:
        for one in value:
            if one not in found:
                _add(found, one)
    return tuple(found) if len(found) <= LIMIT else UNKNOWN


def _add(found: list[Any], new: Any) -> None:
    """Add the alternative `new` to `found`, or merge it with one that is already there.

    An int 3 and an int 4 merge into an int whose value is not known.
    """
    for number, old in enumerate(found):
        merged = _merge(old, new)
        if merged is not None:
            found[number] = merged
            return
    found.append(new)


def _merge(old: Any, new: Any) -> Any:
    """Return one alternative that describes both `old` and `new`; None if there is none."""
    if type(old) is not type(new):
        if isinstance(old, Literal) and isinstance(new, Plain) and old.kind == new.kind:
            return new
        if isinstance(old, Plain) and isinstance(new, Literal) and old.kind == new.kind:
            return old
        return None
    if isinstance(old, Tensor):
        dtype = old.dtype if old.dtype == new.dtype else ""
        both = old.dynamic or new.dynamic
        return Tensor(old.proved and new.proved, dtype, both, old.array and new.array)
    if isinstance(old, Data):
        kind = old.kind if old.kind == new.kind else ""
        return Data(old.proved and new.proved, kind, old.random and new.random)
    if isinstance(old, Literal):
        return Plain(old.kind) if old.kind == new.kind else None
    if isinstance(old, Plain):
        return Plain("")
    if isinstance(old, Sequence):
        return _merge_sequences(old, new)
    if isinstance(old, Mapping):
        return _merge_mappings(old, new)
    if isinstance(old, Layer) and old.name == new.name:
        return Layer(old.name, join(old.element, new.element) if old.element else new.element)
    return None


def _merge_sequences(old: Sequence, new: Sequence) -> Sequence:
    kind = old.kind if old.kind == new.kind else "list"
    if old.items is not None and new.items is not None and len(old.items) == len(new.items):
        items = tuple(join(a, b) for a, b in zip(old.items, new.items, strict=True))
        return Sequence(kind, items, join_all(items))
    return Sequence(kind, None, join_all((old.element, new.element)))


def _merge_mappings(old: Mapping, new: Mapping) -> Mapping:
    ours, theirs = dict(old.items), dict(new.items)
    keys = [key for key in ours if key in theirs]
    items = tuple((key, join(ours[key], theirs[key])) for key in keys)
    rest = [v for k, v in (*ours.items(), *theirs.items()) if k not in keys]
    return Mapping(items, join_all((old.element, new.element, *rest)))


def join_all(values: Iterable[Value]) -> Value:
    """Return the join of those `values` that have alternatives; () if none has any."""
    present = [value for value in values if value]
    return join(*present) if present else ()


def make_sequence(kind: str, items: Iterable[Value]) -> Value:
    """Return a sequence of known elements; `kind` is "tuple", "list", "set" or "generator"."""
    parts = tuple(items)
    if len(parts) > 64:
        return (Sequence(kind, None, join_all(parts)),)
    return (Sequence(kind, parts, join_all(parts)),)


def sequence_of(element: Value, kind: str = "list") -> Value:
    """Return a sequence of unknown length; `element` is the join of its elements."""
    return (Sequence(kind, None, element),)


def weakened(value: Value) -> Value:
    """Return `value` with its tensors and data-dependent values marked as guessed, not proved."""
    if any(isinstance(one, Tensor | Data) and one.proved for one in value):
        return tuple(
            replace(one, proved=False) if isinstance(one, Tensor | Data) else one for one in value
        )
    return value


def tensors_in(value: Value) -> list[Tensor]:
    """Return those alternatives of an abstract value that are tensors."""
    return [one for one in value if isinstance(one, Tensor)]


def is_tensor(value: Value) -> bool:
    """Return whether every alternative of an abstract value is a tensor; False if it has none."""
    return bool(value) and all(isinstance(one, Tensor) for one in value)


def is_proved(value: Value) -> bool:
    """Return whether a value is known, and not guessed, to be a tensor or depend on one."""
    return bool(value) and all(isinstance(one, Tensor | Data) and one.proved for one in value)


def is_unknown(value: Value) -> bool:
    """Return whether an abstract value has an unknown alternative, or none at all."""
    return not value or any(isinstance(one, Unknown) for one in value)


def without_none(value: Value) -> Value:
    """Return an abstract value without the alternative None: what `x` is after `x is not None`."""
    return tuple(one for one in value if not (isinstance(one, Literal) and one.value is None))


def only_none(value: Value) -> Value:
    """Return the abstract value of `x` after `x is None`: None if `value` can be None.

    Else it is (), which has no alternatives: the code cannot be reached.
    """
    return NONE if any(may_be_none(one) for one in value) else ()


def may_be_none(one: Any) -> bool:
    """Return whether `one`, an alternative of an abstract value, can be None."""
    return isinstance(one, Unknown) or (isinstance(one, Literal) and one.value is None)


def truth(value: Value) -> bool | None:
    """Return the truth value of an abstract value; None if it is not known.

    It is not known either if the alternatives have different truth values.
    """
    found = {_truth_of(one) for one in value}
    return found.pop() if len(found) == 1 else None


def _truth_of(one: Any) -> bool | None:
    if isinstance(one, Literal):
        return bool(one.value)
    if isinstance(one, Function | ClassObject | ModuleObject | External | Method | Super):
        return True
    if isinstance(one, Sequence) and one.items is not None:
        return bool(one.items)
    return None


def data_only(value: Value) -> Value:
    """Return an abstract value without the alternatives that do not depend on data."""
    return tuple(one for one in value if isinstance(one, Data))


def is_plain(value: Value) -> bool:
    """Return whether an abstract value is certainly no tensor and does not depend on data.

    Every alternative is then a known constant or an unknown number, str, ….
    """
    return all(isinstance(one, Plain | Literal) for one in value)

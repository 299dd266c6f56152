"""Roots of recompiles: the value whose change made a guard fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fullgraph.diagnose.taxonomy.guards import plain_names


class RootKind(StrEnum):
    """The kind of value that changed. Reports and JSON show these strings, which are stable."""

    SIZE = "recompile: size"
    LENGTH = "recompile: length"
    KEYS = "recompile: dict keys"
    ARGUMENT = "recompile: number argument"
    ATTRIBUTE = "recompile: number attribute"
    GLOBAL = "recompile: global"
    CLOSURE = "recompile: closure"
    NONE = "recompile: None or value"
    FLAG = "recompile: flag"
    TRAINING = "recompile: train or eval"
    STATE = "recompile: global state"
    TENSOR = "recompile: kind of tensor"
    OBJECT = "recompile: other object"
    RESUMED = "recompile: value after a graph break"
    OTHER = "recompile: other value"


@dataclass(frozen=True)
class Root:
    """The changed value that a failed guard is about."""

    name: str
    """Its name in the source: "self.count", "x.shape[0]"; "" if it has none."""
    kind: RootKind
    key: tuple[str, ...]
    """Equal for guards that failed by one change, even if frames name the value differently."""


def root_of_guard(guard: str) -> Root:
    """Return the changed value that a failed guard is about.

    `guard` is one of the texts in `Recompile.guards`.
    """
    text = " ".join(guard.split())
    is_global = re.search(r"\bG\[", text) is not None
    text = plain_names(text)
    for pattern, make in _FORMS:
        if found := re.search(pattern, text):
            root = make(found)
            if root.name.startswith("___stack"):
                return Root(root.name, RootKind.RESUMED, (RootKind.RESUMED, root.name))
            kinds = (RootKind.ARGUMENT, RootKind.FLAG, RootKind.OTHER, RootKind.NONE)
            if is_global and root.kind in kinds:
                return Root(root.name, RootKind.GLOBAL, root.key)
            return root
    return Root("", RootKind.OTHER, (text,))


def _named(kind: RootKind) -> Callable[[re.Match[str]], Root]:
    return lambda found: Root(found[1], kind, (kind, _identity(found[1])))


def _size(found: re.Match[str]) -> Root:
    """Return a changed size of a dimension as a `Root`.

    `found` is the match of the failed guard. The root's key is the old and the new size, so that
    one changed size has one key in all frames.
    """
    name, dimension, old, new = found.groups()
    return Root(f"{name}.shape[{dimension}]", RootKind.SIZE, ("size", old, new))


def _fixed_size(found: re.Match[str]) -> Root:
    name, dimension = found[1], found[2]
    return Root(f"{name}.shape[{dimension}]", RootKind.SIZE, ("size", name, dimension))


def _value(found: re.Match[str]) -> Root:
    """Return the plain Python value in a guard as a `Root`."""
    name, old = found.groups()
    kind = RootKind.OTHER
    if "__closure__" in name:
        kind = RootKind.CLOSURE
    elif old in ("True", "False"):
        kind = RootKind.FLAG
    elif re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", old):
        kind = RootKind.ATTRIBUTE if "." in name else RootKind.ARGUMENT
    return Root(name, kind, (kind, _identity(name)))


def _object(found: re.Match[str]) -> Root:
    """Return an object that was replaced as a `Root`; of a function, the guard is on its code."""
    name = found[1].removesuffix(".__code__").removesuffix(".__func__")
    return Root(name, RootKind.OBJECT, (RootKind.OBJECT, _identity(name)))


def _missing(found: re.Match[str]) -> Root:
    """Return an attribute that a later call finds as a `Root`."""
    owner, name = found.group("owner", "name")
    name = f"{owner}.{name}"
    return Root(name, RootKind.NONE, (RootKind.NONE, _identity(name)))


def _bounded(found: re.Match[str]) -> Root:
    """Return a number that left the range for which a graph was compiled as a `Root`."""
    name = found[1] or found[2]
    kind = RootKind.ATTRIBUTE if "." in name else RootKind.ARGUMENT
    return Root(name, kind, (kind, _identity(name)))


def _identity(name: str) -> str:
    """Return `self.n` for `self.layers[0].n`, so that equal modules share a name.

    Return a name that does not begin with `self` unchanged.
    """
    owner, _, last = name.rpartition(".")
    return f"self.{last}" if owner.startswith("self") else name


def _state(found: re.Match[str]) -> Root:
    return Root("", RootKind.STATE, ("state", found[1]))


_NAME = r"(?:type\([\w.]+\))?[\w.\[\]'\"]+?"
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], Root]], ...] = (
    (r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)", _size),
    (r"tensor '(.+?)' ", _named(RootKind.TENSOR)),
    (r"GLOBAL_STATE changed: (\S+)", _state),
    (r"expected type of '(.+?)' to be", _named(RootKind.NONE)),
    (rf"^({_NAME}\.training) == (?:True|False)$", _named(RootKind.TRAINING)),
    (r"^(___stack\d+)\b", _named(RootKind.RESUMED)),
    (rf"\b({_NAME}) got deallocated", _named(RootKind.OBJECT)),
    (rf"\blen\(({_NAME})\)", _named(RootKind.LENGTH)),
    (rf"\b(?:list|keys|dict_\w+)\(({_NAME})(?:\.keys\(\))?\)", _named(RootKind.KEYS)),
    (rf"['\"]\w+['\"] (?:not )?in ({_NAME})$", _named(RootKind.KEYS)),
    (
        rf"^(?:not )?___dict_contains\(['\"](?P<name>\w+)['\"], (?P<owner>{_NAME})\.__dict__\)",
        _missing,
    ),
    (rf"^(?:not )?___dict_contains\(.+?, ({_NAME})\)", _named(RootKind.KEYS)),
    (rf"\b({_NAME})\.size\(\)\[(\d+)\]", _fixed_size),
    (rf"^({_NAME}) is (?:not )?None$", _named(RootKind.NONE)),
    (rf"^({_NAME}) == None$", _named(RootKind.NONE)),
    (rf"^({_NAME}) == ([^=<>]+)$", _value),
    (rf"^\(({_NAME}) (?://|[-+*%]) \d+\) [=<>!]=? -?[\d.]+$", _bounded),
    (rf"^not ({_NAME})$", _named(RootKind.LENGTH)),
    (rf"^___check_obj_id\(({_NAME}), ", _object),
    (rf"^(?:not )?hasattr\((?P<owner>{_NAME}), ['\"](?P<name>\w+)['\"]\)", _missing),
    (rf"^___check_type_id\(({_NAME}), ", _named(RootKind.NONE)),
    (rf"^({_NAME}) is ({_NAME})$", _named(RootKind.OBJECT)),
    (rf"^(?:({_NAME}) [<>!]=? [\d.]+|[\d.]+ [<>!]=? ({_NAME})(?: <=? [\d.]+)?)$", _bounded),
)

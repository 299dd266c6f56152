"""JSON-ready data of an explanation, schema 1, and the way back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.diagnose.explanation_data import Cause, ExplanationData

SCHEMA = 1
"""Fields may be added to a schema (with a default in their dataclass), never renamed."""

_PLACE = tuple(field.name for field in fields(Position))


def to_dict(explanation: ExplanationData) -> dict[str, Any]:
    """Return `explanation` as dicts, lists, strings and numbers that fit `schema.EXPLAIN`."""
    data: dict[str, Any] = _to_plain(explanation)
    modes = {"default": data.pop("default"), "fullgraph": data.pop("fullgraph")}
    data["causes"] = [cause_to_dict(cause) for cause in explanation.causes]
    head = {name: data.pop(name) for name in ("torch", "target", "backend", "verdict")}
    return {"schema": SCHEMA, "command": "explain", **head, "modes": modes, **data}


def cause_to_dict(cause: Cause) -> dict[str, Any]:
    """Return `cause` as in schema 1, with the fields of its position inlined."""
    data = _to_plain(cause)
    head = {name: data.pop(name) for name in ("id", "category", "gb_id", "gb_type")}
    return {**head, **data.pop("position"), **data}


def from_dict(data: object) -> ExplanationData:
    """Return the explanation that `to_dict` wrote as `data`.

    Raises FullgraphError if `data` is something else.
    """
    if not isinstance(data, dict) or "schema" not in data or "causes" not in data:
        raise FullgraphError(
            "This is not a saved explanation: save one with `fullgraph explain … --json`."
        )
    if data["schema"] != SCHEMA:
        raise FullgraphError(
            f"This explanation has schema {data['schema']!r} and this fullgraph reads schema "
            f"{SCHEMA}: save it again with `fullgraph explain … --json`."
        )
    try:
        whole = {
            **data,
            **data["modes"],
            "causes": [_nest_position(cause) for cause in data["causes"]],
        }
        explanation: ExplanationData = _read_as(ExplanationData, whole)
    except (KeyError, TypeError, ValueError) as problem:
        raise FullgraphError(
            f"This saved explanation is damaged ({problem}): save it again with "
            "`fullgraph explain … --json`."
        ) from problem
    return explanation


def _to_plain(value: object) -> Any:
    """Convert dataclasses to dicts and tuples to lists, recursively."""
    if is_dataclass(value):
        return {field.name: _to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_to_plain(item) for item in value]
    return value


def _nest_position(cause: dict[str, Any]) -> dict[str, Any]:
    """Add a cause's place as a nested `position`."""
    return {**cause, "position": {name: cause[name] for name in _PLACE}}


def _read_as(kind: Any, value: object) -> Any:
    """Return `value` as the type `kind`. Raises TypeError or ValueError if it does not fit."""
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{kind.__name__} is not an object")
        hints = get_type_hints(kind)
        known = [field.name for field in fields(kind) if field.name in value]
        return kind(**{name: _read_as(hints[name], value[name]) for name in known})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _read_as(inner, value)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{value!r} is not a list")
        if arguments[-1] is Ellipsis:
            return tuple(_read_as(arguments[0], item) for item in value)
        return tuple(_read_as(a, item) for a, item in zip(arguments, value, strict=True))
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value

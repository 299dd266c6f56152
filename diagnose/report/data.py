"""Conversion of an explanation to JSON-ready data, schema 1, and back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.events import Position
from fullgraph.diagnose.explanation_data import Cause, ExplanationData

SCHEMA = 1
"""Version of the format: fields may be added to it, with a default, but not renamed."""

_PLACE = tuple(field.name for field in fields(Position))


def to_dict(explanation: ExplanationData) -> dict[str, Any]:
    """Return `explanation` as dicts, lists, strings and numbers that fit `schema.EXPLAIN`."""
    data: dict[str, Any] = _to_plain(explanation)
    modes = {"default": data.pop("default"), "fullgraph": data.pop("fullgraph")}
    data["causes"] = [cause_to_dict(cause) for cause in explanation.causes]
    head = {name: data.pop(name) for name in ("torch", "target", "backend", "verdict")}
    return {"schema": SCHEMA, "command": "explain", **head, "modes": modes, **data}


def cause_to_dict(cause: Cause) -> dict[str, Any]:
    """Return `cause` as a dict of schema 1, in which the fields of its position are inlined."""
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
    """Return a saved cause with "position": a dict of its fields "file", "line", "column", …."""
    return {**cause, "position": {name: cause[name] for name in _PLACE}}


def _read_as(annotation: Any, value: object) -> Any:
    """Return JSON-ready data as a value of the annotated type.

    Raises TypeError or ValueError if `value` does not fit `annotation`.
    """
    if isinstance(annotation, type) and is_dataclass(annotation):
        if not isinstance(value, dict):
            raise TypeError(f"{annotation.__name__} is not an object")
        hints = get_type_hints(annotation)
        known = [field.name for field in fields(annotation) if field.name in value]
        return annotation(**{name: _read_as(hints[name], value[name]) for name in known})
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _read_as(inner, value)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"{value!r} is not a list")
        if arguments[-1] is Ellipsis:
            return tuple(_read_as(arguments[0], item) for item in value)
        return tuple(_read_as(a, item) for a, item in zip(arguments, value, strict=True))
    if not isinstance(value, (int, float) if annotation is float else annotation):
        raise TypeError(f"{value!r} is not of type {annotation.__name__}")
    return value

"""The JSON Schema of what `explain` saves: schema 1, open to further fields."""

from __future__ import annotations

from collections.abc import Mapping


def _object_schema(**properties: object) -> dict[str, object]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list_schema(items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": items}


def _or_null(kind: Mapping[str, object]) -> dict[str, object]:
    return {"anyOf": [kind, {"type": "null"}]}


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_LINE = {"type": "integer", "description": "1-based"}
_COLUMN = _or_null({"type": "integer", "description": "0-based, in UTF-8 bytes, as in `ast`"})
_MODE = {"enum": ["default", "fullgraph"]}
_BOOLEAN = {"type": "boolean"}

_POSITION = {
    "file": _TEXT,
    "line": _LINE,
    "column": _COLUMN,
    "end_line": _or_null(_LINE),
    "end_column": _COLUMN,
    "function": _TEXT,
}

_ADVICE = _object_schema(
    text=_TEXT,
    kind={"enum": ["code", "config"]},
    before=_TEXT,
    after=_TEXT,
    trap=_TEXT,
    modes=_list_schema(_MODE),
)

_EDIT = _object_schema(
    rule=_TEXT,
    file=_TEXT,
    line=_LINE,
    before=_list_schema(_TEXT),
    after=_list_schema(_TEXT),
    why=_TEXT,
    diff=_TEXT,
    applicability={"enum": ["safe", "unsafe", "display"]},
    assumes=_list_schema(_TEXT),
    settings=_list_schema(_TEXT),
    removes=_list_schema(_TEXT),
    tried=_TEXT,
)

_SAVING = _object_schema(
    device=_TEXT,
    launches={"type": "integer"},
    bytes={"type": "integer"},
    seconds={"type": "number"},
)

_CAUSE = _object_schema(
    id=_TEXT,
    category=_TEXT,
    gb_id=_or_null(_TEXT),
    url=_TEXT,
    **_POSITION,
    module_path=_or_null(_TEXT),
    message=_TEXT,
    frame={"enum": ["resumed", "prefix", "skipped"]},
    hidden=_BOOLEAN,
    modes=_list_schema(_MODE),
    events=_COUNT,
    advice=_list_schema(_ADVICE),
    edits=_list_schema(_EDIT),
    saving=_or_null(_SAVING),
)

EXPLAIN: dict[str, object] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What fullgraph explain found",
    **_object_schema(
        schema={"const": 1},
        torch=_TEXT,
        verdict=_TEXT,
        modes=_object_schema(
            default=_object_schema(graphs=_or_null(_COUNT), breaks=_or_null(_COUNT)),
            fullgraph=_object_schema(ok=_or_null(_BOOLEAN), breaks=_or_null(_COUNT)),
        ),
        causes=_list_schema(_CAUSE),
        graphs=_list_schema(_object_schema(id=_TEXT, ops=_COUNT)),
        eager_ops=_list_schema(_COUNT),
        recompiles=_list_schema(
            _object_schema(function=_TEXT, file=_TEXT, line=_LINE, guards=_list_schema(_TEXT))
        ),
        fallbacks=_list_schema(
            _object_schema(function=_TEXT, file=_TEXT, line=_LINE, reason=_TEXT)
        ),
        crashes=_list_schema(_object_schema(stage=_TEXT, error=_TEXT, message=_TEXT)),
        hidden_search=_TEXT,
        verification=_or_null(_object_schema(ok=_BOOLEAN, detail=_TEXT)),
    ),
}

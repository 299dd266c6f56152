"""The reference of the Python API, from the docstrings of `fullgraph`'s public names.

python docs/api.py            writes docs/api.md
python docs/api.py --check    exit code 1 if it is out of date
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import fullgraph

PAGE = Path(__file__).parent / "api.md"
HEAD = """# Python API

Generated from the docstrings by `make docs`. Everything here is imported from `fullgraph`.
"""


def page() -> str:
    """Return the whole page: functions first, then the values that they return."""
    names = sorted(fullgraph.__all__)
    things = {name: getattr(fullgraph, name) for name in names}
    functions = [name for name in names if inspect.isfunction(things[name])]
    others = [name for name in names if name not in functions and inspect.isclass(things[name])]
    parts = [HEAD]
    parts += [_function(name, things[name], level=2) for name in functions]
    parts += [_class(name, things[name]) for name in others]
    return "\n".join(parts)


def _function(name: str, function: object, level: int) -> str:
    lines = [f"{'#' * level} {name}", "", "```python", _signature(name, function), "```", ""]
    return "\n".join([*lines, *_docstring(function), ""])


def _signature(name: str, function: object) -> str:
    """Return the signature, with a line for each parameter if it is long."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    text = f"{name}{_unquoted(str(signature))}"
    if len(text) <= 80:
        return text
    end = f" -> {signature.return_annotation}"
    parts: list[str] = []
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for number, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.kind not in kinds[:number]:
            parts.append("*")
        parts.append(_unquoted(str(parameter)))
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])


def _unquoted(signature: str) -> str:
    """Return a signature without quotes around annotations and addresses of default functions."""
    signature = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", signature)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)


def _docstring(thing: object) -> Iterator[str]:
    """Yield the docstring's lines, with its arguments as a list."""
    for line in (inspect.getdoc(thing) or "").splitlines():
        if line == "Args:":
            yield "Arguments:"
            yield ""
        elif line.startswith("    ") and not line.startswith("     "):
            name, _, text = line.strip().partition(": ")
            yield f"- `{name}`: {text}"
        elif line.startswith("        "):
            yield f"  {line.strip()}"
        else:
            yield line


def _class(name: str, kind: type) -> str:
    lines = [f"## {name}", "", *_docstring(kind), ""]
    for field, (annotation, text) in _fields(kind).items():
        lines.append(f"- `{field}: {annotation}`{f': {text}' if text else ''}")
    parts = ["\n".join([*lines, ""])]
    for method, value in inspect.getmembers(kind):
        if not method.startswith("_") and (
            inspect.isfunction(value) or isinstance(value, property)
        ):
            if isinstance(value, property):
                parts.append("\n".join([f"### {method}", "", *_docstring(value), ""]))
            else:
                parts.append(_function(method, value, level=3))
    return "\n".join(parts)


def _fields(kind: type) -> dict[str, tuple[str, str]]:
    """Return type and description of each field of a dataclass and of its bases."""
    if not dataclasses.is_dataclass(kind):
        return {}
    found: dict[str, tuple[str, str]] = {}
    for base in reversed([b for b in kind.__mro__ if dataclasses.is_dataclass(b)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, after in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    text = " ".join(str(after.value.value).split())
                found[statement.target.id] = ast.unparse(statement.annotation), text
    return {name: field for name, field in found.items() if not name.startswith("_")}


def main(arguments: list[str]) -> int:
    """Write or check the page."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print("docs/api.md is out of date: run `make docs`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""Parses `FILE.py:NAME` and `--input 4x3x32x32:float32` before torch is loaded."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fullgraph.compiler.errors import FullgraphError

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
_INPUT = re.compile(r"(?P<shape>(\d+(x\d+)*)?)(:(?P<dtype>\w+))?")


@dataclass(frozen=True)
class TargetSpec:
    """A file or an importable module (`where`), and a `name` in it; "" for the default name."""

    where: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether `where` is a path rather than the dotted name of a module."""
        return self.where.endswith(".py") or Path(self.where).is_file()


@dataclass(frozen=True)
class InputSpec:
    """Shape and dtype of a random input tensor."""

    shape: tuple[int, ...]
    dtype: str


def parse_target(spec: str) -> TargetSpec:
    """Return the file or module that `spec` names, and the name in it.

    Raises FullgraphError if the file does not exist, is not Python, or does not bind the name at
    its top level. The file is parsed for this, not imported.
    """
    where, colon, name = spec.rpartition(":")
    if not colon or "/" in name or name.endswith(".py"):
        where, name = spec, ""
    if not where:
        raise FullgraphError(f"{spec!r} names no file: write FILE.py:NAME or pkg.mod:NAME.")
    target = TargetSpec(where, name)
    if Path(where).is_dir():
        raise FullgraphError(f"{where} is a folder: write FILE.py:NAME or pkg.mod:NAME.")
    if not target.is_file:
        _check_module(where)
    elif not Path(where).is_file():
        raise FullgraphError(f"There is no file {where}: give the path of a Python file.")
    elif not where.endswith(".py"):
        raise FullgraphError(f"{where} is no Python file: its name must end in .py.")
    else:
        _check_name(where, name)
    return target


def parse_input(text: str) -> InputSpec:
    """Parse a shape and dtype such as `4x3x32x32:float32`; the default is float32."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise FullgraphError(
            f"--input {text!r} is no shape: write sizes joined by x, such as 4x3x32x32, with a "
            "dtype if it is not float32, such as 4x16:int64."
        )
    dtype = match["dtype"] or "float32"
    if dtype not in DTYPES:
        raise FullgraphError(
            f"--input {text!r}: there is no dtype {dtype!r}; write one of {', '.join(DTYPES)}."
        )
    return InputSpec(tuple(map(int, filter(None, match["shape"].split("x")))), dtype)


def name_missing(where: str, name: str, names: list[str]) -> FullgraphError:
    """Return the error for a file or module that does not have `name`, but has `names`."""
    close = difflib.get_close_matches(name, names, 1)
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    hint = f" Did you mean {close[0]}?" if close else ""
    return FullgraphError(
        f"{where} has no name {name!r}; it has {shown or 'no functions or classes of its own'}."
        f"{hint}"
    )


def _check_module(where: str) -> None:
    """Raise FullgraphError if a module's top-level package cannot be found."""
    top = where.partition(".")[0]
    sys.path.insert(0, "")  # as `python -m` does
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path.remove("")
    if found is None:
        raise module_missing(top, where)


def module_missing(name: str, where: str) -> FullgraphError:
    """Return the error for a module that cannot be found."""
    hint = f" Did you mean {where}.py?" if Path(f"{where}.py").is_file() else ""
    return FullgraphError(
        f"There is no module named {name!r}: write FILE.py:NAME, or pkg.mod:NAME for a module "
        f"that can be imported here.{hint}"
    )


def _check_name(file: str, name: str) -> None:
    """Raise FullgraphError if a file is not Python, or does not bind `name` at its top level."""
    try:
        with tokenize.open(file) as stream:
            tree = ast.parse(stream.read(), file)
    except OSError as error:
        raise FullgraphError(f"{file} cannot be read: {error.strerror}.") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f" at {file}:{line}" if line else ""
        what = getattr(error, "msg", None) or str(error)
        raise FullgraphError(
            f"{file} cannot be imported: {type(error).__name__}: {what}{place}."
        ) from error
    names = list(dict.fromkeys(_bound_names(tree)))
    if name and name not in names and "*" not in names:
        raise name_missing(file, name, [n for n in names if not n.startswith("_")])


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a file binds at its top level; also "*" if it may bind other names."""
    own: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="exec" | "globals" | "vars" | "locals" | "setattr"):
                yield "*"
            case ast.FunctionDef(name="__getattr__") | ast.Global():
                yield "*"
    todo: list[ast.AST] = list(tree.body)
    imported: list[str] = []
    for node in todo:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                own.append(node.name)
                continue
            case ast.Import() | ast.ImportFrom():
                imported += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
                continue
            case ast.Name(ctx=ast.Store()):
                own.append(node.id)
            case ast.MatchAs(name=str(bound)) | ast.MatchStar(name=str(bound)):
                own.append(bound)
            case ast.ExceptHandler(name=str(bound)):
                own.append(bound)
        todo.extend(ast.iter_child_nodes(node))
    yield from own
    yield from imported

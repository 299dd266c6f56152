"""Source of a program from the file that calls `minify`, for programs that cannot be rebuilt."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FrameType

from fullgraph.compiler.sources import Owner, Source, owner_of, read_source
from fullgraph.minifier.emit.program_text import Unwritable
from fullgraph.minifier.emit.spacing import space_definitions
from fullgraph.minifier.extract.definitions import Sources
from fullgraph.minifier.extract.objects import Spelling
from fullgraph.minifier.extract.origins import global_names, is_user_object

_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_BLOCKS = ("body", "orelse", "finalbody")


def text_of_call(frame: FrameType) -> str | None:
    """Return source whose `build()` makes the model and inputs of the call in `frame`.

    `frame` is executing a call like `minify(model, inputs)`. The source has the statements that ran
    before it, and copies of what they import from the user's other files. None if the call is not
    in the user's code, or if such source cannot be written.
    """
    if owner_of(frame.f_code.co_filename) is not Owner.USER:
        return None
    source = read_source(frame.f_code.co_filename, frame.f_globals)
    call = None if source is None else _find_call(source, frame)
    arguments = None if call is None else _program_arguments(call)
    if source is None or call is None or arguments is None:
        return None
    try:
        return _write_build(source, call, arguments, frame)
    except (Unwritable, SyntaxError, OSError, RecursionError):
        return None


def _find_call(source: Source, frame: FrameType) -> ast.Call | None:
    """Return the call expression that `frame` is executing; None if it is not found."""
    where = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    for node in source.parents:
        if isinstance(node, ast.Call):
            span = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
            if span == where:
                return node
    return None


def _program_arguments(call: ast.Call) -> tuple[str, str] | None:
    """Return the source of a call's model and inputs: ("model", "(x, y)").

    None if the call does not show them, as in `minify(*arguments)`.
    """
    given = dict(zip(("model", "inputs"), call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg}
    if any(isinstance(one, ast.Starred) for one in call.args) or None in {
        one.arg for one in call.keywords
    }:
        return None
    inputs, named = given.get("inputs"), given.get("kwargs")
    if "model" not in given or inputs is None:
        return None
    if named is not None and ast.unparse(named) not in ("None", "{}"):
        if ast.unparse(inputs) not in ("()", "[]", "None"):
            return None
        inputs = named
    return ast.unparse(given["model"]), ast.unparse(inputs)


def _write_build(
    source: Source, call: ast.Call, arguments: tuple[str, str], frame: FrameType
) -> str:
    """Return source with the statements before `call`, and a `build()` that returns `arguments`.

    `arguments` are the source of the model and of the inputs. Raises Unwritable if the call is
    inside a class, lambda or nested function.
    """
    around = list(source.ancestors(call))
    scopes = [node for node in around if isinstance(node, _SCOPE)]
    if len(scopes) > 1 or any(not isinstance(one, ast.FunctionDef) for one in scopes):
        raise Unwritable("The call is not in a plain function.")
    outer = next(node for node in around if node in source.tree.body)
    function = scopes[0] if scopes else None
    before = list(_statements_before(source, call, function))
    kept = list(_module_statements(source, outer, function, frame.f_globals))
    if function is None:
        kept, before = [*kept, *before], []
    last = f"return {arguments[0]}, {arguments[1]}"
    body = [*(line for node in before for line in ast.unparse(node).split("\n")), last]
    text = "\n".join(line for node in kept for line in ast.unparse(node).split("\n"))
    text += "\n\ndef build():\n" + "\n".join(f"    {line}" if line else "" for line in body) + "\n"
    return _with_definitions(source, text, frame)


def _statements_before(source: Source, call: ast.Call, scope: ast.AST | None) -> Iterator[ast.stmt]:
    """Yield the statements before `call` in its block and in those around it, outermost first.

    `scope` is the function that contains the call; blocks outside it do not count. None if the call
    is at the top level; then the top-level statements themselves are left out.
    """
    path = [call, *source.ancestors(call)]
    if scope is not None:
        path = path[: path.index(scope) + 1]
    for holder, inner in zip(path[:0:-1], path[-2::-1], strict=True):
        if isinstance(holder, ast.Module):
            continue
        for block in _BLOCKS:
            statements = getattr(holder, block, ())
            if isinstance(statements, list) and inner in statements:
                yield from statements[: statements.index(inner)]


def _module_statements(
    source: Source, outer: ast.AST, function: ast.AST | None, names: dict[str, object]
) -> Iterator[ast.stmt]:
    """Yield the top-level statements that ran before the call, without imports of user code.

    `outer` is the top-level statement that contains the call, `function` the function that contains
    it, or None, and `names` are the module's globals.
    """
    called = getattr(function, "name", None)
    for statement in source.tree.body:
        if statement is outer:
            if function is None:
                return
            continue
        defines = isinstance(statement, (*_SCOPE, ast.Import, ast.ImportFrom))
        read = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if called in read and not defines:
            return
        if not _imports_user_code(statement, names):
            yield statement


def _imports_user_code(statement: ast.stmt, names: dict[str, object]) -> bool:
    """Return whether a statement imports user code or imports from `__future__`.

    `names` are the globals of the statement's module, for relative imports.
    """
    if isinstance(statement, ast.ImportFrom):
        package = str(names.get("__package__") or "").split(".")
        outside = package[: len(package) - statement.level + 1] if statement.level else []
        path = ".".join([*outside, *([statement.module] if statement.module else [])])
        return path == "__future__" or statement.level > 0 or is_user_object(sys.modules.get(path))
    if isinstance(statement, ast.Import):
        return any(is_user_object(sys.modules.get(one.name)) for one in statement.names)
    return False


def _with_definitions(source: Source, text: str, frame: FrameType) -> str:
    """Return `text` after definitions of the names that it reads and does not bind.

    The values of the names are in the globals and locals of `frame`. Raises Unwritable for a value
    that cannot be rebuilt from source.
    """

    def refuse(value: object) -> str | None:
        """Raise Unwritable: an object that other code made cannot be rebuilt."""
        raise Unwritable(f"A {type(value).__qualname__} is made elsewhere.")

    sources = Sources(lambda value: Spelling(sources.name, refuse).of(value))
    sources.future = "from __future__ import annotations" in source.text
    values = {**frame.f_globals, **frame.f_locals}
    bound = {
        name.id
        for node in ast.parse(text).body
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
    }
    wanted = global_names(text) - bound - _defined_names(text)
    needed = {name: values[name] for name in wanted if name in values}
    text = sources.define_names(text, needed)
    return space_definitions(f"{sources.text()}\n{text}")


def _defined_names(text: str) -> set[str]:
    """Return the names that the functions, classes and imports in `text` bind."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {one.asname or one.name.partition(".")[0] for one in node.names}
    return found

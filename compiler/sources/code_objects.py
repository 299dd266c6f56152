"""Code objects compiled from a source file: identity, `__future__` flags, old and new versions."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator
from types import CodeType, FunctionType

CodeIdentity = tuple[CodeType, bytes, str]
CodePair = tuple[CodeType, CodeType]
CodeMatcher = Callable[[list[CodeType], list[CodeType]], list[CodePair]]

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


def code_identity(code: CodeType) -> CodeIdentity:
    """Return a key that is equal only for equal code objects.

    Unlike `==` of code objects, it compares positions and qualified names, too.
    """
    return code, code.co_linetable, code.co_qualname


def future_flags(functions: list[FunctionType]) -> int:
    """Return the compiler flags of a file's `__future__` imports, read from one of its functions.

    0 if `functions` is empty.
    """
    return functions[0].__code__.co_flags & _FUTURE if functions else 0


def compile_module(tree: ast.Module, file: str, flags: int, alone: bool = False) -> list[CodeType]:
    """Return the code object of a module, in a list of one.

    `flags` are those of the file's own `__future__` imports. With `alone`, return a code object for
    each top-level statement, compiled as a separate module, as IPython does. The code can differ
    from that in the whole module: since 3.11 CPython compiles `name.attribute()` differently in a
    module that imports `name`.
    """
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # a cell may await
    modules = [ast.Module([one], []) for one in tree.body] if alone else [tree]
    return [compile(m, file, "exec", flags=flags, dont_inherit=True) for m in modules]


def pair_codes(
    old: Iterable[CodeType],
    new: Iterable[CodeType],
    key: Callable[[CodeType], Hashable],
    match: CodeMatcher,
) -> Iterator[CodePair]:
    """Yield (old code, new code) for each code object nested in `old` that has a match in `new`.

    Code objects with the same `key`, such as their name, are paired in order. If `old` and `new`
    have different numbers of them, `match(olds, news)` returns the pairs.
    """
    groups: dict[Hashable, tuple[list[CodeType], list[CodeType]]] = {}
    for version, codes in enumerate((old, new)):
        for inner in (const for code in codes for const in code.co_consts):
            if isinstance(inner, CodeType):
                groups.setdefault(key(inner), ([], []))[version].append(inner)
    for olds, news in groups.values():
        same_number = len(olds) == len(news)
        for pair in zip(olds, news, strict=True) if same_number else match(olds, news):
            yield pair
            yield from pair_codes(pair[:1], pair[1:], key, match)

"""Compiled code of a source file: its identity, its `__future__` flags, and pairs of versions."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Hashable, Iterator
from types import CodeType, FunctionType

CodeIdentity = tuple[CodeType, bytes, str]
CodePair = tuple[CodeType, CodeType]
CodeMatcher = Callable[[list[CodeType], list[CodeType]], list[CodePair]]

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


def code_identity(code: CodeType) -> CodeIdentity:
    """Return a key that tells codes apart: `==` ignores positions and qualified names."""
    return code, code.co_linetable, code.co_qualname


def future_flags(functions: list[FunctionType]) -> int:
    """Return the compiler flags of the `__future__` imports of a file, from its functions."""
    return functions[0].__code__.co_flags & _FUTURE if functions else 0


def compile_module(source: str | ast.Module, file: str, flags: int) -> CodeType:
    """Compile a module without the `__future__` imports of this file."""
    code = compile(source, file, "exec", flags=flags, dont_inherit=True)
    assert isinstance(code, CodeType)
    return code


def pair_codes(
    old: CodeType, new: CodeType, key: Callable[[CodeType], Hashable], match: CodeMatcher
) -> Iterator[CodePair]:
    """Yield each code nested in `old` with its replacement nested in `new`.

    Codes with an equal `key` are paired in order. Where their numbers differ, `match` pairs them.
    """
    groups: dict[Hashable, tuple[list[CodeType], list[CodeType]]] = {}
    for version, code in enumerate((old, new)):
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                groups.setdefault(key(inner), ([], []))[version].append(inner)
    for olds, news in groups.values():
        same_number = len(olds) == len(news)
        for pair in zip(olds, news, strict=True) if same_number else match(olds, news):
            yield pair
            yield from pair_codes(*pair, key, match)

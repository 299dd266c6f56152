"""Running a text: the module it makes, and what it wants to be called."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any

FILE = "candidate.py"


def loaded(
    text: str, code: CodeType | None = None, names: Mapping[str, object] | None = None
) -> ModuleType:
    """The module that `text` makes, known to `sys.modules` and `linecache` under its name.

    Classes, and decorators that read source, ask there. `code` runs in its place, where `names`
    are known. Raises what the text raises.
    """
    module = ModuleType(FILE.removesuffix(".py"))
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    if code is None:
        code = compile(text, FILE, "exec", dont_inherit=True)
    module.__dict__.update(names or {})
    exec(code, module.__dict__)
    return module


def call(module: ModuleType) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What a module of `build()`, or of `model` and `inputs`, calls: with which arguments."""
    if hasattr(module, "build"):
        model, inputs = module.build()[:2]
    else:
        model, inputs = module.model, module.inputs
    if isinstance(inputs, Mapping):
        return model, (), dict(inputs)
    return model, inputs if isinstance(inputs, tuple) else (inputs,), {}

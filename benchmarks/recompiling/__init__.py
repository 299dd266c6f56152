"""Modules that are called several times: those that recompile, and those that never do.

A file holds the modules of one topic, and `ENTRIES`: a factory for each, by name, which returns the
program and the arguments of all its calls.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Calls = list[tuple[Any, ...]]
Entry = Callable[[], tuple[Callable[..., Any], Calls]]

TOPICS = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
ENTRIES: dict[str, Entry] = {
    name: entry
    for topic in TOPICS
    for name, entry in import_module(f"{__name__}.{topic}").ENTRIES.items()
}

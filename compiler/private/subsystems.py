"""Switching off parts of a stage, and counting how often each is applied.

PyTorch asks `torch._inductor.compiler_bisector.CompilerBisector.disable_subsystem` before it
applies a decomposition, a pass or a lowering; here that question is answered.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_OPERATOR = re.compile(r"<OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
"""What an operator says of itself, beside the name that people write."""


@dataclass(frozen=True)
class Subsystem:
    """A part of a stage that can be switched off."""

    rung: str
    name: str
    """PyTorch's name: "decomposition", "joint_graph_passes", "lowerings"."""
    setting: tuple[str, str, Any] | None = None
    """Module, name and value of the setting that switches it off; None where it is counted."""


def list_subsystems() -> tuple[Subsystem, ...]:
    """What this torch lets one switch off, in the order of compilation; empty if it cannot say."""
    try:
        from torch._inductor.compiler_bisector import BACKENDS
    except ImportError:
        return ()
    theirs = [_subsystem(rung, part) for rung, parts in BACKENDS.items() for part in parts]
    return (*_users_passes(), *theirs, *_switches())


_PASSES = "disabled_passes"
"""The setting that names passes, separated by commas."""
_SWITCHES = (
    ("fusion", "max_fusion_size", 1),
    ("pattern matcher", "pattern_matcher", False),
    ("vectorization", "cpp.simdlen", 1),
    ("parallel loops", "cpp.threads", 1),
    ("inplace buffers", "inplace_buffers", False),
    ("memory planning", "memory_planning", False),
)
"""Parts of Inductor that its bisector does not ask about."""


def _users_passes() -> list[Subsystem]:
    """The user's own passes, which torch runs by name and its bisector does not see."""
    config = _config("inductor")
    names = [name for name in config.get_config_copy() if "_custom_" in name and "pass" in name]
    if _PASSES not in config.get_config_copy():
        return []
    return [
        Subsystem("inductor", name, ("inductor", _PASSES, name))
        for name in names
        if getattr(config, name)
    ]


def _switches() -> list[Subsystem]:
    known = _config("inductor").get_config_copy()
    return [
        Subsystem("inductor", part, ("inductor", name, value))
        for part, name, value in _SWITCHES
        if name in known and known[name] != value
    ]


def _subsystem(rung: str, part: Any) -> Subsystem:
    if not hasattr(part, "config_field"):
        return Subsystem(rung, part.name)
    module = "functorch" if "aot" in part.config_name else part.config_name
    return Subsystem(rung, part.name, (module, part.config_field, part.config_value))


@contextlib.contextmanager
def disable_subsystems(parts: Iterable[Subsystem]) -> Iterator[None]:
    """Apply none of some parts. Only for a process of its own, see `limited`."""
    made: dict[tuple[str, str], Any] = {}
    for part in parts:
        if part.setting is not None:
            module, name, value = part.setting
            several = name == _PASSES and (module, name) in made
            made[module, name] = f"{made[module, name]},{value}" if several else value
    with contextlib.ExitStack() as stack:
        for (module, name), value in made.items():
            stack.enter_context(_config(module).patch(**{name: value}))
        counted = {part.name for part in parts if part.setting is None}
        if counted:
            stack.enter_context(_asked(lambda name, _: name in counted))
        yield


@contextlib.contextmanager
def limit_subsystem(part: Subsystem, limit: int, tell: Callable[[str], object]) -> Iterator[None]:
    """Apply a part that is counted at most `limit` times; `tell` hears what each application is.

    Only for a process of its own: it stands in for torch's method.
    """
    applied = 0

    def disable(name: str, said: Callable[[], str] | None) -> bool:
        nonlocal applied
        if name != part.name:
            return False
        if applied >= limit:
            return True
        applied += 1
        with contextlib.suppress(Exception):  # what it says is for people alone
            tell(_OPERATOR.sub(r"\1.\2", str(said())) if said is not None else "")
        return False

    with _asked(disable):
        yield


@contextlib.contextmanager
def _asked(disable: Callable[[str, Callable[[], str] | None], bool]) -> Iterator[None]:
    """Meanwhile `disable` is asked before a part is applied, by its name and what the application
    is."""
    from torch._inductor.compiler_bisector import CompilerBisector

    def asked(backend: str, subsystem: str, said: Callable[[], str] | None = None) -> bool:
        return disable(subsystem, said)

    kept = (CompilerBisector.disable_subsystem, CompilerBisector.bisection_enabled)
    CompilerBisector.disable_subsystem = asked  # type: ignore[method-assign,assignment]
    CompilerBisector.bisection_enabled = True
    try:
        yield
    finally:
        CompilerBisector.disable_subsystem, CompilerBisector.bisection_enabled = kept  # type: ignore[method-assign]


def _config(module: str) -> Any:
    if module == "functorch":
        import torch._functorch.config as config
    else:
        import torch._inductor.config as config  # type: ignore[no-redef]
    return config

"""Compiler subsystems that can be disabled, or applied a limited number of times.

PyTorch calls `torch._inductor.compiler_bisector.CompilerBisector.disable_subsystem` before it
applies a decomposition, a pass or a lowering; this file replaces that method.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils._config_module import ConfigModule

_OPERATOR = re.compile(r"<OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
"""`repr` of an operator."""


@dataclass(frozen=True)
class Subsystem:
    """Part of a compiler stage that can be disabled, such as Inductor's "lowerings"."""

    rung: str
    name: str
    """PyTorch's name: "decomposition", "joint_graph_passes", "lowerings"."""
    setting: tuple[str, str, object] | None = None
    """(config module, setting, value) that disables it; None if its applications are counted."""


def list_subsystems() -> tuple[Subsystem, ...]:
    """Return the subsystems that this torch can disable, in order of compilation."""
    try:
        from torch._inductor.compiler_bisector import BACKENDS
    except ImportError:
        return ()
    bisected = [_from_bisector(rung, part) for rung, parts in BACKENDS.items() for part in parts]
    return (*_custom_passes(), *bisected, *_config_subsystems())


_PASSES = "disabled_passes"
"""Name of the setting that lists disabled passes, separated by commas."""
_CONFIG_SUBSYSTEMS = (
    ("fusion", "max_fusion_size", 1),
    ("pattern matcher", "pattern_matcher", False),
    ("vectorization", "cpp.simdlen", 1),
    ("parallel loops", "cpp.threads", 1),
    ("inplace buffers", "inplace_buffers", False),
    ("memory planning", "memory_planning", False),
)
"""(name, setting, value that disables it) for parts of Inductor that its bisector does not know."""


def _custom_passes() -> list[Subsystem]:
    """Return the user's custom passes, which PyTorch's bisector does not know."""
    config = _config("inductor")
    names = [name for name in config.get_config_copy() if "_custom_" in name and "pass" in name]
    if _PASSES not in config.get_config_copy():
        return []
    return [
        Subsystem("inductor", name, ("inductor", _PASSES, name))
        for name in names
        if getattr(config, name)
    ]


def _config_subsystems() -> list[Subsystem]:
    """Return the parts of Inductor that one setting can disable, such as its vectorization.

    Parts that are already disabled are left out.
    """
    known = _config("inductor").get_config_copy()
    return [
        Subsystem("inductor", part, ("inductor", name, value))
        for part, name, value in _CONFIG_SUBSYSTEMS
        if name in known and known[name] != value
    ]


def _from_bisector(rung: str, part: Any) -> Subsystem:
    """Return an entry of PyTorch's bisector, which belongs to the rung `rung`, as a `Subsystem`."""
    if not hasattr(part, "config_field"):
        return Subsystem(rung, part.name)
    module = "functorch" if "aot" in part.config_name else part.config_name
    return Subsystem(rung, part.name, (module, part.config_field, part.config_value))


@contextlib.contextmanager
def disable_subsystems(parts: Iterable[Subsystem]) -> Iterator[None]:
    """Disable `parts` inside the block.

    Use it in a child process: it replaces a method of torch.
    """
    made: dict[tuple[str, str], object] = {}
    for part in parts:
        if part.setting is not None:
            module, name, value = part.setting
            several = name == _PASSES and (module, name) in made
            made[module, name] = f"{made[module, name]},{value}" if several else value
    with contextlib.ExitStack() as stack:
        for (module, name), value in made.items():
            stack.enter_context(_config(module).patch({name: value}))
        counted = {part.name for part in parts if part.setting is None}
        if counted:
            stack.enter_context(_replace_disable_subsystem(lambda name, _: name in counted))
        yield


@contextlib.contextmanager
def limit_subsystem(part: Subsystem, limit: int, tell: Callable[[str], object]) -> Iterator[None]:
    """Inside the block, let the compiler use the subsystem `part` at most `limit` times.

    A use is, for example, the lowering of one node. Each permitted use calls `tell` with the name
    of the node's operator, "aten.add.Tensor", or "" if it has none. Use this in a child process: it
    replaces a method of torch.
    """
    applied = 0

    def disable(name: str, describe: Callable[[], str] | None) -> bool:
        """Return whether to disable this application, because `limit` of them are done."""
        nonlocal applied
        if name != part.name:
            return False
        if applied >= limit:
            return True
        applied += 1
        with contextlib.suppress(Exception):  # the name is only shown
            tell(_OPERATOR.sub(r"\1.\2", str(describe())) if describe is not None else "")
        return False

    with _replace_disable_subsystem(disable):
        yield


@contextlib.contextmanager
def _replace_disable_subsystem(
    disable: Callable[[str, Callable[[], str] | None], bool],
) -> Iterator[None]:
    """Inside the block, replace torch's `CompilerBisector.disable_subsystem` by `disable`.

    Torch calls it before each use of a subsystem, such as the lowering of one node: `disable(name,
    describe)` returns whether to skip this use of the subsystem `name`. `describe()`, unless None,
    returns a description of the use.
    """
    from torch._inductor.compiler_bisector import CompilerBisector

    def disable_subsystem(
        backend: str, subsystem: str, describe: Callable[[], str] | None = None
    ) -> bool:
        """Replacement for the bisector's method."""
        return disable(subsystem, describe)

    kept = (CompilerBisector.disable_subsystem, CompilerBisector.bisection_enabled)
    CompilerBisector.disable_subsystem = disable_subsystem  # type: ignore[method-assign,assignment]
    CompilerBisector.bisection_enabled = True
    try:
        yield
    finally:
        CompilerBisector.disable_subsystem, CompilerBisector.bisection_enabled = kept  # type: ignore[method-assign]


def _config(module: str) -> ConfigModule:
    """Return AOTAutograd's config module if `module` is "functorch", else Inductor's."""
    owner = "_functorch" if module == "functorch" else "_inductor"
    config = importlib.import_module(f"torch.{owner}.config")
    assert isinstance(config, ConfigModule)
    return config

"""What Dynamo remembers between compilations: how to hide it from a job, and put it back.

Dynamo keeps, on every code object it met, the compiled versions and an *action*: compile it, run
what is compiled, or skip it for ever. `torch._dynamo.reset()` would forget those of all the
user's compiled functions, so nothing here calls it.
"""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

_DEFAULT, _SKIP, _RUN_ONLY = "DEFAULT", "SKIP", "RUN_ONLY"

_VALUES = {
    "torch._dynamo.convert_frame": ("FRAME_COUNTER", "initial_global_state"),
    "torch._dynamo.eval_frame": ("_stance",),
    "torch._dynamo.pgo": ("_CODE_STATE", "_INIT_CODE_STATE"),
    "torch._dynamo.utils": ("curr_frame",),
}
"""Names that are bound again; the automatic dynamic shapes are in `pgo._CODE_STATE`."""
_CONTAINERS = {
    "torch._dynamo.callback.callback_handler": ("start_callbacks", "end_callbacks"),
    "torch._dynamo.convert_frame": ("FRAME_COMPILE_COUNTER", "_bytecode_hooks"),
    "torch._dynamo.eval_frame": ("cached_backends",),
    "torch._dynamo.utils": (
        "compilation_time_metrics",
        "_compilation_metrics",
        "counters",
        "graph_break_reasons",
        "guard_failures",
        "warn_once_cache",
    ),
}
"""Lists, dicts, sets and deques whose content is put back."""
_INSTALLED = ("__compiled_fn_", "__resume_at_", "__import_", "__builtins_dict__")
"""How the globals begin that Dynamo adds to the modules of the code it compiles."""


@dataclass(frozen=True)
class _Code:
    """What Dynamo had on a code object."""

    action: str
    versions: tuple[CodeType, ...]
    """The compiled versions. Each has a code object of its own, so these tell them apart."""


class DynamoCaches:
    """Dynamo's memory as it was when this was made.

    Between `hide` and `restore` code that was skipped or had reached its recompile limit is
    compiled as if for the first time.
    """

    def __init__(self, codes: Iterable[CodeType] = ()) -> None:
        """`codes`: those the job may run, besides all that were ever compiled."""
        self._loaded = "torch._dynamo.convert_frame" in sys.modules
        if not self._loaded:
            return
        compiled = _compiled_codes()
        self._compiled = {id(code) for code in compiled}
        self._codes = {id(code): (code, _read(code)) for code in [*compiled, *codes]}
        self._values = [(owner, name, getattr(owner, name)) for owner, name in _named(_VALUES)]
        self._containers = [
            (getattr(owner, name), _content(getattr(owner, name)))
            for owner, name in _named(_CONTAINERS)
        ]
        self._cleanups = frozenset(_cleanups().values)
        self._globals = {
            id(namespace): (namespace, _installed(namespace)) for namespace in _namespaces()
        }

    def hide(self) -> None:
        """Let what was compiled or skipped until now not show in what is compiled next."""
        if not self._loaded:
            return
        for key, (code, was) in self._codes.items():
            # a mark on code that was never compiled is the user's own, from torch.compiler
            if was.action != _DEFAULT and key in self._compiled:
                _mark(code, _DEFAULT)
        from torch._dynamo import pgo

        for name in _VALUES["torch._dynamo.pgo"]:
            if hasattr(pgo, name):
                setattr(pgo, name, None)

    def restore(self) -> tuple[str, ...]:
        """Put everything back. Returns a sentence for each thing that could not be."""
        if not self._loaded:
            return _forget_all() if "torch._dynamo.convert_frame" in sys.modules else ()
        dead: dict[str, int] = {}
        for code in [*_compiled_codes(), *(code for code, _ in self._codes.values())]:
            _, was = self._codes.get(id(code), (code, _Code(_DEFAULT, ())))
            left = _restore(code, was)
            if left:
                dead[f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"] = left
        for owner, name, value in self._values:
            setattr(owner, name, value)
        for container, content in self._containers:
            _refill(container, content)
        self._clean_globals()
        return tuple(
            f"Dynamo's cache of {place} keeps {count} dead entr{'y' if count == 1 else 'ies'}, "
            "counted towards its recompile limit."
            for place, count in dead.items()
        )

    def _clean_globals(self) -> None:
        """Take away the globals that Dynamo installed for what was compiled meanwhile."""
        gc.collect()
        cleanups = _cleanups()
        for key in [key for key in cleanups.values if key not in self._cleanups]:
            cleanups._remove_id(key)  # what it does itself when the compiled code dies
        for namespace in _namespaces():
            _, had = self._globals.get(id(namespace), (namespace, frozenset()))
            for name in _installed(namespace) - had:
                del namespace[name]

    def summary(self) -> dict[str, str]:
        """What can be compared: the codes with something on them, counters, settings."""
        if not self._loaded:
            return {}
        told = {
            f"dynamo: {code.co_filename}:{code.co_firstlineno} {code.co_qualname}": str(
                (was.action, [id(version) for version in was.versions])
            )
            for code, was in self._codes.values()
            if was != _Code(_DEFAULT, ())
        }
        for (owner, name), (_, content) in zip(_named(_CONTAINERS), self._containers, strict=True):
            told[f"dynamo: {_title(owner)}.{name}"] = repr(content)
        for owner, name, value in self._values:
            told[f"dynamo: {_title(owner)}.{name}"] = repr(value)
        told["dynamo: globals"] = repr(sorted(set().union(*(h for _, h in self._globals.values()))))
        return told


def _title(owner: Any) -> str:
    return getattr(owner, "__name__", type(owner).__name__)


def _forget_all() -> tuple[str, ...]:
    """Dynamo was loaded by the job itself: all it knows is the job's."""
    import torch

    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    return ()


def _compiled_codes() -> list[CodeType]:
    from torch._dynamo import convert_frame

    return [code for one in list(convert_frame.input_codes.seen) if (code := one()) is not None]


def _named(table: dict[str, tuple[str, ...]]) -> list[tuple[Any, str]]:
    """The owners and names of `table` that this torch has."""
    found = []
    for path, names in table.items():
        owner = sys.modules.get(path)
        if owner is None:
            module, _, attribute = path.rpartition(".")
            owner = getattr(sys.modules.get(module), attribute, None)
        found += [(owner, name) for name in names if hasattr(owner, name)]
    return found


def _content(container: Any) -> Any:
    """A copy of `container`, deep where Dynamo changes the inner values in place."""
    if isinstance(container, dict) and any(isinstance(v, dict | list) for v in container.values()):
        return {key: copy.copy(value) for key, value in container.items()}
    return copy.copy(container)


def _refill(container: Any, content: Any) -> None:
    if container == content:
        return
    container.clear()
    container.extend(content) if hasattr(container, "extend") else container.update(content)


def _namespaces() -> list[dict[str, Any]]:
    return [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]


def _cleanups() -> Any:
    """Dynamo's table of the globals to take away when a compiled code object dies."""
    from torch._dynamo.utils import CleanupManager

    return CleanupManager.instance


def _installed(namespace: dict[str, Any]) -> frozenset[str]:
    return frozenset(n for n in list(namespace) if isinstance(n, str) and n.startswith(_INSTALLED))


def _read(code: CodeType) -> _Code:
    return _Code(_action(code), tuple(entry.code for entry in _entries(code)))


def _entries(code: CodeType) -> list[Any]:
    """The compiled versions of `code` that are alive, of every isolated region."""
    from torch._C._dynamo import eval_frame

    entries = eval_frame._debug_get_cache_entry_list(code)
    return [entry for entry in entries if isinstance(entry.code, CodeType)]


def _restore(code: CodeType, was: _Code) -> int:
    """Take from `code` what it did not have. Returns how many dead entries stay on it that count
    towards the limit of the user's compiled functions."""
    from torch._C._dynamo import eval_frame
    from torch._dynamo.guards import DeletedGuardManagerWrapper

    dead = 0
    if not was.versions:
        eval_frame.reset_code(code)
        if was.action != _DEFAULT:
            _mark(code, was.action)
        return 0
    for entry in _entries(code):
        if not any(entry.code is version for version in was.versions):
            # an entry of an isolated region is counted for that region alone
            dead += getattr(entry, "isolate_recompiles_id", -1) < 0
            state = entry.guard_manager.extra_state
            state.invalidate(entry, DeletedGuardManagerWrapper("compiled in isolation"))
    if _action(code) != was.action:
        _mark(code, was.action)
    return dead


def _mark(code: CodeType, action: str) -> None:
    from torch._C._dynamo import eval_frame

    actions = eval_frame._FrameAction
    eval_frame.set_code_exec_strategy(
        code, eval_frame._FrameExecStrategy(getattr(actions, action), actions.DEFAULT)
    )


class _Stop(BaseException):
    """Ends a look at a code object before its first instruction."""


def _action(code: CodeType) -> str:
    """What Dynamo does when a frame of `code` starts.

    Torch has no getter for it. So a frame is started with a callback of our own in Dynamo's
    place, and stopped before its first instruction: Dynamo skips without looking into the cache,
    or looks and calls nobody, or looks and calls back.
    """
    eval_frame: Any = sys.modules["torch._C._dynamo.eval_frame"]
    seen: list[str] = []

    def looked(hit: bool) -> Any:
        seen.append("looked")
        return hit

    def called(frame: Any, *rest: Any) -> Any:
        seen.append("called")
        raise _Stop

    def started(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code is code:
            raise _Stop

    function = FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))
    positional = code.co_argcount
    named = code.co_varnames[positional : positional + code.co_kwonlyargcount]
    _mark(started.__code__, _SKIP)  # else Dynamo would look at this frame too
    trace = sys.gettrace()
    collecting = gc.isenabled()
    gc.disable()  # a finalizer's frame would be taken for that of `code`
    hook = eval_frame.set_guard_complete_hook(looked)
    callback = eval_frame.set_eval_frame(called)
    sys.settrace(started)
    try:
        unstarted = function(*[None] * positional, **dict.fromkeys(named))
        unstarted.close()  # a generator or coroutine, which starts later
    except _Stop:
        pass
    finally:
        sys.settrace(trace)
        eval_frame.set_eval_frame(callback)
        eval_frame.set_guard_complete_hook(hook)
        if collecting:
            gc.enable()
    if "called" in seen:
        return _DEFAULT
    return _RUN_ONLY if "looked" in seen else _SKIP

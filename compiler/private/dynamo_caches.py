"""Hides Dynamo's caches from a job, and restores them afterwards.

Dynamo stores, on every code object it has seen, the compiled versions and an *action*: compile,
run only, or skip. `torch._dynamo.reset()` would drop those of all the user's compiled functions,
so nothing here calls it.
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
"""Variables to restore by assignment; `pgo._CODE_STATE` holds the automatic dynamic shapes."""
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
"""Lists, dicts, sets and deques whose content is restored in place."""
_INSTALLED = ("__compiled_fn_", "__resume_at_", "__import_", "__builtins_dict__")
"""Prefixes of the globals that Dynamo adds to the modules of compiled code."""


@dataclass(frozen=True)
class _CodeState:
    """What Dynamo stored on a code object: its action for frames, and the compiled versions."""

    action: str
    versions: tuple[CodeType, ...]
    """Code objects of the compiled versions."""


class DynamoCaches:
    """Snapshot of Dynamo's caches, taken on construction.

    Between `hide` and `restore`, code that was skipped or had reached its recompile limit is
    compiled as if for the first time.
    """

    def __init__(self, codes: Iterable[CodeType] = ()) -> None:
        """Take the snapshot of all compiled code objects and of `codes`, which the job may run."""
        self._loaded = "torch._dynamo.convert_frame" in sys.modules
        if not self._loaded:
            return
        compiled = _compiled_codes()
        self._compiled = {id(code) for code in compiled}
        self._codes = {id(code): (code, _read_code_state(code)) for code in [*compiled, *codes]}
        self._values = [
            (owner, name, getattr(owner, name)) for owner, name in _find_attributes(_VALUES)
        ]
        self._containers = [
            (getattr(owner, name), _copy_content(getattr(owner, name)))
            for owner, name in _find_attributes(_CONTAINERS)
        ]
        self._cleanups = frozenset(_cleanups().values)
        self._globals = {
            id(namespace): (namespace, _installed_globals(namespace))
            for namespace in _module_namespaces()
        }

    def hide(self) -> None:
        """Hide compiled versions and skip marks, so that the next calls compile again."""
        if not self._loaded:
            return
        for key, (code, was) in self._codes.items():
            # a mark on code that was never compiled is the user's own, from torch.compiler
            if was.action != _DEFAULT and key in self._compiled:
                _set_action(code, _DEFAULT)
        from torch._dynamo import pgo

        for name in _VALUES["torch._dynamo.pgo"]:
            if hasattr(pgo, name):
                setattr(pgo, name, None)

    def restore(self) -> tuple[str, ...]:
        """Restore the snapshot; return a sentence for each cache that could not be restored."""
        if not self._loaded:
            return _reset_dynamo() if "torch._dynamo.convert_frame" in sys.modules else ()
        dead: dict[str, int] = {}
        for code in [*_compiled_codes(), *(code for code, _ in self._codes.values())]:
            _, was = self._codes.get(id(code), (code, _CodeState(_DEFAULT, ())))
            left = _restore_code(code, was)
            if left:
                dead[f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"] = left
        for owner, name, value in self._values:
            setattr(owner, name, value)
        for container, content in self._containers:
            _restore_content(container, content)
        self._clean_globals()
        return tuple(
            f"Dynamo's cache of {place} keeps {count} dead entr{'y' if count == 1 else 'ies'}, "
            "counted towards its recompile limit."
            for place, count in dead.items()
        )

    def _clean_globals(self) -> None:
        """Remove the globals that Dynamo installed for code compiled since the snapshot."""
        gc.collect()
        cleanups = _cleanups()
        for key in [key for key in cleanups.values if key not in self._cleanups]:
            cleanups._remove_id(key)  # as Dynamo does when the compiled code dies
        for namespace in _module_namespaces():
            _, had = self._globals.get(id(namespace), (namespace, frozenset()))
            for name in _installed_globals(namespace) - had:
                del namespace[name]

    def summary(self) -> dict[str, str]:
        """Return the snapshot as text, by name: compiled code objects, counters, settings."""
        if not self._loaded:
            return {}
        summary = {
            f"dynamo: {code.co_filename}:{code.co_firstlineno} {code.co_qualname}": str(
                (was.action, [id(version) for version in was.versions])
            )
            for code, was in self._codes.values()
            if was != _CodeState(_DEFAULT, ())
        }
        for (owner, name), (_, content) in zip(
            _find_attributes(_CONTAINERS), self._containers, strict=True
        ):
            summary[f"dynamo: {_owner_name(owner)}.{name}"] = repr(content)
        for owner, name, value in self._values:
            summary[f"dynamo: {_owner_name(owner)}.{name}"] = repr(value)
        summary["dynamo: globals"] = repr(
            sorted(set().union(*(h for _, h in self._globals.values())))
        )
        return summary


def _owner_name(owner: object) -> str:
    return getattr(owner, "__name__", type(owner).__name__)


def _reset_dynamo() -> tuple[str, ...]:
    """Reset Dynamo, which only the job used.

    Returns (), the caches that could not be restored: there are none.
    """
    import torch

    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    return ()


def _compiled_codes() -> list[CodeType]:
    """Return the code objects that Dynamo has compiled and that are still alive."""
    from torch._dynamo import convert_frame

    return [code for one in list(convert_frame.input_codes.seen) if (code := one()) is not None]


def _find_attributes(table: dict[str, tuple[str, ...]]) -> list[tuple[Any, str]]:
    """Return the (owner, attribute name) pairs of `table` that this torch has.

    `table` maps the path of a module or class to the names of its attributes.
    """
    found = []
    for path, names in table.items():
        owner = sys.modules.get(path)
        if owner is None:
            module, _, attribute = path.rpartition(".")
            owner = getattr(sys.modules.get(module), attribute, None)
        found += [(owner, name) for name in names if hasattr(owner, name)]
    return found


def _copy_content(container: object) -> object:
    """Return a copy of `container`, and of the dicts and lists in it if it is a dict."""
    if isinstance(container, dict) and any(isinstance(v, dict | list) for v in container.values()):
        return {key: copy.copy(value) for key, value in container.items()}
    return copy.copy(container)


def _restore_content(container: Any, content: Any) -> None:
    """Replace the content of a container in place."""
    if container == content:
        return
    container.clear()
    container.extend(content) if hasattr(container, "extend") else container.update(content)


def _module_namespaces() -> list[dict[str, object]]:
    return [vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__")]


def _cleanups() -> Any:
    """Return Dynamo's table of the globals to remove when a compiled code object dies."""
    from torch._dynamo.utils import CleanupManager

    return CleanupManager.instance


def _installed_globals(namespace: dict[str, object]) -> frozenset[str]:
    """Return the names in `namespace` that Dynamo installed."""
    return frozenset(n for n in list(namespace) if isinstance(n, str) and n.startswith(_INSTALLED))


def _read_code_state(code: CodeType) -> _CodeState:
    return _CodeState(_probe_action(code), tuple(entry.code for entry in _live_entries(code)))


def _live_entries(code: CodeType) -> list[Any]:
    """Return the valid entries of Dynamo's cache for `code`, of every isolated region."""
    from torch._C._dynamo import eval_frame

    entries = eval_frame._debug_get_cache_entry_list(code)
    return [entry for entry in entries if isinstance(entry.code, CodeType)]


def _restore_code(code: CodeType, was: _CodeState) -> int:
    """Restore `code` to the state `was`: invalidate newer compiled versions, set its action.

    Returns the number of invalidated cache entries that stay on `code` and count towards the
    recompile limit.
    """
    from torch._C._dynamo import eval_frame
    from torch._dynamo.guards import DeletedGuardManagerWrapper

    dead = 0
    if not was.versions:
        eval_frame.reset_code(code)
        if was.action != _DEFAULT:
            _set_action(code, was.action)
        return 0
    for entry in _live_entries(code):
        if not any(entry.code is version for version in was.versions):
            # an entry of an isolated region is counted for that region alone
            dead += getattr(entry, "isolate_recompiles_id", -1) < 0
            state = entry.guard_manager.extra_state
            state.invalidate(entry, DeletedGuardManagerWrapper("compiled in isolation"))
    if _probe_action(code) != was.action:
        _set_action(code, was.action)
    return dead


def _set_action(code: CodeType, action: str) -> None:
    """Set what Dynamo does with frames of `code`: "DEFAULT", "SKIP" or "RUN_ONLY"."""
    from torch._C._dynamo import eval_frame

    actions = eval_frame._FrameAction
    eval_frame.set_code_exec_strategy(
        code, eval_frame._FrameExecStrategy(getattr(actions, action), actions.DEFAULT)
    )


class _ProbeEnded(BaseException):
    """Raised before the first instruction of a frame that only probes Dynamo's action."""


def _probe_action(code: CodeType) -> str:
    """Return Dynamo's action for a frame of `code`.

    Torch has no getter for it. This starts a frame with another callback in place of Dynamo's, and
    stops it before its first instruction. If the action is "skip", Dynamo does not look up its
    cache. If it is "run only", Dynamo looks it up but does not call back to compile. Otherwise it
    does both.
    """
    eval_frame: Any = sys.modules["torch._C._dynamo.eval_frame"]
    seen: list[str] = []

    def on_lookup(hit: bool) -> Any:
        """Record that Dynamo looked up its cache."""
        seen.append("looked")
        return hit

    def on_callback(frame: object, *rest: object) -> object:
        """Record that Dynamo called back to compile, and stop the probe."""
        seen.append("called")
        raise _ProbeEnded

    def on_frame_start(frame: FrameType, event: str, argument: object) -> None:
        """Stop the probe before the frame's first instruction."""
        if frame.f_code is code:
            raise _ProbeEnded

    function = FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars))
    positional = code.co_argcount
    named = code.co_varnames[positional : positional + code.co_kwonlyargcount]
    _set_action(on_frame_start.__code__, _SKIP)  # else Dynamo would look at this frame too
    trace = sys.gettrace()
    collecting = gc.isenabled()
    gc.disable()  # a finalizer's frame would be taken for that of `code`
    hook = eval_frame.set_guard_complete_hook(on_lookup)
    callback = eval_frame.set_eval_frame(on_callback)
    sys.settrace(on_frame_start)
    try:
        unstarted = function(*[None] * positional, **dict.fromkeys(named))
        unstarted.close()  # a generator or coroutine, which starts later
    except _ProbeEnded:
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

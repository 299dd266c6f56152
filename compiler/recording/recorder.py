"""`record()`: listen while anything compiles, forward and backward, first and later calls."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fullgraph.compiler.events import (
    Break,
    Event,
    Failure,
    Fate,
    Graph,
    Position,
    Recompile,
    Recording,
    Skip,
    Timing,
)
from fullgraph.compiler.private import (
    active_modes,
    calling_position,
    current_compile_id,
    frame_position,
    function_name,
    gb_ids,
    graph_nodes,
    guard_positions,
    listen,
    root_cause_of,
    running_modules,
    running_tracers,
    summary_positions,
    tx_position,
)
from fullgraph.compiler.recording.graph_break_message import GraphBreakText, parse_graph_break
from fullgraph.compiler.recording.guard_message import parse_guard
from fullgraph.compiler.sources import is_user_code

RECOMPILE_LIMIT = "Dynamo recompile limit exceeded"
_BARE_LIMITS = ("RecompileLimitExceeded", "FailOnRecompileLimitHit")
"""The exceptions that told of the limit before it became a graph break, GB0039."""


@contextlib.contextmanager
def record(
    root: object = None, tell: Callable[[Event], object] | None = None
) -> Iterator[Recorder]:
    """Record what torch.compile does inside the `with` block.

    `root` is the model: submodules are named relative to it. `tell` is called with each event as
    it happens (a crash of the process then loses none). The recorder adds no graph, guard
    or compilation of its own, and costs a few microseconds an event.

    >>> with record(model) as recorder:
    ...     torch.compile(model)(x)
    >>> recorder.recording.breaks
    """
    recorder = Recorder(root, tell)
    with listen(recorder) as unknown:
        recorder.unknown = unknown
        yield recorder


class Recorder:
    """Turns what torch tells into events. `recording` may be read at any time."""

    def __init__(self, root: object, tell: Callable[[Event], object] | None) -> None:
        self._tell = tell
        self.unknown: tuple[str, ...] = ()
        self._events: list[Event] = []
        self._seen: set[int] = set()
        self._kept: list[BaseException] = []  # an id is only unique while its exception lives
        self._told: set[tuple[Position, str]] = set()
        self._broken: set[Position] = set()
        self._guard_lines: dict[tuple[Position, str], tuple[Position, ...]] = {}
        self._names: dict[int, str] = {}
        self._siblings: dict[tuple[str, type], list[str]] = {}
        if isinstance(root, torch.nn.Module):
            for name, module in root.named_modules():
                self._names[id(module)] = name
                parent, _, index = name.rpartition(".")
                if index.isdigit():
                    self._siblings.setdefault((parent, type(module)), []).append(name)

    @property
    def recording(self) -> Recording:
        return Recording(torch.__version__, tuple(self._events), self.unknown)

    # What hooks.Listener asks for.

    def broke(self, tx: Any, reason: str, exc: BaseException | None) -> None:
        exc = exc or _current_break()
        if exc is not None and not self._first_time(exc):
            return
        txs = running_tracers(tx, exc)
        text = _text_of(exc, reason)
        if text.wrappers or tx.maybe_has_backedge() or reason.startswith("Failed to handle"):
            fate = Fate.SKIPPED
        elif "cannot resume from" in reason:
            fate = Fate.PREFIX
        else:
            fate = Fate.RESUMED
        self._add_break(txs[0].f_code, _stack_of(txs, exc), fate, text, txs)

    def escaped(self, frame: Any, exc: BaseException, one_graph: bool) -> None:
        self._broken.add(frame_position(frame.f_code))
        if not self._first_time(exc):
            return
        limit = exc.__cause__ if type(exc).__name__ == "FailOnRecompileLimitHit" else None
        told: BaseException = limit or exc
        name = type(told).__name__
        if name in ("Unsupported", "UserError", "UncapturedHigherOrderOpError", *_BARE_LIMITS):
            text = _text_of(told)
            if name in _BARE_LIMITS:
                text = GraphBreakText(RECOMPILE_LIMIT, "GB0039", str(told))
            if text.gb_type == RECOMPILE_LIMIT:
                self._forget_recompile(frame_position(frame.f_code))
            txs = running_tracers(None, told)
            stack = _stack_of(txs, told)
            fate = Fate.RAISED if one_graph else Fate.SKIPPED
            self._add_break(frame.f_code, stack, fate, text, txs, _id_of(exc))
        elif type(exc).__name__ == "SkipFrame":
            self.skipped(frame.f_code, str(exc))
        else:
            self._add(
                Failure(
                    _id_of(exc) or current_compile_id(),
                    frame_position(frame.f_code),
                    _stage(exc),
                    _error_name(exc),
                    str(exc),
                    _failure_stack(exc),
                    "".join(traceback.format_exception(exc)),
                )
            )

    def skipped(self, code: Any, reason: str) -> None:
        frame = frame_position(code)
        # A frame that just broke was told already; torch and Python themselves are never compiled.
        if frame in self._broken or (frame, reason) in self._told or not is_user_code(frame.file):
            return
        self._told.add((frame, reason))
        self._add(Skip(frame, reason))

    def graph(self, output: Any, gm: torch.fx.GraphModule) -> None:
        tx = output.root_tx
        frame = frame_position(tx.f_code)
        for source, lines in guard_positions(output).items():
            self._guard_lines.setdefault((frame, source), lines)
        nodes, inputs, outputs = graph_nodes(gm)
        why = getattr(output, "compile_subgraph_reason", None) or getattr(
            gm, "compile_subgraph_reason", None
        )
        if why is not None and not why.graph_break:
            why = None
        stack = summary_positions(why.user_stack) if why else ()
        compile_id = current_compile_id()
        self._add(
            Graph(
                compile_id,
                frame,
                nodes,
                inputs,
                outputs,
                parse_graph_break(why.reason).gb_type if why else None,
                stack[-1] if stack else None,
                "backward" if compile_id.startswith("!") else "forward",
            )
        )

    def split(self, pieces: int) -> None:
        for i in range(len(self._events) - 1, -1, -1):
            event = self._events[i]
            if isinstance(event, Graph):
                self._events[i] = dataclasses.replace(event, splits=pieces)
                return

    def recompiled(self, frame: Any, reasons: list[str]) -> None:
        where = frame_position(frame.f_code)
        guards = [parse_guard(reason) for reason in reasons]
        known = [
            lines[-1]
            for (code, source), lines in self._guard_lines.items()
            if code == where and any(source in guard.sources for guard in guards)
        ]
        told = [guard.position for guard in guards if guard.position is not None]
        self._add(
            Recompile(
                current_compile_id(),
                where,
                tuple(guard.text for guard in guards),
                tuple(dict.fromkeys(told or known)),
            )
        )

    def timed(self, metrics: Any) -> None:
        def seconds(name: str) -> float | None:
            value = getattr(metrics, name, None)
            return None if value is None else value / 1e6

        def field(name: str) -> Any:
            return getattr(metrics, name, None)

        backward = field("is_forward") is False
        started, ended = field("start_time_us"), field("end_time_us")
        self._add(
            Timing(
                str(field("compile_id") or ""),
                Position(
                    field("co_filename") or "",
                    field("co_firstlineno") or 0,
                    function=function_name(field("co_name") or ""),
                ),
                seconds("dynamo_cumulative_compile_time_us"),
                seconds("aot_autograd_cumulative_compile_time_us"),
                seconds("inductor_cumulative_compile_time_us"),
                (ended - started) / 1e6 if started and ended else None,
                field("guard_count"),
                "backward" if backward else "forward",
            )
        )

    # How an event is put together.

    def _add(self, event: Event) -> None:
        self._events.append(event)
        if self._tell is not None:
            self._tell(event)

    def _add_break(
        self,
        code: Any,
        stack: tuple[Position, ...],
        fate: Fate,
        text: GraphBreakText,
        txs: list[Any],
        compile_id: str = "",
    ) -> None:
        frame = frame_position(code)
        stack = stack or (frame,)
        users = any(is_user_code(position.file) for position in stack)
        self._add(
            Break(
                compile_id or current_compile_id(),
                frame,
                stack,
                fate,
                text.gb_type,
                text.gb_id or gb_ids().get(text.gb_type),
                text.explanation.partition("\n")[0] or text.gb_type,
                text.context,
                text.explanation,
                text.hints,
                text.wrappers,
                self._module_paths(txs),
                active_modes(),
                None if users else calling_position(),
            )
        )

    def _module_paths(self, txs: list[Any]) -> tuple[str, ...]:
        """The innermost running module, and those beside it that run the same code."""
        for module in running_modules(txs):
            path = self._names.get(id(module))
            if path is not None:
                return tuple(self._siblings.get((path.rpartition(".")[0], type(module)), (path,)))
        return ()

    def _first_time(self, exc: BaseException) -> bool:
        if id(exc) in self._seen:
            return False
        self._seen.add(id(exc))
        self._kept.append(exc)
        return True

    def _forget_recompile(self, frame: Position) -> None:
        """The recompile limit was hit: the recompile announced just before did not happen."""
        for i in range(len(self._events) - 1, -1, -1):
            event = self._events[i]
            if isinstance(event, Recompile) and event.frame == frame:
                del self._events[i]
                return


def _current_break() -> BaseException | None:
    """The break being handled, for torch 2.10, which does not pass it on."""
    exc = sys.exc_info()[1]
    return exc if exc is not None and hasattr(exc, "real_stack") else None


def _text_of(exc: BaseException | None, reason: str = "") -> GraphBreakText:
    """What `exc` says: the root cause, with what it is wrapped in."""
    root = root_cause_of(exc)
    text = parse_graph_break(_message(root) or reason or str(exc))
    if root is exc or text.wrappers:
        return text
    outer = parse_graph_break(_message(exc))
    return dataclasses.replace(text, wrappers=(*outer.wrappers, outer.gb_type))


def _message(exc: BaseException | None) -> str:
    return getattr(exc, "msg", None) or getattr(exc, "message", None) or str(exc or "")


def _stack_of(txs: list[Any], exc: BaseException | None) -> tuple[Position, ...]:
    """The tracers' positions; torch's own stack where it goes deeper (an exception that the
    user's code raised in an inlined call is only seen by the caller's tracer)."""
    stack = tuple(map(tx_position, txs))
    real = summary_positions(getattr(root_cause_of(exc), "real_stack", None))
    return real if len(real) > len(stack) else stack


def _id_of(exc: BaseException) -> str:
    return str(getattr(exc, "compile_id", None) or "")


def _stage(exc: BaseException) -> str:
    name = type(exc).__name__
    if "Inductor" in name or "Inductor" in type(getattr(exc, "inner_exception", exc)).__name__:
        return "inductor"
    if name == "BackendCompilerFailed":
        return "inductor" if getattr(exc, "backend_name", "") == "inductor" else "backend"
    return "dynamo"


def _error_name(exc: BaseException) -> str:
    inner = getattr(exc, "inner_exception", None)
    return type(exc).__name__ if inner is None else f"{type(exc).__name__}: {type(inner).__name__}"


def _failure_stack(exc: BaseException) -> tuple[Position, ...]:
    txs = running_tracers(None, exc)
    return tuple(map(tx_position, txs)) or summary_positions(getattr(exc, "real_stack", None))

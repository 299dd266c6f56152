"""Recorder of compile events, forward and backward, of first and later calls."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import traceback
from collections.abc import Callable, Iterator
from types import CodeType

import torch

from fullgraph.compiler.events import (
    Break,
    CompileFailure,
    Event,
    Fate,
    Graph,
    Position,
    Recompile,
    Recording,
    Skip,
    Timing,
)
from fullgraph.compiler.lowering.cost import trace_operators
from fullgraph.compiler.operations import OperatorTrace
from fullgraph.compiler.private import (
    Frame,
    OutputGraph,
    Tracer,
    active_modes,
    calling_position,
    current_compile_id,
    frame_position,
    function_name,
    gb_ids,
    graph_break_reason,
    graph_lines,
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
"""Exceptions for the recompile limit in torch versions in which it is no graph break (GB0039)."""
_BREAKS = ("Unsupported", "UserError", "UncapturedHigherOrderOpError", *_BARE_LIMITS)
"""Exceptions that Dynamo raises if it cannot capture an operation."""


@contextlib.contextmanager
def record(
    root: object = None,
    on_event: Callable[[Event], object] | None = None,
    *,
    operators: bool = False,
) -> Iterator[Recorder]:
    """Record what torch.compile does inside the `with` block.

    `root` is the model: submodules are named relative to it. `on_event` is called with each event
    as it happens, so a crash of the process loses none. The recorder adds no graph, guard or
    compilation, and costs a few microseconds per event. With `operators`, it also records the
    operators of each graph that a break ends and of all later graphs: about a millisecond each.

    >>> with record(model) as recorder:
    ...     torch.compile(model)(x)
    >>> recorder.recording.breaks
    """
    recorder = Recorder(root, on_event, operators)
    with listen(recorder) as unknown:
        recorder.unknown = unknown
        yield recorder


class Recorder:
    """Compile listener that turns torch's objects into events; read `recording` at any time."""

    def __init__(
        self,
        root: object,
        on_event: Callable[[Event], object] | None,
        operators: bool = False,
    ) -> None:
        self._on_event = on_event
        self._records_operators = operators
        self._has_broken = False
        self.unknown: tuple[str, ...] = ()
        self._events: list[Event] = []
        self._seen: set[int] = set()
        self._exceptions: list[BaseException] = []  # an id is only unique while its exception lives
        self._recorded_skips: set[tuple[Position, str]] = set()
        self._broken_frames: set[Position] = set()
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
    def event_count(self) -> int:
        """Number of events so far."""
        return len(self._events)

    @property
    def recording(self) -> Recording:
        return Recording(torch.__version__, tuple(self._events), self.unknown)

    # The methods of CompileListener.

    def on_break(self, tx: Tracer, reason: str, exc: BaseException | None) -> None:
        """Record a graph break; an exception that several tracers report is recorded once."""
        exc = exc or _break_in_progress()
        if exc is not None and not self._is_first_report(exc):
            return
        txs = running_tracers(tx, exc)
        text = _parse_exception(exc, reason)
        if text.wrappers or tx.maybe_has_backedge() or reason.startswith("Failed to handle"):
            fate = Fate.SKIPPED
        elif "cannot resume from" in reason:
            fate = Fate.PREFIX
        else:
            fate = Fate.RESUMED
        self._add_break(txs[0].f_code, _stack_of(txs, exc), fate, text, txs)

    def on_unhandled_exception(self, frame: Frame, exc: BaseException, one_graph: bool) -> None:
        """Record an exception that no tracer handled: a break, a skipped frame or a failure."""
        self._broken_frames.add(frame_position(frame.f_code))
        if not self._is_first_report(exc):
            return
        limit_error = exc.__cause__ if type(exc).__name__ == "FailOnRecompileLimitHit" else None
        cause: BaseException = limit_error or exc
        name = type(cause).__name__
        # Dynamo lets the error of a guard on an unbacked size pass in `if len(x):`.
        unwrapped = name == "GuardOnDataDependentSymNode" and _failed_stage(exc) == "dynamo"
        if name in _BREAKS or unwrapped:
            text = _parse_exception(cause)
            if name in _BARE_LIMITS:
                text = GraphBreakText(RECOMPILE_LIMIT, "GB0039", str(cause))
            if text.gb_type == RECOMPILE_LIMIT:
                self._forget_recompile(frame_position(frame.f_code))
            txs = running_tracers(None, cause)
            stack = _stack_of(txs, cause)
            fate = Fate.RAISED if one_graph else Fate.SKIPPED
            self._add_break(frame.f_code, stack, fate, text, txs, _compile_id_of(exc))
        elif type(exc).__name__ == "SkipFrame":
            self.on_skip(frame.f_code, str(exc))
        else:
            self._add_event(
                CompileFailure(
                    _compile_id_of(exc) or current_compile_id(),
                    frame_position(frame.f_code),
                    _failed_stage(exc),
                    _error_name(exc),
                    str(exc),
                    _failure_stack(exc),
                    "".join(traceback.format_exception(exc)),
                )
            )

    def on_skip(self, code: CodeType, reason: str) -> None:
        """Record a skipped frame of user code, unless the break that skipped it is recorded."""
        frame = frame_position(code)
        # A frame that just broke is recorded already; code of torch and Python is never compiled.
        if (
            frame in self._broken_frames
            or (frame, reason) in self._recorded_skips
            or not is_user_code(frame.file)
        ):
            return
        self._recorded_skips.add((frame, reason))
        self._add_event(Skip(frame, reason))

    def on_graph(self, output: OutputGraph, gm: torch.fx.GraphModule) -> None:
        """Record a graph, why it ended, and the source positions of its guards."""
        tx = output.root_tx
        frame = frame_position(tx.f_code)
        for source, lines in guard_positions(output).items():
            self._guard_lines.setdefault((frame, source), lines)
        nodes, inputs, outputs = graph_nodes(gm)
        why = graph_break_reason(output, gm)
        stack = summary_positions(why.user_stack) if why else ()
        compile_id = current_compile_id()
        self._has_broken |= why is not None
        self._add_event(
            Graph(
                compile_id,
                frame,
                nodes,
                inputs,
                outputs,
                parse_graph_break(why.reason).gb_type if why else None,
                stack[-1] if stack else None,
                "backward" if compile_id.startswith("!") else "forward",
                operators=self._operators_of(gm),
                lines=graph_lines(gm),
            )
        )

    def on_graph_split(self, pieces: int) -> None:
        """Record that DDPOptimizer split the last graph into `pieces`."""
        for i in range(len(self._events) - 1, -1, -1):
            event = self._events[i]
            if isinstance(event, Graph):
                self._events[i] = dataclasses.replace(event, splits=pieces)
                return

    def on_recompile(self, frame: Frame, reasons: list[str]) -> None:
        """Record a recompile with the guards that failed and their lines."""
        where = frame_position(frame.f_code)
        guards = [parse_guard(reason) for reason in reasons]
        known = [
            lines[-1]
            for (code, source), lines in self._guard_lines.items()
            if code == where and any(source in guard.sources for guard in guards)
        ]
        reported = [guard.position for guard in guards if guard.position is not None]
        self._add_event(
            Recompile(
                current_compile_id(),
                where,
                tuple(guard.text for guard in guards),
                tuple(dict.fromkeys(reported or known)),
            )
        )

    def on_compile_times(self, metrics: object) -> None:
        """Record the compile times of one compilation."""

        def number(name: str) -> int | None:
            return getattr(metrics, name, None)

        def text(name: str) -> str:
            return str(getattr(metrics, name, None) or "")

        def seconds(name: str) -> float | None:
            """Return a metric in microseconds as seconds; None if it is missing."""
            value = number(name)
            return None if value is None else value / 1e6

        backward = getattr(metrics, "is_forward", None) is False
        started, ended = number("start_time_us"), number("end_time_us")
        self._add_event(
            Timing(
                text("compile_id"),
                Position(
                    text("co_filename"),
                    number("co_firstlineno") or 0,
                    function=function_name(text("co_name")),
                ),
                seconds("dynamo_cumulative_compile_time_us"),
                seconds("aot_autograd_cumulative_compile_time_us"),
                seconds("inductor_cumulative_compile_time_us"),
                (ended - started) / 1e6 if started and ended else None,
                number("guard_count"),
                "backward" if backward else "forward",
            )
        )

    # Construction of events.

    def _add_event(self, event: Event) -> None:
        """Append an event, and pass it to the callback."""
        self._events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def _add_break(
        self,
        code: CodeType,
        stack: tuple[Position, ...],
        fate: Fate,
        text: GraphBreakText,
        txs: list[Tracer],
        compile_id: str = "",
    ) -> None:
        """Append the event of a graph break."""
        frame = frame_position(code)
        stack = stack or (frame,)
        users = any(is_user_code(position.file) for position in stack)
        self._add_event(
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

    def _operators_of(self, gm: torch.fx.GraphModule) -> OperatorTrace | None:
        """Return the operators of a graph; None before any break or if it fails on fake tensors."""
        if not (self._records_operators and self._has_broken):
            return None
        try:
            return trace_operators(gm)
        except Exception:  # tensor subclasses, operators without a fake kernel: no estimate
            return None

    def _module_paths(self, txs: list[Tracer]) -> tuple[str, ...]:
        """Return the paths of the innermost running module and its siblings of the same class."""
        for module in running_modules(txs):
            path = self._names.get(id(module))
            if path is not None:
                return tuple(self._siblings.get((path.rpartition(".")[0], type(module)), (path,)))
        return ()

    def _is_first_report(self, exc: BaseException) -> bool:
        """Return whether this exception was not reported before, and remember it."""
        if id(exc) in self._seen:
            return False
        self._seen.add(id(exc))
        self._exceptions.append(exc)
        return True

    def _forget_recompile(self, frame: Position) -> None:
        """Remove the last recompile of a frame, because the recompile limit prevented it."""
        for i in range(len(self._events) - 1, -1, -1):
            event = self._events[i]
            if isinstance(event, Recompile) and event.frame == frame:
                del self._events[i]
                return


def _break_in_progress() -> BaseException | None:
    """Return the graph break being handled, which torch 2.10 does not pass to the hook, or None."""
    exc = sys.exc_info()[1]
    return exc if exc is not None and hasattr(exc, "real_stack") else None


def _parse_exception(exc: BaseException | None, reason: str = "") -> GraphBreakText:
    """Parse the message of the root cause of `exc`; parse `reason` if that message is empty."""
    root = root_cause_of(exc)
    text = parse_graph_break(_message_of(root) or reason or str(exc))
    if root is exc or text.wrappers:
        return text
    outer = parse_graph_break(_message_of(exc))
    return dataclasses.replace(text, wrappers=(*outer.wrappers, outer.gb_type))


def _message_of(exc: BaseException | None) -> str:
    return getattr(exc, "msg", None) or getattr(exc, "message", None) or str(exc or "")


def _stack_of(txs: list[Tracer], exc: BaseException | None) -> tuple[Position, ...]:
    """Return the position of each tracer, or torch's own stack if that has more frames.

    If user code in an inlined call raises an exception, only the caller's tracer reports it.
    """
    stack = tuple(map(tx_position, txs))
    real = summary_positions(getattr(root_cause_of(exc), "real_stack", None))
    return real if len(real) > len(stack) else stack


def _compile_id_of(exc: BaseException) -> str:
    return str(getattr(exc, "compile_id", None) or "")


def _failed_stage(exc: BaseException) -> str:
    """Return the stage that raised: "dynamo", "backend" or "inductor"."""
    name = type(exc).__name__
    if "Inductor" in name or "Inductor" in type(getattr(exc, "inner_exception", exc)).__name__:
        return "inductor"
    if name == "BackendCompilerFailed":
        return "inductor" if getattr(exc, "backend_name", "") == "inductor" else "backend"
    return "dynamo"


def _error_name(exc: BaseException) -> str:
    """Return an exception's class name, with the class of the exception it wraps."""
    inner = getattr(exc, "inner_exception", None)
    return type(exc).__name__ if inner is None else f"{type(exc).__name__}: {type(inner).__name__}"


def _failure_stack(exc: BaseException) -> tuple[Position, ...]:
    """Return the user positions at which a compile failure was raised."""
    txs = running_tracers(None, exc)
    return tuple(map(tx_position, txs)) or summary_positions(getattr(exc, "real_stack", None))

"""The values that expressions have in eager, recorded while the user's code runs once."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from fullgraph.compiler.events import Position
from fullgraph.compiler.observe.instrumented_nodes import (
    InstrumentedNode,
    NodeUse,
    NotInstrumentable,
    condition_around,
    nodes_to_instrument,
    subexpressions,
)
from fullgraph.compiler.observe.value_copies import is_numpy, is_plain, signature, snapshot
from fullgraph.compiler.private import force_eager, shape_text
from fullgraph.compiler.sources import ORIGINAL, FunctionEdit, edit_functions

TEXTS = 16
"""Largest number of an expression's values that are described as text; all are counted."""
KEPT, ORDERED = 256, 10_000
"""Largest number of different values copied for an expression, and of evaluations recorded."""
WIDTH = 80
"""Largest number of characters in a value's text."""


@dataclass(frozen=True)
class ObservedExpression:
    """The values of one expression: how often it was evaluated, and the first ones as text."""

    position: Position
    expression: str
    count: int
    """Number of evaluations."""
    values: tuple[str, ...]
    """The first values as text for people, in order: "f32[3, 4]", "bool[] True", "7.25"."""
    sides: tuple[bool, ...] = ()
    """Truth values of a condition, in order; () for other expressions."""
    parts: tuple[ObservedExpression, ...] = ()
    """Values of its subexpressions."""

    @property
    def first(self) -> str | None:
        """The first value as text; None if it has none."""
        return next(iter(self.values), None)


@dataclass(frozen=True)
class Observations:
    """The expressions that `observe` recorded, and those that it could not record."""

    places: tuple[ObservedExpression, ...] = ()
    refused: tuple[tuple[Position, str], ...] = ()
    """(position, reason) for each expression that could not be recorded."""
    raised: str | None = None
    """The exception that ended the run early, as "ValueError: text"."""

    def at(self, position: Position) -> ObservedExpression | None:
        """Return the values recorded at one of `observe`'s places; None if there are none."""
        return next((p for p in self.places if p.position.span == position.span), None)


def observe(run: Callable[[], object], places: Iterable[Position]) -> Observations:
    """Run the user's code once, and return the values of the expressions at `places`.

    Evaluation order, results and exceptions stay those of the original code. An exception ends the
    run; it is not raised, but stored in `Observations.raised`.
    """
    recorder_set = ValueRecorder()
    watched: dict[Position, tuple[NodeRecorder, ...]] = {}
    refused: dict[Position, str] = {}
    for place in dict.fromkeys(places):
        try:
            watched[place] = recorder_set.watch(place)
        except NotInstrumentable as why:
            refused[place] = str(why)
    for place in watched:
        recorder_set.watch_inside(place)
    with edit_functions(recorder_set.edits()) as recoding:
        raised = run_without_compiling(run)
    reasons = {refusal.edit.at: refusal.reason for refusal in recoding.refused}
    for place, recorders in watched.items():
        if all(recorder.node.at in reasons for recorder in recorders):
            refused[place] = reasons[recorders[0].node.at]
    return Observations(
        tuple(recorder_set.observed(place) for place in watched if place not in refused),
        tuple(refused.items()),
        raised,
    )


def run_without_compiling(run: Callable[[], object]) -> str | None:
    """Call `run` with compilation disabled.

    Returns the exception that ended it, as "ValueError: text"; None if there was none.
    """
    try:
        with force_eager():
            run()
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return None


@dataclass(frozen=True, eq=False)
class Elements:
    """The elements that an iteration yielded, recorded in place of the iterable."""

    items: list[object]


@dataclass
class NodeRecorder:
    """Recorder of the values that one instrumented node has, in evaluation order.

    `texts` describes the first values, and `sides` holds the truth values of a condition. With
    `keep`, `kept` holds a copy of each different value; tensors differ by metadata, not by
    elements. `order` then holds one index into `kept` for each evaluation, and `seen` maps the
    signature of a value to its index.
    """

    node: InstrumentedNode
    keep: bool = False
    force: bool | None = None
    """For a condition: truth value to return at its first evaluation; None for its own."""
    count: int = 0
    dull: bool = True
    """Whether all values were Python modules, such as `torch` in `torch.sum(x)`."""
    plain: bool = True
    """Whether all values can be written as literals."""
    texts: list[str] = field(default_factory=list)
    sides: list[bool] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    full: bool = False
    """Whether values were left out, because there were more than `KEPT` or `ORDERED`."""
    seen: dict[object, int] = field(default_factory=dict)

    def observed(self) -> ObservedExpression:
        """Return the values recorded so far."""
        node = self.node
        return ObservedExpression(
            node.at, node.text, self.count, tuple(self.texts), tuple(self.sides)
        )

    def count_execution(self) -> None:
        """Count an execution of a node that is a statement and has no value."""
        self.count += 1

    def record_value(self, value: Any) -> Any:
        """Record a value and return it."""
        self.record_evaluation(value, value)
        return value

    def record_condition(self, value: Any) -> bool:
        """Record a condition; return its truth value, or `force` at the first evaluation."""
        side = bool(value)
        if self.force is not None and not self.count:
            side = self.force
        self.record_evaluation(value, side)
        self.sides.append(side)
        return side

    def record_operand(self, value: Any) -> Any:
        """Record an operand of `and` or `or`; return it, or `force` at the first evaluation."""
        if self.force is not None and not self.count:
            value = self.force
        self.record_evaluation(value, value)
        self.sides += [bool(value)] if isinstance(value, torch.Tensor | bool) else []
        return value

    def record_iteration(self, value: Any) -> Iterator[Any]:
        """Return an iterator over `value` that records the elements when they are consumed."""
        return _Iteration(self, value)

    def record_context(self, value: Any) -> _Context:
        """Return a wrapper of a context manager that records what its `__enter__` returns."""
        return _Context(self, value)

    def record_evaluation(self, shown: object, kept: object) -> None:
        """Count an evaluation; add a description of `shown` and, with `keep`, a copy of `kept`."""
        self.count += 1
        self.plain = self.plain and is_plain(shown)
        self.dull = self.dull and isinstance(shown, ModuleType)
        if len(self.texts) < TEXTS:
            self.texts.append(describe(shown))
        if self.keep:
            self._keep(kept)

    def _keep(self, value: object) -> None:
        """Copy a value to `kept`, unless one like it is there; add the index to `order`."""
        kind = signature(value)
        known = self.seen.get(kind)
        if known is None and len(self.kept) < KEPT:
            known = self.seen[kind] = len(self.kept)
            self.kept.append(snapshot(value))
        if known is None or len(self.order) >= ORDERED:
            self.full = True
        else:
            self.order.append(known)


class _Iteration:
    """Iterator over a recorded iterable; it gives its recorder a copy of each element."""

    def __init__(self, recorder: NodeRecorder, iterable: Any) -> None:
        self.recorder = recorder
        self.iterator = iter(iterable)
        self.items: list[object] = []
        recorder.record_evaluation(iterable, Elements(self.items))

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        item = next(self.iterator)
        if self.recorder.keep and len(self.items) < ORDERED:
            self.items.append(snapshot(item))
        return item


class _Context:
    """Wrapper of a context manager that records what its `__enter__` returns."""

    def __init__(self, recorder: NodeRecorder, manager: Any) -> None:
        self.recorder = recorder
        self.manager = manager

    def __enter__(self) -> Any:
        entered = type(self.manager).__enter__(self.manager)
        self.recorder.record_evaluation(self.manager, entered)
        return entered

    def __exit__(self, *raised: Any) -> Any:
        return type(self.manager).__exit__(self.manager, *raised)


@dataclass
class ValueRecorder:
    """The recorders of one eager run, by the position of the node that each one records."""

    recorders: dict[Position, NodeRecorder] = field(default_factory=dict)
    inner: dict[Position, tuple[NodeRecorder, ...]] = field(default_factory=dict)

    def watch(self, place: Position, *, keep: bool = False) -> tuple[NodeRecorder, ...]:
        """Return a recorder for each node to instrument at `place`.

        With `keep`, the recorders also copy the values. Raises NotInstrumentable.
        """
        found = tuple(
            self.recorders.setdefault(node.at, NodeRecorder(node))
            for node in nodes_to_instrument(place)
        )
        for recorder in found:
            recorder.keep |= keep
        return found

    def watch_condition(self, node: Position) -> NodeRecorder | None:
        """Return a recorder of the condition that contains a watched node; None if none does."""
        recorder = self.recorders[node]
        if recorder.node.use in (NodeUse.TRUTH, NodeUse.OPERAND):
            return recorder
        test = condition_around(node)
        if test is None:
            return None
        recorder = self.recorders.setdefault(test.at, NodeRecorder(test))
        recorder.keep = True
        return recorder

    def watch_inside(self, place: Position) -> None:
        """Record the subexpressions of a watched place, too. Call this after the last `watch`."""
        self.inner[place] = tuple(
            self.recorders.setdefault(node.at, NodeRecorder(node)) for node in subexpressions(place)
        )

    def observed(self, place: Position) -> ObservedExpression:
        """Return the values recorded at a place given to `watch`."""
        first, *others = self.watch(place)
        inside = dict.fromkeys(
            recorder.node.at for recorder in (*others, *self.inner.get(place, ()))
        )
        inside.pop(first.node.at, None)
        recorders = [self.recorders[at] for at in inside]
        within = [
            recorder.observed() for recorder in recorders if not (recorder.count and recorder.dull)
        ]
        return replace(first.observed(), position=place, parts=tuple(within))

    def edits(self) -> list[FunctionEdit]:
        """Return the function edits with which the code calls the recorders."""
        found = []
        for number, recorder in enumerate(self.recorders.values()):
            name = f"_fullgraph_recorder_{number}"
            names = "".join(f"{bound}, " for bound in recorder.node.names)
            text = {
                NodeUse.TRUTH: f"{name}.record_condition({ORIGINAL})",
                NodeUse.OPERAND: f"{name}.record_operand({ORIGINAL})",
                NodeUse.ITERATE: f"{name}.record_iteration({ORIGINAL})",
                NodeUse.ENTER: f"{name}.record_context({ORIGINAL})",
                NodeUse.BIND: f"{ORIGINAL}\n{name}.record_value(({names}))",
                NodeUse.STORE: f"{ORIGINAL}\n{name}.count_execution()",
            }.get(recorder.node.use, f"{name}.record_value({ORIGINAL})")
            found.append(FunctionEdit(recorder.node.at, text, {name: recorder}))
        return found


def describe(value: Any) -> str:
    """Return a value as text for people, of at most `WIDTH` characters."""
    try:
        text = _describe(value)
    except Exception:  # a __repr__ of the user's may raise anything
        text = type(value).__name__
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _describe(value: Any) -> str:
    """Return a value as text: its type and shape, or its content, of any length."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if is_numpy(value):
        shape = ", ".join(map(str, value.shape))
        return f"ndarray {value.dtype}[{shape}]" if shape else f"{value.dtype} {value}"
    if isinstance(value, torch.nn.Module):
        return f"{kind.__name__} (nn.Module)"
    if isinstance(value, type):
        return f"class {value.__name__}"
    if isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | MethodType):
        return f"{kind.__name__.split('_')[0]} {value.__name__}"
    if kind in (list, tuple, set, frozenset, dict) and value:
        inner = [describe(item) for item in itertools.islice(value, 64)]
        if kind is dict:
            return f"dict of {len(value)}: {', '.join(inner[:4])}{', …' * (len(value) > 4)}"
        if len(value) > 1 and not is_plain(next(iter(value))) and len(set(inner)) == 1:
            return f"{kind.__name__} of {len(value)} {inner[0]}"
        if any(not is_plain(item) for item in value):
            return f"{kind.__name__} of {', '.join(inner[:4])}{', …' * (len(value) > 4)}"
    return " ".join(reprlib.repr(value).split())


def _describe_tensor(value: torch.Tensor) -> str:
    """Return a tensor as text: dtype, shape, and the value of a scalar."""
    text = shape_text(value) or ""
    if value.layout is not torch.strided:
        text = f"{str(value.layout).removeprefix('torch.')} {text}"
    elif value.dim() == 0 and value.device.type != "meta":
        number = value.detach().item()
        text += f" {number:.6g}" if isinstance(number, float) else f" {number}"
    return text

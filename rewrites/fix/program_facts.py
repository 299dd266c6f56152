"""Facts of a program's expressions, from runs in eager, and the offers that rest on them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from types import FrameType
from typing import Any

from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import Term, ValueSummary
from fullgraph.compiler.isolation import Deadline, TimeUp, run_isolated, snapshot
from fullgraph.compiler.observe import FunctionValues, observe_functions
from fullgraph.compiler.private import force_eager
from fullgraph.compiler.program import Program
from fullgraph.compiler.sources import is_user_code
from fullgraph.rewrites.fix.edited_program import EditedProgram
from fullgraph.rewrites.fix.offers import Offers, places_to_observe, propose
from fullgraph.rewrites.proof import copy_calls, override_program, resize_calls, run_proof_job
from fullgraph.rewrites.rule import Rule

RESIZED_SECONDS = 3.0
"""CPU time after which no further run on inputs of other sizes begins."""


class ProgramFacts:
    """Facts of a run in eager; runs on inputs of other sizes follow when a rule asks for them."""

    def __init__(
        self, values: FunctionValues, observe_sizes: Callable[[], tuple[FunctionValues, ...]]
    ) -> None:
        """`observe_sizes` makes the runs on inputs of other sizes."""
        self._values = values
        self._observe_sizes = observe_sizes

    def at(self, position: Position) -> ValueSummary | None:
        """Return the values of the expression at `position`; None if none were recorded."""
        return self._values.at(position)

    def at_other_sizes(self, position: Position) -> tuple[ValueSummary | None, ...]:
        """Return the values of the expression in each run on inputs of other sizes."""
        return tuple(run.at(position) for run in self._resized)

    def evaluate(self, term: Term) -> ValueSummary | None:
        """Return the facts of a term; None if they are unknown."""
        return self._values.evaluate(term)

    @cached_property
    def _resized(self) -> tuple[FunctionValues, ...]:
        return self._observe_sizes()


def facts_of_program(
    program: Program, places: Collection[Position], deadline: Deadline
) -> ProgramFacts:
    """Run the program once in eager, in isolation; return the facts at `places`.

    A later run on inputs of other sizes is isolated too. Both end with `deadline` at the latest.
    """

    def observe_sizes() -> tuple[FunctionValues, ...]:
        outcome = run_isolated(
            lambda emit: observe_resized(program, places),
            objects=program.objects(),
            seconds=deadline.left(),
        )
        return outcome.value or ()

    return ProgramFacts(observe_program(program, places, deadline), observe_sizes)


def observe_program(
    program: Program, places: Collection[Position], deadline: Deadline | None = None
) -> FunctionValues:
    """Run the program once in eager, in isolation; return the values at `places`.

    There are no values if the run fails or does not end before `deadline`.
    """
    outcome = run_isolated(
        lambda emit: observe_functions(lambda: program.run(program.target), tuple(places)),
        objects=program.objects(),
        seconds=deadline.left() if deadline is not None else None,
    )
    return outcome.value or FunctionValues()


def observe_resized(program: Program, places: Collection[Position]) -> tuple[FunctionValues, ...]:
    """Run the first call on inputs of other sizes; return the values at `places` in each run.

    A run on sizes that the program does not accept ends where it raises. Call this in isolation.
    """
    found: list[FunctionValues] = []
    before = snapshot(program.objects())
    start = time.thread_time()
    for calls in resize_calls(program.calls):
        other = replace(program, calls=calls, loss=None, eager_calls=0)
        found.append(observe_functions(lambda: other.run(other.target), tuple(places)))  # noqa: B023
        before.restore()
        if time.thread_time() - start > RESIZED_SECONDS:
            break
    return tuple(found)


def changes_when_repeated(program: Program, deadline: Deadline) -> bool:
    """Return whether a first call in eager runs instructions that a second equal one does not.

    A call that makes a value for later calls does. Raises `TimeUp` if the two calls do not end
    before `deadline`.
    """

    def run_twice() -> bool:
        ran: list[set[tuple[str, int, int]]] = []

        def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
            """Note the instructions of the user's code that run."""
            code = frame.f_code
            if not is_user_code(code.co_filename):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            ran[-1].add((code.co_filename, code.co_firstlineno, frame.f_lasti))
            return trace

        known = sys.gettrace()
        for _ in range(2):
            ran.append(set())
            once = replace(program, calls=copy_calls(program.calls[:1]), loss=None, eager_calls=0)
            with force_eager():
                sys.settrace(trace)
                try:
                    once.run(once.target)
                finally:
                    sys.settrace(known)
        return bool(ran[0] - ran[1])

    outcome = run_proof_job(program, deadline, run_twice)
    return outcome.value is not False  # a program that raises may do otherwise when it is warm


def propose_with_facts(
    program: Program, edited: EditedProgram, rules: Sequence[Rule], deadline: Deadline
) -> list[Offers]:
    """Run `edited` once in eager to record facts; return the rules' offers for its causes.

    Raises `TimeUp` where the time is up before all facts are known and all rules have answered.
    """
    causes = [c for c in edited.explanation.causes if is_user_code(c.position.file)]
    places = tuple(places_to_observe(causes))
    if deadline.is_over:
        raise TimeUp
    with override_program(program.target, edited.texts):
        facts = facts_of_program(program, places, deadline)
        offers = propose(causes, facts, rules, program.position, deadline)
    if deadline.is_over:
        raise TimeUp
    return offers

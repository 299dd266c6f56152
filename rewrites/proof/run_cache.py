"""What runs of one program answered, so that none is repeated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import JobOutcome
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.conditions import Tape
from fullgraph.rewrites.proof.proof import ProofInput

T = TypeVar("T")
Side = tuple[Position, bool]
"""A condition, and a value of it."""


@dataclass
class RecordedRun:
    """Behaviours of a program on some inputs."""

    behaviours: dict[ProofInput, Behaviour] = field(default_factory=dict)
    values: dict[ProofInput, tuple[tuple[bool, ...], ...]] = field(default_factory=dict)
    """The values that each condition had, in order."""
    exits: frozenset[int] = frozenset()
    """The conditions that end a loop, by their index."""
    found: dict[Side, bytes | None] = field(default_factory=dict)
    """What a search found (`ProofInput.found`); None if it found nothing."""

    def add(self, case: ProofInput, behaviour: Behaviour, tapes: Sequence[Tape]) -> None:
        """Add a run, and the values that conditions had in it."""
        self.behaviours[case] = behaviour
        self.values[case] = tuple(tape.values for tape in tapes)

    def values_of(
        self,
        index: int,
        cases: Iterable[ProofInput] | None = None,
        others: Sequence[tuple[bool, ...]] = (),
    ) -> set[bool]:
        """Return the values that a condition had on `cases`, by default on all, and on `others`.

        Of one that ends a loop, the value in its last round counts only if that round was not the
        last of the longest run: to end the loop then is to do what the loop does anyway.
        """
        some = [self.values[case][index] for case in (self.values if cases is None else cases)]
        some += others
        if index in self.exits and (longest := max(map(len, some), default=0)) > 1:
            some = [values if len(values) < longest else values[:-1] for values in some]
        return {value for values in some for value in values}


Outcome = JobOutcome[RecordedRun]


class RunCache:
    """Answers of runs of one program, by question; a run that failed or raised is not kept.

    A question names everything that its answer depends on beside the program: texts, inputs,
    backend, settings of the compiler.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}
        self._eager: dict[Hashable, dict[ProofInput, Behaviour]] = {}
        self._found: dict[Hashable, dict[Side, bytes | None]] = {}

    def ask(self, question: Hashable, run: Callable[[], T]) -> T:
        """Return the known answer to `question`; call `run` if there is none, and keep it."""
        if question not in self._answers:
            self._answers[question] = run()
        answer: T = self._answers[question]
        return answer

    def explore(
        self,
        texts: Mapping[str, str],
        tests: Sequence[Position],
        options: tuple[bool, ...],
        run: Callable[[Mapping[Side, bytes | None]], Outcome],
    ) -> Outcome:
        """Return the recorded exploration of input variants; call `run` if there is none.

        `run` gets what earlier explorations of these texts found.
        """
        texts_key = key_of(texts)
        known = self._found.setdefault(texts_key, {})
        key = ("explore", texts_key, tuple(tests), options)
        outcome = self._ask_run(key, lambda: run(known))
        if outcome.value is not None:
            known |= outcome.value.found
        return outcome

    def run_eager(
        self,
        texts: Mapping[str, str],
        cases: Sequence[ProofInput],
        special: bool,
        run: Callable[[Sequence[ProofInput]], Outcome],
    ) -> Outcome:
        """Return the behaviours in eager; call `run` with the `cases` that are not recorded."""
        known = self._eager.setdefault((key_of(texts), special), {})
        outcome: Outcome = JobOutcome("ok", "process", 0.0)
        if unknown := [case for case in cases if case not in known]:
            outcome = run(unknown)
            if outcome.value is None:
                return outcome
            known |= outcome.value.behaviours
        return replace(outcome, value=RecordedRun({case: known[case] for case in cases}))

    def run_compiled(
        self,
        texts: Mapping[str, str],
        cases: Sequence[ProofInput],
        special: bool,
        backend: str,
        run: Callable[[], Outcome],
    ) -> Outcome:
        """Return the recorded compiled run on exactly `cases`; call `run` if there is none."""
        return self._ask_run((backend, key_of(texts), tuple(cases), special), run)

    def _ask_run(self, question: Hashable, run: Callable[[], Outcome]) -> Outcome:
        outcome = self.ask(question, run)
        if outcome.value is None:
            del self._answers[question]
        return outcome


def key_of(texts: Mapping[str, str]) -> Hashable:
    """Return edited texts by file as a part of a question."""
    return tuple(sorted(texts.items()))

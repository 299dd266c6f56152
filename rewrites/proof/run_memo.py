"""Recorded runs of one program, so that no later proof repeats them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import JobOutcome
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.conditions import Tape
from fullgraph.rewrites.proof.proof import ProofInput

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


class RunMemo:
    """Recorded runs by texts, inputs and backend; a run that failed is not kept.

    The configuration of the compiler must be the same for all of them.
    """

    def __init__(self) -> None:
        self._whole: dict[Hashable, Outcome] = {}
        self._eager: dict[Hashable, dict[ProofInput, Behaviour]] = {}
        self._found: dict[Hashable, dict[Side, bytes | None]] = {}

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
        texts_key = frozenset(texts.items())
        known = self._found.setdefault(texts_key, {})
        key = ("explore", texts_key, tuple(tests), options)
        outcome = self._remember(key, lambda: run(known))
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
        known = self._eager.setdefault((frozenset(texts.items()), special), {})
        outcome: Outcome = JobOutcome("ok", "process", 0.0)
        if unknown := [case for case in cases if case not in known]:
            outcome = run(unknown)
            if outcome.value is None:
                return outcome
            known |= outcome.value.behaviours
        return JobOutcome(
            "ok",
            outcome.where,
            outcome.seconds,
            value=RecordedRun({case: known[case] for case in cases}),
        )

    def run_compiled(
        self,
        texts: Mapping[str, str],
        cases: Sequence[ProofInput],
        special: bool,
        backend: str,
        run: Callable[[], Outcome],
    ) -> Outcome:
        """Return the recorded compiled run on exactly `cases`; call `run` if there is none."""
        return self._remember((backend, frozenset(texts.items()), tuple(cases), special), run)

    def _remember(self, key: Hashable, run: Callable[[], Outcome]) -> Outcome:
        if key in self._whole:
            return self._whole[key]
        outcome = run()
        if outcome.value is not None:
            self._whole[key] = outcome
        return outcome

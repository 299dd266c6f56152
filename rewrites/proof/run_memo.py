"""Recorded runs of one program, so that no later proof repeats them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from fullgraph.compiler.events import Position
from fullgraph.compiler.isolation import JobOutcome
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.comparison import ProofInput


@dataclass
class RecordedRun:
    """Behaviours of a program on some inputs."""

    behaviours: dict[ProofInput, Behaviour] = field(default_factory=dict)
    sides: dict[int, set[bool]] = field(default_factory=dict)
    """The values that each condition had, by its index."""


Outcome = JobOutcome[RecordedRun]


class RunMemo:
    """Recorded runs by texts, inputs and backend; a run that failed is not kept.

    The configuration of the compiler must be the same for all of them.
    """

    def __init__(self) -> None:
        self._whole: dict[Hashable, Outcome] = {}
        self._eager: dict[Hashable, dict[ProofInput, Behaviour]] = {}

    def explore(
        self,
        texts: Mapping[str, str],
        tests: Sequence[Position],
        options: tuple[bool, ...],
        run: Callable[[], Outcome],
    ) -> Outcome:
        """Return the recorded exploration of input variants; call `run` if there is none."""
        key = ("explore", frozenset(texts.items()), tuple(tests), options)
        return self._remember(key, run)

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

"""Proof of a rewrite, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ProofState(StrEnum):
    """Result of a proof."""

    PROVED = "proved"
    ONE_SIDE = "one side seen"
    """All checks passed, but a side of some condition was neither seen nor forced."""
    FAILED = "failed"
    NOT_RUN = "not run"
    TIME_UP = "time was up"
    """The time limit passed before all checks had run: nothing is known of the others."""


@dataclass(frozen=True)
class Check:
    """Comparison of one aspect of the two programs, such as outputs or printed text."""

    name: str
    """"outputs", "gradients", "state", "exceptions", "text", "random numbers", "default mode",
    "fullgraph", "inductor"."""
    ok: bool
    detail: str = ""
    """One sentence: what was compared, or how it differs."""
    assumes: tuple[str, ...] = ()
    """Assumptions under which the check passes, one clause each."""
    raised: str = ""
    """The exception of a compiled run, with all that it says; "" if there is none."""


def clauses_of(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return what checks assume, each clause once."""
    return tuple(dict.fromkeys(clause for check in checks for clause in check.assumes))


@dataclass(frozen=True)
class ProofInput:
    """One input of a proof: the number of the input variant, and whether a backward runs."""

    number: int
    backward: bool
    perturbed: bool = False
    """Whether each number of the inputs is replaced by the next representable one."""
    buffers: tuple[float, float] | None = None
    """Factor and summand that change the module's floating-point buffers before the run."""
    again: bool = False
    """Whether the calls run again, on inputs of twice the batch size."""
    found: bytes = b""
    """Inputs, and parameters, that a search found to reach a branch (`reach.pack`)."""
    wider: bool = False
    """Whether it is the call of this number of `wider_calls`, and no input variant."""

    @property
    def is_given(self) -> bool:
        """Whether this is the user's own input and state."""
        changed = self.number or self.perturbed or self.again or self.found or self.wider
        return not changed and self.buffers is None

    def __str__(self) -> str:
        given = "the given inputs"
        if self.buffers is not None:
            factor, summand = self.buffers
            given = f"the given inputs, with each buffer b as {factor:g} * b + {summand:g}"
        which = f"derived inputs, number {self.number}" if self.number else given
        if self.found:
            which = "inputs found by a search"
        if self.wider:
            which = "inputs of another kind"
        return f"{which}, with a backward" if self.backward else which


class Seen(StrEnum):
    """How a proof knows one side of a condition."""

    SEEN = "seen"
    """Some input took it."""
    REACHED = "reached"
    """An input that a search found took it."""
    FORCED = "forced"
    """No input took it; with the condition forced, the two programs behave alike."""
    DIFFERS = "differs"
    """No input took it; with the condition forced, they do not."""
    UNSEEN = "unseen"
    """No input took it, and it could not be forced."""


@dataclass(frozen=True)
class Branches:
    """A condition that an edit touches, and how the proof knows its two sides."""

    condition: str
    true: Seen = Seen.UNSEEN
    false: Seen = Seen.UNSEEN
    difference: str = ""
    """How the programs differ on a side that was forced; "" if they do not."""

    @property
    def missing(self) -> list[bool]:
        """The sides that are neither seen nor forced to the same result."""
        return [side for side, how in self._sides if how in (Seen.DIFFERS, Seen.UNSEEN)]

    @property
    def are_known(self) -> bool:
        """Whether both sides were seen, or forced to the same result."""
        return not self.missing

    def __str__(self) -> str:
        taken = Seen.SEEN, Seen.REACHED
        seen = [str(side).lower() for side, how in self._sides if how in taken]
        forced = [str(side).lower() for side, how in self._sides if how is Seen.FORCED]
        text = f"`{self.condition}` was {' and '.join(seen) or 'never evaluated'}"
        if not self.are_known:
            text += " on every input tried"
        text += f", and forced to be {' and '.join(forced)}" if forced else ""
        return f"{text}; forced to be otherwise, {self.difference}" if self.difference else text

    @property
    def _sides(self) -> tuple[tuple[bool, Seen], ...]:
        return (True, self.true), (False, self.false)


@dataclass(frozen=True)
class Proof:
    """Checks of a rewrite, and the inputs they ran on."""

    state: ProofState
    checks: tuple[Check, ...] = ()
    inputs: int = 0
    """Number of inputs, the user's own included."""
    branches: tuple[Branches, ...] = ()
    """Each condition that the edit touches, in the order of `Rewrite.tests`."""
    assumes: tuple[str, ...] = ()
    """Assumptions under which the checks pass; an edit that needs one is not safe."""

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return self.state in (ProofState.PROVED, ProofState.ONE_SIDE)

    @property
    def whole(self) -> bool:
        """Whether both branches of every condition ran or were forced, and nothing is assumed."""
        return self.state is ProofState.PROVED and not self.assumes

    @property
    def reason(self) -> str:
        """Why the proof failed, or which branch did not run; "" if proved."""
        failed = [check.detail or check.name for check in self.checks if not check.ok]
        if failed:
            return failed[0]
        return "; ".join(str(one) for one in self.branches if not one.are_known)

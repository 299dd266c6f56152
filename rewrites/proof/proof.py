"""Proof of a rewrite, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProofState(StrEnum):
    """Result of a proof."""

    PROVED = "proved"
    ONE_SIDE = "one side seen"
    """All checks passed, but some condition had the same value on every input."""
    FAILED = "failed"
    NOT_RUN = "not run"


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


@dataclass(frozen=True)
class Proof:
    """Checks of a rewrite, and the inputs they ran on."""

    state: ProofState
    checks: tuple[Check, ...] = ()
    inputs: int = 0
    """Number of inputs, the user's own included."""
    sides: tuple[tuple[str, str], ...] = ()
    """Each condition, and its values on all inputs: "both", "true", "false", "never evaluated"."""
    assumes: tuple[str, ...] = ()
    """Assumptions under which the checks pass; an edit that needs one is not safe."""

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return self.state in (ProofState.PROVED, ProofState.ONE_SIDE)

    @property
    def whole(self) -> bool:
        """Whether both branches of every condition ran, and nothing had to be assumed."""
        return self.state is ProofState.PROVED and not self.assumes

    @property
    def reason(self) -> str:
        """Why the proof failed, or which branch did not run; "" if proved."""
        failed = [check.detail or check.name for check in self.checks if not check.ok]
        if failed:
            return failed[0]
        unseen = [f"`{test}` was {seen}" for test, seen in self.sides if seen != "both"]
        return f"{'; '.join(unseen)} on every input tried" if unseen else ""

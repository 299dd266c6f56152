"""What was shown about rewritten code: one plain value, and the questions it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProofState(StrEnum):
    PROVED = "proved"
    ONE_SIDE = "one side seen"
    """All held, but some test of the code went the same way on every input that was tried."""
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Check:
    """One question: are the outputs equal, is the text the same …"""

    name: str
    """"outputs", "gradients", "state", "exceptions", "text", "random numbers", "default mode",
    "fullgraph", "inductor"."""
    ok: bool
    detail: str = ""
    """One sentence: what was compared, or how it differs."""
    assumes: tuple[str, ...] = ()
    """What must be granted for it to hold, one clause each."""


@dataclass(frozen=True)
class Proof:
    """How a rewrite fared."""

    state: ProofState
    checks: tuple[Check, ...] = ()
    inputs: int = 0
    """How many inputs were tried, the user's own included."""
    sides: tuple[tuple[str, str], ...] = ()
    """For each test, its text and the sides seen: "both", "true", "false", "never"."""
    assumes: tuple[str, ...] = ()
    """What must be granted for the checks to hold: an edit that needs it is not safe."""

    @property
    def holds(self) -> bool:
        """Whether nothing that was tried speaks against the rewrite."""
        return self.state in (ProofState.PROVED, ProofState.ONE_SIDE)

    @property
    def whole(self) -> bool:
        """Whether all was seen, and nothing need be granted."""
        return self.state is ProofState.PROVED and not self.assumes

    @property
    def reason(self) -> str:
        """Why it failed, or which side was not seen; "" for a proof."""
        failed = [check.detail or check.name for check in self.checks if not check.ok]
        if failed:
            return failed[0]
        unseen = [f"`{test}` was {seen}" for test, seen in self.sides if seen != "both"]
        return f"{'; '.join(unseen)} on every input tried" if unseen else ""

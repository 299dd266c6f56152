"""Ideas that are settings of the compiler, tried: the program as it is, compiled with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fullgraph.compiler.private import patch_config
from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.proof.proof import Check, Proof, State


@dataclass(frozen=True)
class Switched:
    """What a program is under some settings."""

    explanation: Explanation | None
    proof: Proof

    def mends(self, check: Callable[[Explanation], Check]) -> Proof:
        """The proof that the settings take a cause away, which `check` looks for."""
        if self.explanation is None:
            return self.proof
        found = check(self.explanation)
        state = self.proof.state if found.ok else State.FAILED
        return Proof(state, (*self.proof.checks, found), self.proof.inputs)


def switched(
    settings: Mapping[str, object],
    explained: Callable[[], Explanation],
    proved: Callable[[], Proof],
) -> Switched:
    """Explain and prove a program again under `settings`, which are put back."""
    try:
        with patch_config(settings):
            return Switched(explained(), proved())
    except AttributeError:
        names = ", ".join(settings)
        check = Check("setting", False, f"this torch has no setting {names}")
        return Switched(None, Proof(State.FAILED, (check,)))

"""Settings that make a program recompile less, each tried on the calls of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from fullgraph.compiler.program import Program
from fullgraph.diagnose.explanation import Explanation
from fullgraph.rewrites.fix.config_ideas import Config
from fullgraph.rewrites.proof import Check

_INT_ATTRIBUTES = "torch._dynamo.config.allow_unspec_int_on_nn_module"


@dataclass(frozen=True)
class CompileSetting:
    """Arguments of `torch.compile` and configuration of Dynamo."""

    dynamic: bool | None = None
    config: Config = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the code that sets it."""
        lines = [f"{name} = {value!r}" for name, value in self.config.items()]
        if self.dynamic is not None:
            lines.append(f"torch.compile(model, dynamic={self.dynamic})")
        return "; ".join(lines)

    def of(self, program: Program) -> Program:
        """Return `program` compiled with this setting; its configuration is the caller's."""
        return program if self.dynamic is None else replace(program, dynamic=self.dynamic)


@dataclass(frozen=True)
class RecompileSetting:
    """The setting that left the fewest recompiles, and the check of a run with Inductor."""

    setting: CompileSetting
    before: int
    """Recompiles over the user's calls without the setting."""
    after: int
    check: Check


def count_recompiles(explanation: Explanation) -> int:
    """Return the number of recompiles over all calls."""
    return sum(recompile.count for recompile in explanation.recompiles)


def find_recompile_setting(
    explanation: Explanation,
    program: Program,
    explain: Callable[[CompileSetting], Explanation],
    verify: Callable[[CompileSetting], Check],
    is_late: Callable[[], bool],
) -> RecompileSetting | None:
    """Return the shortest setting that leaves the fewest recompiles and no new cause.

    `verify` runs the program with it under Inductor. None if no setting helps.
    """
    before = count_recompiles(explanation)
    best: tuple[int, CompileSetting] | None = None
    for setting in _candidates(explanation, program):
        if is_late() or (best is not None and best[0] == 0):
            break
        try:
            found = explain(setting)
        except AttributeError:  # a setting that this torch does not have
            continue
        worse = found.error or found.crashes or len(found.causes) > len(explanation.causes)
        if not worse and count_recompiles(found) < (before if best is None else best[0]):
            best = count_recompiles(found), setting
    if best is None:
        return None
    return RecompileSetting(best[1], before, best[0], verify(best[1]))


def _candidates(explanation: Explanation, program: Program) -> Iterator[CompileSetting]:
    """Yield settings that may help against the guards that failed, the shortest first."""
    guards = [guard for recompile in explanation.recompiles for guard in recompile.guards]
    integers = any(guard.startswith("self.") and " == " in guard for guard in guards)
    config = {_INT_ATTRIBUTES: True} if integers else {}
    if program.dynamic is None and guards:
        yield CompileSetting(True)
    if config:
        yield CompileSetting(None, config)
        if program.dynamic is None:
            yield CompileSetting(True, config)

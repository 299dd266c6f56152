"""Checks of a proof on other kinds of inputs: each tells what must be assumed of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.comparison import FINITE_ORIGINAL
from fullgraph.rewrites.proof.compiled_runs import CachedRuns
from fullgraph.rewrites.proof.proof import Check, ProofInput, clauses_of
from fullgraph.rewrites.proof.run_cache import RecordedRun
from fullgraph.rewrites.proof.wider import LIKE_GIVEN, REFUSED, WiderCalls

RAISING = 3
"""How many calls that raise after a change run compiled, each with another error."""
_DIGITS = re.compile(r"\d+")
NOTHING_LEFT = "nobody needs what a call has changed before it raises an error"
SEEN_BEFORE = frozenset({"raised", "outputs", "gradients", "records"})
"""What other checks compare of a call that raises; `check_left` asks what it has changed."""


def wider_cases(calls: Sequence[WiderCalls]) -> list[ProofInput]:
    """Return the inputs of a proof that are these calls."""
    return [ProofInput(number, False, wider=True) for number, _ in enumerate(calls)]


def check_wider(
    tried: Sequence[WiderCalls],
    runs: Sequence[RecordedRun | None],
    ran: tuple[Mapping[ProofInput, Behaviour], Mapping[ProofInput, Behaviour]],
    compare: Callable[..., list[Check]],
    granted: frozenset[str],
) -> Check:
    """Return what must be assumed of inputs: those of the kinds `tried` on which the edit differs.

    `runs` are those of the original and of the new code on them, and `ran` what both did on inputs
    of the given kind, where they agree under the clauses `granted`. What an operator of the
    original refuses, one of the edit must, too.
    """
    title, cases = "other kinds of inputs", wider_cases(tried)
    old, new = runs
    if old is None or new is None:
        return Check(title, True, assumes=(LIKE_GIVEN,))
    before = old.behaviours
    cases = [c for c in cases if not (tried[c.number].may_accept and before[c].raised is not None)]
    refused = [case for case in cases if before[case].crashed]
    accepted = [case for case in cases if case not in refused]
    is_lax = any(new.behaviours[case].raised is None for case in refused)

    def holds(some: Collection[ProofInput]) -> bool:
        more = ({case: run.behaviours[case] for case in some} for run in (old, new))
        checks = compare(*({**known, **wide} for known, wide in zip(ran, more, strict=True)))
        return all(check.ok for check in checks) and granted.issuperset(clauses_of(checks))

    differing = [] if holds(accepted) else [case for case in accepted if not holds([case])]
    assumes = [tried[case.number].assumes for case in differing] + [REFUSED] * is_lax
    return Check(title, True, assumes=tuple(assumes))


def check_left(
    runs: CachedRuns,
    versions: tuple[Mapping[str, str], Mapping[str, str]],
    wider: RecordedRun | None,
    compare: Callable[..., list[Check]],
) -> Check:
    """Return what must be assumed of a call that raises after it has changed something.

    Compiled, a graph that raises leaves no trace; what runs between graphs does. `versions` are the
    texts of the original and those of the new code, `wider` what the original does in eager.
    """
    title = "what a call that raises has changed"
    known = wider.behaviours if wider is not None else {}
    first: dict[str, ProofInput] = {}
    for case, one in known.items():
        if one.left:
            first.setdefault(_DIGITS.sub("", str(one.raised)), case)
    some = [*first.values()][:RAISING]

    def losing(texts: Mapping[str, str]) -> set[tuple[ProofInput, str]]:
        """Return what the compiled program does not leave as eager does, by call and aspect."""
        done = runs.compiled(texts, some, "eager").value
        ran = done.behaviours if done is not None else {}
        return {
            (case, check.name)
            for case in some
            for check in compare({case: known[case]}, ran)
            if not check.ok or FINITE_ORIGINAL in check.assumes
        }

    lost = losing(versions[1]) - losing(versions[0]) if some else ()
    return Check(title, True, assumes=(NOTHING_LEFT,) if lost else ())

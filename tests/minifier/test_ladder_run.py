"""The ladder with a sandbox that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest
import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import RUNGS
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome
from fullgraph.minifier.oracle.candidate import Candidate, Report
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.rungs.ladder_run import run_ladder
from tests.minifier.fake_oracle import Judge


def test_a_child_that_ends_outside_a_rung_is_no_healthy_program() -> None:
    report = Report((RungOutcome(EAGER, None, 0.0),), "It could not be tried: two devices.")
    case = Case(torch.sin, (torch.ones(3),), {})
    with pytest.raises(FullgraphError, match="two devices"):
        run_ladder(case, RUNGS, Oracle(Judge(lambda _: report)))


class Rungs(Judge):
    """A sandbox that asks `outcome` for each rung of a candidate."""

    def __init__(self, outcome: Callable[[Candidate, str], RungOutcome]) -> None:
        super().__init__(lambda _: Report(()))
        self._outcome = outcome

    def begin(self, candidate: Candidate) -> Future[Report]:
        found: Future[Report] = Future()
        names = [EAGER, *(rung.name for rung in candidate.rungs)]
        ends: list[RungOutcome] = []
        for name in names:
            ends.append(self._outcome(candidate, name))
            if ends[-1].unfinished:
                break
        found.set_result(Report(tuple(ends)))
        return found


CASE = Case(torch.sin, (torch.ones(3),), {})


def test_a_healthy_program_runs_again_and_is_told_how_often() -> None:
    found = run_ladder(CASE, RUNGS, Oracle(Rungs(lambda _, name: RungOutcome(name, None, 0.0))))
    assert found.refused == (
        "Nothing fails: every rung gives what eager gives, in 5 runs of "
        "aot_eager_decomp_partition and 3 runs of inductor."
    )


def test_a_failure_in_one_run_of_three_is_found() -> None:
    def outcome(candidate: Candidate, name: str) -> RungOutcome:
        fails = name == "inductor" and candidate.attempt == 3
        failure = Failure(name, Kind.RESULT, ("value",), "expected 1, got 2") if fails else None
        return RungOutcome(name, failure, 0.0)

    found = run_ladder(CASE, RUNGS, Oracle(Rungs(outcome)))
    assert found.failure is None and found.refused is not None
    assert "only sometimes: result at inductor: expected 1, got 2, in 1 of 3 runs" in found.refused


@pytest.mark.parametrize("stays_busy", [False, True])
def test_a_limit_on_a_busy_machine_is_no_hang(stays_busy: bool) -> None:
    def outcome(candidate: Candidate, name: str) -> RungOutcome:
        is_busy = name == "inductor" and (stays_busy or not candidate.alone)
        clause = "it did not end within 9 s on a machine that was busy" if is_busy else ""
        return RungOutcome(name, None, 9.0, unfinished=clause)

    found = run_ladder(CASE, RUNGS, Oracle(Rungs(outcome)))
    assert found.failure is None
    assert found.healthy is not stays_busy
    rows = dict(found.table())
    if stays_busy:
        assert rows["inductor"].startswith("not finished: it did not end within 9 s")
        assert found.to_dict()["rungs"]["inductor"] is None
        assert found.refused is not None and "Nothing is known to fail, but" in found.refused
    else:
        assert rows["inductor"] == "ok"

"""The ladder with a sandbox that answers at once."""

from __future__ import annotations

import pytest
import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import RUNGS
from fullgraph.minifier.oracle.attempt import EAGER, RungOutcome
from fullgraph.minifier.oracle.candidate import Report
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.oracle import Oracle
from fullgraph.minifier.rungs.ladder_run import run_ladder
from tests.minifier.fake_oracle import Judge


def test_a_child_that_ends_outside_a_rung_is_no_healthy_program() -> None:
    report = Report((RungOutcome(EAGER, None, 0.0),), "It could not be tried: two devices.")
    case = Case(torch.sin, (torch.ones(3),), {})
    with pytest.raises(FullgraphError, match="two devices"):
        run_ladder(case, RUNGS, Oracle(Judge(lambda _: report)))

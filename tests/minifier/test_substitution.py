"""The stage that the verdicts on substitutions name."""

import pytest

from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.rungs.substitution import name_stage

PASSES, SAME, OTHER = Verdict.PASSES, Verdict.SAME, Verdict.OTHER


@pytest.mark.parametrize(
    "verdicts, beside, stage",
    [
        ((), True, ""),
        ((OTHER, OTHER, OTHER), True, ""),
        (
            (SAME, OTHER, PASSES),
            True,
            "Inductor's code generation (with ours it passes; with our decompositions it fails)",
        ),
        (
            (PASSES, OTHER, PASSES),
            False,
            "Inductor's decompositions or code generation (with any of ours it passes)",
        ),
        (
            (SAME, SAME, SAME),
            True,
            "Inductor's graph passes, by elimination (with our decompositions or partitioner "
            "or code generation it fails; on loops it passes)",
        ),
        (
            (SAME, SAME),
            True,
            "not found by substitution (with our decompositions or partitioner it fails)",
        ),
        (
            (SAME, OTHER, SAME),
            True,
            "not found by substitution (with our decompositions or code generation it fails)",
        ),
    ],
)
def test_the_stage_is_the_one_without_which_it_passes(verdicts, beside, stage):
    stages = ("decompositions", "partitioner", "code generation")
    assert name_stage(dict(zip(stages, verdicts, strict=False)), beside) == stage

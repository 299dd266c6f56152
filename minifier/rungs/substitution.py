"""Run our own backend beside the ladder, and its stages in the place of Inductor's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fullgraph.compiler.ladder import Rung, find_side_rung
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.candidate import Candidate, Verdict
from fullgraph.minifier.oracle.case import Case
from fullgraph.minifier.oracle.oracle import Oracle


def run_beside(case: Case, rung: Rung, oracle: Oracle) -> Mapping[str, RungOutcome]:
    """Run a program that fails on `rung` on the side rung, too; return the outcome by its name.

    {} if the side rung replaces no stage of `rung`, if it cannot be run, or if a graph break, a
    recompile or slowness is looked for.
    """
    from fullgraph.compiler.lowering.substitution import STAGES

    side = find_side_rung() if rung.backend in STAGES and case.wanted is None else None
    if side is None:
        return {}
    report = oracle.report(Candidate("program", case, (side,))).result()
    ends = () if report.broken else report.ends
    return {end.rung: end for end in ends if end.rung == side.name}


def substitute_stages(candidate: Candidate, oracle: Oracle) -> Mapping[str, Verdict]:
    """Return the verdict on a failing candidate with each stage replaced by ours, by stage.

    The stages are those of its last rung above AOTAutograd; {} if it has none, or if there is no
    C++ compiler.
    """
    from fullgraph.compiler.lowering.substitution import STAGES, SubstitutedBackend

    (rung,) = candidate.rungs[-1:]
    if not isinstance(rung.backend, str) or rung.backend not in STAGES or find_side_rung() is None:
        return {}
    reports = {
        stage: oracle.report(
            replace(
                candidate,
                name=f"{candidate.name} with our {stage}",
                rungs=(replace(rung, backend=SubstitutedBackend(rung.backend, stage)),),
            )
        )
        for stage in STAGES[rung.backend]
    }
    return {stage: each.result().verdict(oracle.expected) for stage, each in reports.items()}


def name_stage(verdicts: Mapping[str, Verdict], passes_beside: bool) -> str:
    """Return the stage that is wrong, by the verdicts on its substitutions; "" if there are none.

    "Inductor's code generation (with ours it passes; with our partitioner it fails)". A program
    that fails with each of ours and passes on `loops` leaves Inductor's passes over the graph.
    """
    passing = [stage for stage, verdict in verdicts.items() if verdict is Verdict.PASSES]
    failing = [stage for stage, verdict in verdicts.items() if verdict is Verdict.SAME]
    told = f"with our {' or '.join(failing)} it fails"
    if passing:
        which = "ours" if len(passing) == 1 else "any of ours"
        also = f"; {told}" if failing else ""
        return f"Inductor's {' or '.join(passing)} (with {which} it passes{also})"
    if passes_beside and "code generation" in failing and len(failing) == len(verdicts):
        return f"Inductor's graph passes, by elimination ({told}; on loops it passes)"
    return f"not found by substitution ({told})" if failing else ""

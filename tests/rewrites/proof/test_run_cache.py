from collections.abc import Sequence

from fullgraph.compiler.isolation import JobOutcome
from fullgraph.rewrites.proof import RunCache
from fullgraph.rewrites.proof.behaviour import Behaviour
from fullgraph.rewrites.proof.proof import ProofInput
from fullgraph.rewrites.proof.run_cache import RecordedRun

FIRST, SECOND = ProofInput(0, False), ProofInput(1, False)


class Program:
    """Returns the number of the input, and notes which inputs ran."""

    def __init__(self, fails: bool = False) -> None:
        self.ran: list[tuple[ProofInput, ...]] = []
        self.fails = fails

    def run(self, cases: Sequence[ProofInput]) -> JobOutcome[RecordedRun]:
        self.ran.append(tuple(cases))
        if self.fails:
            return JobOutcome("timeout", "fork", 1.0)
        behaviours = {case: Behaviour(case.number, {}, {}, None, "", (), "") for case in cases}
        return JobOutcome("ok", "fork", 1.0, value=RecordedRun(behaviours))


def test_only_new_inputs_of_a_text_run_in_eager() -> None:
    cache, program = RunCache(), Program()
    cache.run_eager({"a.py": "x"}, [FIRST], False, program.run)
    outcome = cache.run_eager({"a.py": "x"}, [FIRST, SECOND], False, program.run)
    assert program.ran == [(FIRST,), (SECOND,)]
    assert outcome.value is not None
    assert [b.outputs for b in outcome.value.behaviours.values()] == [0, 1]


def test_other_texts_and_special_inputs_run_again() -> None:
    cache, program = RunCache(), Program()
    for texts, special in (({"a.py": "x"}, False), ({"a.py": "y"}, False), ({"a.py": "x"}, True)):
        cache.run_eager(texts, [FIRST], special, program.run)
    assert len(program.ran) == 3


def test_a_compiled_run_is_kept_for_its_backend_and_all_its_inputs() -> None:
    cache, program = RunCache(), Program()
    for cases in ([FIRST], [FIRST], [FIRST, SECOND]):
        cache.run_compiled({}, cases, False, "eager", lambda cases=cases: program.run(cases))
    cache.run_compiled({}, [FIRST], False, "inductor", lambda: program.run([FIRST]))
    assert program.ran == [(FIRST,), (FIRST, SECOND), (FIRST,)]


def test_a_run_that_failed_is_tried_again() -> None:
    cache, program = RunCache(), Program(fails=True)
    for _ in range(2):
        cache.run_eager({}, [FIRST], False, program.run)
        cache.explore({}, [], (False, True), lambda known: program.run([FIRST]))
    assert len(program.ran) == 4

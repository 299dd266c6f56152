"""Candidates asked in order, ahead of need, once each; verdicts that outlive the process."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.oracle import OutOfBudget
from tests.minifier.fake_oracle import REPORTS, Judge, judged


def problem(fails, jobs=1, **rest):
    return judged(100, lambda n: Verdict.SAME if fails(n) else Verdict.PASSES, jobs=jobs, **rest)


@pytest.mark.parametrize("jobs", [1, 4])
def test_the_first_in_order_wins(jobs):
    class Threads(Judge):
        def begin(self, candidate):
            return pool.submit(lambda: super(Threads, self).begin(candidate).result())

    def report(n):
        time.sleep(0.05 if n == 30 else 0)  # a later one is known sooner
        return REPORTS[Verdict.SAME if n in (30, 20) else Verdict.PASSES]

    with ThreadPoolExecutor(jobs) as pool:
        asked = judged(100, report, sandbox=Threads(report, jobs))
        assert asked.first([50, 30, 20, 10])
    assert asked.current == 30


@pytest.mark.parametrize("jobs", [1, 4])
def test_nothing_fails(jobs):
    asked = problem(lambda n: False, jobs)
    assert not asked.first(range(10))
    assert asked.current == 100 and asked.oracle.counts.candidates == 10


def test_candidates_are_drawn_lazily():
    def candidates():
        yield 5
        raise AssertionError("not needed")

    assert problem(lambda n: True).first(candidates())


def test_no_candidate_is_asked_about_twice():
    asked = problem(lambda n: False)
    asked.first([1, 2])
    asked.first([2, 1, 3])
    counts = asked.oracle.counts
    assert (counts.calls, counts.candidates, counts.cached) == (3, 3, 2)


def test_an_answer_asked_ahead_is_kept():
    run = []
    asked = problem(lambda n: run.append(n) or n == 1, jobs=3)
    assert asked.first([1, 2, 3]) and run == [1, 2, 3]
    assert not asked.first([2, 3]) and asked.fails(1) and run == [1, 2, 3]


def test_what_runs_ahead_has_ended_when_a_candidate_is_taken():
    running = {n: Future() for n in (1, 2)}

    class Slow(Judge):
        def begin(self, candidate):
            return running[candidate.program]

    asked = judged(100, None, sandbox=Slow(None, jobs=2))
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(asked.first, [1, 2])
        running[1].set_result(REPORTS[Verdict.SAME])
        with pytest.raises(TimeoutError):
            taken.result(0.05)
        running[2].set_result(REPORTS[Verdict.PASSES])
        assert taken.result(5) and asked.current == 1


def test_a_candidate_whose_outcomes_vary_fails_no_more():
    asked = problem(lambda n: True)
    assert asked.first([9])
    asked.oracle.mark_unresolved(asked.candidate)
    assert not asked.fails(9)


def test_fails_leaves_current_alone():
    asked = problem(lambda n: n == 7)
    assert asked.fails(7) and not asked.fails(8) and asked.current == 100


def test_the_budget_ends_it_with_the_best_so_far():
    asked = problem(lambda n: True, deadline=time.monotonic() + 0.2)
    asked.first([9])
    time.sleep(0.2)
    with pytest.raises(OutOfBudget):
        asked.first([8])
    assert asked.current == 9
    assert asked.fails(9)  # that is known


def test_what_is_known_is_not_asked(tmp_path):
    known = Journal(tmp_path / "work.journal", "work")
    whole = problem(lambda n: n == 4, journal=known)
    assert whole.first([9, 4])
    journal = Journal(tmp_path / "work.journal", "work")
    resumed = problem(lambda n: pytest.fail("asked again"), journal=journal)
    assert resumed.first([9, 4]) and resumed.current == 4
    assert (resumed.oracle.counts.calls, resumed.oracle.counts.cached) == (0, 2)


def test_what_could_not_be_tried_is_tried_by_the_next_run(tmp_path):
    for _ in range(2):
        journal = Journal(tmp_path / "work.journal", "work")
        asked = judged(100, lambda n: Verdict.UNRESOLVED, journal=journal)
        assert not asked.first([9, 9])
        assert (asked.oracle.counts.calls, asked.oracle.counts.cached) == (1, 1)


def test_an_outcome_after_the_sandbox_was_stopped_is_not_kept(tmp_path):
    journal = Journal(tmp_path / "work.journal", "work")
    asked = problem(lambda n: True, journal=journal)
    asked.oracle.sandbox.stop()
    asked.fails(9)
    assert journal.answers == {}


def test_a_journal_remembers(tmp_path):
    path = tmp_path / "work.journal"
    Journal(path, "work").note("a", Verdict.SAME)
    assert Journal(path, "work").answers == {"a": Verdict.SAME}


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    path = tmp_path / "work.journal"
    Journal(path, "work").note("a", 1)
    with path.open("ab") as file:
        file.write(b'\n{"key": "b", "answer": "same fai')
    journal = Journal(path, "work")
    assert journal.answers == {"a": 1}
    journal.note("c", 2)
    assert Journal(path, "work").answers == {"a": 1, "c": 2}


def test_what_was_asked_once_is_not_asked_again(tmp_path):
    def begin():
        answer = Future()
        answer.set_result((1, "a"))
        return answer

    for ask in (begin, lambda: pytest.fail("asked again")):
        journal = Journal(tmp_path / "work.journal", "work")
        oracle = problem(lambda n: True, journal=journal).oracle
        assert oracle.run_once("what", ask).result() == (1, "a")


def test_what_is_known_of_other_work_is_forgotten(tmp_path):
    path = tmp_path / "work.journal"
    Journal(path, "work").note("a", 1)
    assert Journal(path, "other work").answers == {}


def test_a_finished_journal_is_gone(tmp_path):
    journal = Journal(tmp_path / "work.journal", "work")
    journal.note("a", 1)
    journal.finish()
    assert not journal.path.exists()

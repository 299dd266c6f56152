"""Candidates asked in order, ahead of need, once each; verdicts that outlive the process."""

import time

import pytest

from fullgraph.minifier.oracle.journal import Journal
from fullgraph.minifier.oracle.problem import Counts, OutOfBudget, Problem, Verdict


def problem(fails, jobs=1, **rest):
    def ask(n):
        return lambda: Verdict.SAME if fails(n) else Verdict.PASSES

    return Problem(100, ask, str, jobs=jobs, **rest)


@pytest.mark.parametrize("jobs", [1, 4])
def test_the_first_in_order_wins(jobs):
    def fails(n):
        time.sleep(0.05 if n == 30 else 0)  # a later one is known sooner
        return n in (30, 20)

    asked = problem(fails, jobs)
    assert asked.first([50, 30, 20, 10])
    assert asked.current == 30


@pytest.mark.parametrize("jobs", [1, 4])
def test_nothing_fails(jobs):
    asked = problem(lambda n: False, jobs)
    assert not asked.first(range(10))
    assert asked.current == 100 and asked.counts.calls == 10


def test_candidates_are_drawn_lazily():
    def candidates():
        yield 5
        raise AssertionError("not needed")

    assert problem(lambda n: True).first(candidates())


def test_no_candidate_is_asked_about_twice():
    counts = Counts()
    asked = problem(lambda n: False, counts=counts)
    asked.first([1, 2])
    asked.first([2, 1, 3])
    assert (counts.calls, counts.cached) == (3, 2)


def test_an_answer_asked_ahead_is_kept():
    known = {}
    asked = problem(lambda n: n == 1, jobs=3, known=known)
    asked.first([1, 2, 3])
    assert known == {"1": Verdict.SAME, "2": Verdict.PASSES, "3": Verdict.PASSES}


def test_fails_leaves_current_alone():
    asked = problem(lambda n: n == 7)
    assert asked.fails(7) and not asked.fails(8) and asked.current == 100


def test_the_budget_ends_it_with_the_best_so_far():
    spent = []
    asked = problem(lambda n: True, spent=lambda: bool(spent))
    asked.first([9])
    spent.append(True)
    with pytest.raises(OutOfBudget):
        asked.first([8])
    assert asked.current == 9


def test_what_is_known_is_not_asked():
    known = {"9": Verdict.PASSES, "4": Verdict.SAME}
    resumed = problem(lambda n: pytest.fail("asked again"), known=known)
    assert resumed.first([9, 4]) and resumed.current == 4


def test_a_journal_remembers(tmp_path):
    path = tmp_path / "work.journal"
    Journal(path, "work").note("a", Verdict.SAME)
    again = Journal(path, "work")
    assert again.answer("a") is Verdict.SAME and again.answer("b") is None
    assert (again.resumed, again.recalled) == (1, 1)


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
    journal = Journal(tmp_path / "work.journal", "work")
    assert journal.once("what", lambda: (1, "a")) == (1, "a")
    again = Journal(tmp_path / "work.journal", "work")
    assert again.once("what", lambda: pytest.fail("asked again")) == (1, "a")


def test_what_is_known_of_other_work_is_forgotten(tmp_path):
    path = tmp_path / "work.journal"
    Journal(path, "work").note("a", 1)
    assert Journal(path, "other work").answers == {}


def test_a_finished_journal_is_gone(tmp_path):
    journal = Journal(tmp_path / "work.journal", "work")
    journal.note("a", 1)
    journal.finish()
    assert not journal.path.exists()

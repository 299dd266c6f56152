"""Searches for the fewest or the most items, on an oracle that is a plain function."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.reduce.subsets import (
    find_needed,
    find_smallest,
    split_by_weight,
    take_first,
    take_most,
)
from tests.minifier.fake_oracle import judged

ITEMS = tuple(range(12))


def problem_of(fails, start=ITEMS):
    """Return a problem whose candidates are tuples; `fails` is the oracle."""

    def judge(candidate):
        return Verdict.SAME if fails(candidate) else Verdict.PASSES

    return judged(start, judge)


def without(items):
    """Return the candidate that lacks `items`."""
    yield tuple(item for item in ITEMS if item not in set(items))


def only(items):
    """Return the candidate that consists of `items`."""
    yield tuple(items)


def test_the_first_choice_that_fails_is_taken():
    problem = problem_of(lambda candidate: sum(candidate) < 40)
    assert take_first(problem, [[0], [1, 2], [11, 10, 9], [11, 10, 8]], without) == [11, 10, 9]
    assert 11 not in problem.current and 8 in problem.current


def test_a_choice_that_cannot_be_built_is_skipped():
    problem = problem_of(lambda candidate: True)
    assert take_first(problem, [1, 2], lambda choice: [()] if choice == 2 else []) == 2


@settings(deadline=None)
@given(st.sets(st.sampled_from(ITEMS)), st.integers(0, 5))
def test_the_most_leaves_exactly_what_the_failure_needs(needed, chunk):
    problem = problem_of(lambda candidate: needed <= set(candidate))
    taken = take_most(problem, ITEMS, without, chunk=chunk)
    assert set(problem.current) == needed
    assert taken == [item for item in ITEMS if item not in needed]


@settings(deadline=None)
@given(st.sets(st.sampled_from(ITEMS), min_size=1))
def test_the_needed_items_are_found(needed):
    problem = problem_of(lambda candidate: needed <= set(candidate))
    assert set(find_needed(problem, ITEMS, only)) == needed


@settings(deadline=None)
@given(st.integers(1, 100), st.integers(0, 8))
def test_the_smallest_number_is_found_near_and_far(least, leap):
    problem = problem_of(lambda candidate: candidate[0] >= least, start=(100,))
    assert find_smallest(problem, 1, 100, lambda n: [(n,)], leap=leap) == least


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 6))
def test_parts_keep_the_order_of_items(weights, count):
    parts = list(split_by_weight(weights, float, count))
    assert [weight for part in parts for weight in part] == weights
    assert all(parts) and len(parts) <= len(weights)
    assert count > 1 or len(parts) == 1

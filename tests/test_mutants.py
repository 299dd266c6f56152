"""The mutation test draws faults in code alone and finds the tests that cover a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutation.covering_tests import CoveringTests
from benchmarks.mutation.mutations import mutations

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "body",
    [
        '"""Return 1 or 2."""',
        'raise ValueError("1 == 2")',
        "raise ValueError(1 if a else 2)",
        "b: Literal[1]",
        "return None",
    ],
)
def test_left_alone(body):
    assert not [*mutations(f"CONSTANT = 1 == 2\n\n\ndef f(a: Literal[1] = 2) -> None:\n    {body}")]


@pytest.mark.parametrize(
    ("line", "mutants"),
    [
        ("b = 3", {"b = 4", "pass"}),
        ("return a is None", {"return a is not None", "return None"}),
        ("return (a) not in é", {"return (a) in é", "return None"}),
        ("g(not a)", {"g(a)", "pass"}),
        ("assert a or b", {"assert a and b", "assert True", "assert False"}),
        ("while a < b: g()", {"while a <= b: g()", "while False: g()", "while a < b: pass"}),
        ("yield [b for b in a if b]", {f"yield [b for b in a if {v}]" for v in (True, False)}),
    ],
)
def test_mutations(line, mutants):
    found = [*mutations(f"def f(a, b):\n    {line}\n")]
    assert {(number, before) for _, number, before, _ in found} == {(2, line)}
    assert {after for *_, after in found} - {"pass"} == mutants - {"pass"}


def test_covering():
    tests = CoveringTests(ROOT)
    rule = "rewrites/rules/masks/find_through_argmax.py"
    named = f"tests/{rule.replace('find', 'test_find')}"
    assert tests.covering(rule)[0] == named
    assert any("test_golden.py::" in test for test in tests.covering(rule))
    assert named in tests.covering("rewrites/transforms/masks/first_match.py")
    assert tests.covering("minifier/oracle/problem.py")[0] == "tests/minifier/test_problem.py"

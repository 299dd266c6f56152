"""Rules and examples give what they gave when the golden data was recorded."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from benchmarks import golden, golden_cases
from benchmarks.golden_programs import PROGRAMS
from tests.recorded.executed import note_data

ROWS = [
    *(("rules", name) for name in PROGRAMS),
    *(("examples", name) for name in golden_cases.EXAMPLES),
]


@pytest.fixture(autouse=True)
def group():
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.compiles
@pytest.mark.golden
@pytest.mark.parametrize(("part", "name"), ROWS, ids=lambda text: text.replace(" ", "-"))
def test_a_case_is_as_recorded(part, name):
    note_data(golden.DATA / f"{part}.json", name)
    answer = golden_cases.attempt({**golden_cases.RULES, **golden_cases.EXAMPLES}[name])
    found = [*golden.differences(golden.golden(part)[name], answer["facts"])]
    assert not found, "\n".join([*found, answer["traceback"]])


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, []),
        ({"a": golden.VARIES}, {"a": 2}, []),
        ({"a": {"b": [1]}}, {"a": {"b": [3]}}, ["a.b[0]: 1 → 3"]),
        ({"a": 1}, {}, ["a: 1 → null"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: 1 items → 2 items", "    + 2"]),
        ({"raises": "TypeError"}, {"exit": 0}, ["exit: null → 0", 'raises: "TypeError" → null']),
    ],
)
def test_differences(old, new, shown):
    assert [*golden.differences(old, new)] == shown


def test_stable():
    first, second = {"a": [1, 2], "b": [1], "c": 3}, {"a": [1, 4], "b": [], "c": 3}
    assert golden.stable(first, second) == {"a": [1, golden.VARIES], "b": golden.VARIES, "c": 3}

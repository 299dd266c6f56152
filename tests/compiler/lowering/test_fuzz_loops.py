"""Twenty random programs on the backend `loops`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz.programs import draw, read_operators
from benchmarks.fuzz_loops import answer

pytestmark = [pytest.mark.compiles, pytest.mark.slow]
SEED = 1


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_random_programs_agree_with_eager(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path))
    for number in range(first, first + 5):
        row = answer(SEED, number)
        assert row["verdict"] in ("ok", "not ours"), (number, row["reason"])


def test_programs_are_drawn_alike_and_use_the_table() -> None:
    assert draw(SEED, 3) == draw(SEED, 3)
    assert {kind for kind, _ in read_operators()} == {
        *("float", "complex", "integer", "bool", "number", "any")
    }

"""Rules are compared by the code that they write; `test_wrapping.py` is about its lines."""

import pytest


@pytest.fixture(autouse=True)
def _lines_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fullgraph.rewrites.source.document.wrap_new_lines", lambda old, new: new)

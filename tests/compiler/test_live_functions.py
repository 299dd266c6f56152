"""Every function of a file is found, also those that are made while others are remembered."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.sources import find_live_functions, index_live_functions
from tests.rewrites.harness import imported

pytestmark = pytest.mark.compiles

TEXT = """
def outer():
    def inner():
        pass
    return inner
"""


def _as_module(folder: Path) -> tuple[str, Callable[[], Any]]:
    module = imported(TEXT, folder)
    return module.__file__, module.outer


def _as_cell(folder: Path) -> tuple[str, Callable[[], Any]]:
    names: dict[str, Any] = {}
    file = f"<cell of {folder}>"
    exec(compile(TEXT, file, "exec"), names)
    return file, names["outer"]


@pytest.fixture(params=[_as_module, _as_cell])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], Any]]:
    return request.param(tmp_path)


@pytest.fixture(params=[False, True], ids=["", "frozen by the user"])
def _frozen(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param:
        gc.freeze()
    yield
    gc.unfreeze()


def _names(file: str) -> list[str]:
    return sorted(function.__name__ for function in find_live_functions([file])[file])


@pytest.mark.usefixtures("_frozen")
def test_what_is_made_and_dies_meanwhile(made: tuple[str, Callable[[], Any]]) -> None:
    file, outer = made
    frozen = gc.get_freeze_count() > 0
    early = outer()
    with index_live_functions():
        assert _names(file) == ["inner", "outer"]
        late = outer()
        assert _names(file) == ["inner", "inner", "outer"]
        assert run_isolated(lambda emit: _with_another(outer, file)).value == 4
        del early, late
        assert _names(file) == ["outer"]
        with index_live_functions():
            assert _names(file) == ["outer"]
        assert _names(file) == ["outer"]
    assert _names(file) == ["outer"]
    assert (gc.get_freeze_count() > 0) == frozen


def _with_another(outer: Callable[[], Any], file: str) -> int:
    another = outer()
    return len(_names(file)) if another else 0


def test_a_file_that_is_asked_for_later(tmp_path: Path) -> None:
    with index_live_functions():
        first, one = _as_module(tmp_path)
        assert _names(first) == ["outer"]
        second, other = _as_cell(tmp_path)
        kept = one(), other()
        assert _names(second) == _names(first) == ["inner", "outer"]
        assert run_isolated(lambda emit: _names(second)).value == ["inner", "outer"]
    assert kept
    assert gc.get_freeze_count() == 0


def test_a_file_that_is_loaded_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `python -m` and an import of the same module do."""
    file, outer = _as_module(tmp_path)
    again = ModuleType("again")
    again.__file__ = file
    monkeypatch.setitem(sys.modules, "again", again)
    exec(compile(TEXT, file, "exec"), vars(again))
    assert _names(file) == ["outer", "outer"]
    with index_live_functions():
        assert _names(file) == ["outer", "outer"]
        monkeypatch.setitem(sys.modules, "anew", anew := ModuleType("anew"))
        anew.__file__ = file
        exec(compile(TEXT, file, "exec"), vars(anew))
        assert _names(file) == ["outer", "outer", "outer"]
    assert outer

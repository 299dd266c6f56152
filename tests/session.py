"""Plugin of a test session: durations, recorded runs, tests left out, and resuming."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fullgraph's own tests")
    group.addoption(
        "--recorded",
        choices=("replay", "sample", "check", "write"),
        default="replay",
        help="recorded runs answer (default); one of each module, or each, is compared with a real "
        "one; or they are recorded",
    )
    group.addoption(
        "--changed",
        action="store_true",
        help="leave out golden cases, slow tests, and modules under another torch, that executed "
        "no file that changed since they passed",
    )
    group.addoption(
        "--resume",
        metavar="FOLDER",
        help="leave out what passed in an earlier session with this folder",
    )
    group.addoption(
        "--executed",
        metavar="FOLDER",
        help="record the files that the tests execute which --changed may leave out; this folder "
        "is for notes. Dynamo captures some programs differently while Python traces calls: a "
        "test that fails so is not recorded",
    )


def pytest_configure(config: pytest.Config) -> None:
    is_inside_a_test = "PYTEST_CURRENT_TEST" in os.environ
    if not hasattr(config, "workerinput") and not is_inside_a_test:
        config.pluginmanager.register(_Controller(config))


def pytest_sessionstart(session: pytest.Session) -> None:
    from tests.recorded import RecordedRuns, Recording

    RecordedRuns.mode = Recording(session.config.getoption("recorded"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what passed before an interruption, and what executed only unchanged files."""
    from tests.recorded.executed import ExecutedFiles

    left_out = []
    if (folder := _folder(config, "resume")) and (journal := folder / "passed.txt").exists():
        passed = set(journal.read_text().splitlines())
        left_out = [item for item in items if item.nodeid in passed]
    elif config.getoption("changed"):
        executed = ExecutedFiles(_data())
        unchanged = {unit for unit in map(_unit_of, items) if executed.are_unchanged(unit)}
        left_out = [item for item in items if _unit_of(item) in unchanged]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the files that a test executes."""
    from tests.recorded.executed import noting_executed_files

    if (folder := _folder(item.config, "executed")) and (unit := _unit_of(item)):
        with noting_executed_files(_notes(folder, unit)):
            return (yield)
    return (yield)


class _Controller:
    """The hooks that run once in a session, and not in each of its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._resumed = config, _folder(config, "resume")
        self._seconds: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._ended: set[str] = set()
        self._durations = BUILD / f"durations{_other_torch()}.tsv"
        BUILD.mkdir(exist_ok=True)
        if not config.option.collectonly:
            self._durations.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)
        if report.when != "teardown":
            return
        self._ended.add(report.nodeid)
        with self._durations.open("a") as file:
            file.write(f"{self._seconds[report.nodeid]:8.2f}\t{report.nodeid}\n")
        if self._resumed and report.nodeid not in self._failed:
            with (self._resumed / "passed.txt").open("a") as file:
                file.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._config.option.collectonly:
            return
        if self._config.getoption("recorded") == "write":
            from tests.recorded import merge

            option = self._config.option
            is_part = option.keyword or option.markexpr or "::" in " ".join(self._config.args)
            for file in merge(ROOT / "tests", keep=bool(is_part)):
                print(f"\nrecorded: {file.relative_to(ROOT)}")
        if folder := _folder(self._config, "executed"):
            self._record_executed_files(folder, is_whole=exitstatus in (0, 1))

    def _record_executed_files(self, folder: Path, is_whole: bool) -> None:
        """Record the files of the tests that passed, and of modules if the session was whole."""
        from tests.recorded.executed import ExecutedFiles, read_notes

        failed = {*self._failed, *(test.partition("::")[0] for test in self._failed)}
        units = {path: path.read_text().partition("\n")[0] for path in folder.glob("*.files")}
        executed = {
            unit: read_notes(path)
            for path, unit in units.items()
            if unit not in failed and (unit in self._ended or is_whole)
        }
        modules = defaultdict[str, dict[str, set[str]]](lambda: defaultdict(set))
        for unit, found in executed.items():  # what a fixture does for all, the first test shows
            for file, functions in found.items():
                modules[unit.partition("::")[0]][file] |= functions
        executed = {
            unit: modules[module] if "scope=" in (ROOT / module).read_text() else found
            for unit, found in executed.items()
            if (module := unit.partition("::")[0])
        }
        ExecutedFiles(_data()).update(executed)


def _folder(config: pytest.Config, option: str) -> Path | None:
    """Return the folder that is the value of an option, after making it; None without one."""
    if not (folder := config.getoption(option)):
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def _unit_of(item: pytest.Item) -> str:
    """Return what is left out together: a golden case or slow test, under another torch a module;
    "" for a test that always runs."""
    if _other_torch():
        return str(item.path.relative_to(ROOT))
    is_long = any(item.get_closest_marker(name) for name in ("golden", "slow"))
    return item.nodeid if is_long else ""


@lru_cache
def _other_torch() -> str:
    """Return "-2.15" under another torch than the one that `constraints.txt` pins, else ""."""
    pinned = re.search(r"^torch==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    here = version("torch").partition("+")[0]
    return "" if pinned and pinned[1] == here else f"-{'.'.join(here.split('.')[:2])}"


def _data() -> Path:
    return ROOT / "tests" / "recorded" / f"executed{_other_torch()}.json"


def _notes(folder: Path, unit: str) -> Path:
    """Return the file of the notes on a unit; its first line is the unit."""
    path = folder / f"{hashlib.sha256(unit.encode()).hexdigest()[:12]}.files"
    with suppress(FileExistsError), path.open("x") as file:
        file.write(f"{unit}\n")
    return path

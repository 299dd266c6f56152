"""pytest plugin that limits the graph breaks and recompiles of a test.

    @pytest.mark.fullgraph(breaks=0, recompiles=0, only="mypkg")
    def test_model(): ...

The plugin records everything that torch.compile compiles while a marked test runs. The test fails
if there are more root causes of graph breaks, or more recompiles, than the marker allows; without
arguments it allows none. `only` counts those in the code of one package. Dynamo's caches are reset
before the test, so that its result does not depend on the tests before it.

With `--fullgraph-baseline FILE`, a marked test fails only if it has breaks or recompiles that are
not in the file. `--fullgraph-update` rewrites the file's entries of the tests that ran. The fixture
`explain` is `fullgraph.explain`. Tests without the marker run as usual.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_MARKER = "fullgraph(breaks=0, recompiles=0, only=None): fail if torch.compile breaks or recompiles"
_ATTRIBUTE = "fullgraph_counts"
"""Attribute of a test's report that holds its counts; xdist sends it to the controller."""


@dataclass(frozen=True)
class Limits:
    """Largest numbers of breaks and recompiles that a marked test may have."""

    breaks: int = 0
    """Number of root causes of graph breaks."""
    recompiles: int = 0
    only: str | None = None
    """Package whose code counts; None for all code."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fullgraph", "graph breaks and recompiles of torch.compile")
    group.addoption(
        "--fullgraph-baseline",
        metavar="FILE",
        help="fail tests marked `fullgraph` only for breaks and recompiles that FILE lacks",
    )
    group.addoption(
        "--fullgraph-update",
        action="store_true",
        help="write the numbers of the tests that run to the baseline file",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if config.getoption("--fullgraph-update") and not config.getoption("--fullgraph-baseline"):
        raise pytest.UsageError("--fullgraph-update needs --fullgraph-baseline FILE to write to")
    if config.getoption("--fullgraph-baseline"):
        config.pluginmanager.register(_Baseline(config), "fullgraph-baseline")


@pytest.fixture
def explain() -> Callable[..., Any]:
    """Return `fullgraph.explain`."""
    from fullgraph import explain

    return explain


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    marker = item.get_closest_marker("fullgraph")
    if marker is None:
        return (yield)
    limits = _parse_marker(marker)
    import torch

    from fullgraph.compile_counts import describe_excess, package_folders, read_record
    from fullgraph.compiler.errors import FullgraphError
    from fullgraph.compiler.recording import record
    from fullgraph.diagnose.explain import explain_recording

    try:
        folders = package_folders(limits.only) if limits.only else ()
    except FullgraphError as error:
        raise pytest.UsageError(str(error)) from None
    torch.compiler.reset()
    with record() as recorder:
        result = yield
    found = read_record(explain_recording(recorder.recording, item.name), folders)
    setattr(item, _ATTRIBUTE, found.counts)
    baseline = item.config.pluginmanager.get_plugin("fullgraph-baseline")
    held = baseline.held_for(item.nodeid) if isinstance(baseline, _Baseline) else None
    over = describe_excess(found, (limits.breaks, limits.recompiles), held)
    if over and not item.config.getoption("--fullgraph-update"):
        pytest.fail(over, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    counts = getattr(item, _ATTRIBUTE, None)
    if call.when == "call" and counts is not None:
        setattr(report, _ATTRIBUTE, counts.to_dict())
        report.sections = list(_without_trace(report.sections))
    return report


class _Baseline:
    """Baseline file of a test session; xdist's controller and each of its workers have one."""

    def __init__(self, config: pytest.Config) -> None:
        from fullgraph.compile_counts import read_baseline
        from fullgraph.compiler.errors import FullgraphError

        self._update = bool(config.getoption("--fullgraph-update"))
        self._path = Path(config.invocation_params.dir, config.getoption("--fullgraph-baseline"))
        self._is_worker = hasattr(config, "workerinput")
        try:
            self._held = read_baseline(self._path)
        except FullgraphError as error:
            if not self._update:
                raise pytest.UsageError(str(error)) from None
            self._held = {}
        if not self._held and not self._update and not self._path.exists():
            raise pytest.UsageError(
                f"there is no baseline {self._path}: write it with --fullgraph-update"
            )
        self._new: dict[str, dict[str, list[str]]] = {}

    def held_for(self, test: str) -> Any:
        """Return the counts that the file holds for a test; None if it has none."""
        return self._held.get(test)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (counts := getattr(report, _ATTRIBUTE, None)) is not None:
            self._new[report.nodeid] = counts

    def pytest_sessionfinish(self) -> None:
        if not self._update or self._is_worker or not self._new:
            return
        import torch

        from fullgraph.compile_counts import CompileCounts, baseline_text

        new = {test: CompileCounts.from_dict(counts) for test, counts in self._new.items()}
        written = self._path.with_name(f".{self._path.name}.new")
        written.write_text(baseline_text({**self._held, **new}, torch.__version__), "utf-8")
        os.replace(written, self._path)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._update and self._new:
            terminalreporter.write_line(f"fullgraph: {len(self._new)} tests in {self._path}")


def _without_trace(sections: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield a report's (title, text) sections without the lines of torch's structured trace.

    pytest logs these lines as empty ones.
    """
    for title, text in sections:
        kept = [line for line in text.splitlines() if " torch.__trace:" not in line]
        if kept or not text:
            yield title, "\n".join(kept)


def _parse_marker(marker: pytest.Mark) -> Limits:
    """Return the limits that a marker's arguments give. Raises UsageError for invalid ones."""
    try:
        limits = Limits(*marker.args, **marker.kwargs)
    except TypeError:
        raise pytest.UsageError(f"the marker is {_MARKER.partition(': ')[0]}") from None
    for name in ("breaks", "recompiles"):
        if not isinstance(getattr(limits, name), int):
            raise pytest.UsageError(f"fullgraph({name}=…) must be a number of {name}")
    return limits

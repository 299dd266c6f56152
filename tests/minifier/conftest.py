"""What the tests of the minifier share: Inductor's settings, and recorded candidates.

`minify` and `bisect` ask an oracle whether a candidate fails. Here it answers from
`recorded/*.json` beside the test module: capture, reduction, localization and the scripts are real,
and only the runs of candidates are not. A test marked `real` runs them all. A candidate that is not
recorded runs for real.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fullgraph.minifier import script_writer
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.candidate import Candidate, Report
from fullgraph.minifier.oracle.failure import Failure
from fullgraph.minifier.oracle.sandbox import Sandbox
from fullgraph.minifier.repro import fresh_interpreter as fresh
from tests.recorded import Recording, current, decode, digest_of, encode


@pytest.fixture
def inductor() -> Any:
    import torch._inductor.config

    return torch._inductor.config


@pytest.fixture(autouse=True)
def recorded_candidates(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Answer what the oracle asks from the recording, unless the test is marked `real`."""
    if request.node.get_closest_marker("real"):
        yield
        return
    runs, program = current(), f"{request.function.__name__}/{_digest_of_test(request)}"
    begin = Sandbox.begin
    calls: dict[Sandbox, int] = {}  # of `minify` and `bisect`, each of which has a sandbox
    wrong = tmp_path_factory.mktemp("recorded") / "wrong"  # children write to it, too

    def compare(question: str, answer: Any) -> None:
        recorded = runs.answers.get(f"{program} {question}")
        if recorded is not None and any(_was_stopped(one) for one in (answer, decode(recorded))):
            return
        try:
            runs.compare(f"{program} {question}", encode(_shortened(answer)), _facts)
        except AssertionError as error:
            wrong.write_text(str(error))

    def known(question: str) -> Any:
        key = f"{program} {question}"
        if runs.mode is Recording.CHECK or key not in runs.answers:
            return None
        runs.note(key, runs.answers[key])
        return decode(runs.answers[key])

    def begin_recorded(sandbox: Sandbox, candidate: Candidate) -> Future[Report]:
        call = calls.setdefault(sandbox, len(calls) + 1)
        how = f"{sandbox.threads} {candidate.every:d}{candidate.repeat_eager:d}"
        question = f"{call} {candidate.key} {how}"
        if (report := known(question)) is not None:
            answer: Future[Report] = Future()
            answer.set_result(report)
            return answer
        future = begin(sandbox, candidate)
        future.add_done_callback(lambda done: compare(question, done.result()))
        return future

    def ask(name: str, text: str, run: Callable[[], Any]) -> Any:
        question = f"{name} {digest_of(text)}"
        if (answer := known(question)) is None:
            answer = run()
            compare(question, answer)
        return answer

    monkeypatch.setattr(Sandbox, "begin", begin_recorded)
    of_scripts = SimpleNamespace(**vars(fresh))  # `fresh` itself has tests of its own
    of_scripts.check_standalone = lambda text, told, **how: ask(
        "script", text, lambda: fresh.check_standalone(text, told, **how)
    )
    of_scripts.passes_controls = lambda text, seconds: ask(
        "controls", text, lambda: fresh.passes_controls(text, seconds)
    )
    monkeypatch.setattr(script_writer, "fresh", of_scripts)
    yield
    assert not wrong.exists(), wrong.read_text()


_LONG = 1000
"""Characters of a text that are recorded."""


def _shortened(answer: Any) -> Any:
    """Return an answer without times and tracebacks, and with the ends of long texts."""
    match answer:
        case Report():
            return replace(answer, ends=tuple(map(_shortened, answer.ends)))
        case RungOutcome():
            return replace(answer, seconds=0.0, failure=_shortened(answer.failure))
        case Failure():
            return replace(answer, message=answer.message[:_LONG], details="")
        case fresh.StandaloneCheck():
            ran, below = _shortened(answer.ran), _shortened(answer.below)
            return replace(answer, reason=answer.reason[:_LONG], ran=ran, below=below)
        case fresh.ScriptRun():
            message, output = answer.message[:_LONG], answer.output[-_LONG:]
            return replace(answer, message=message, output=output, seconds=0.0)
    return answer


def _was_stopped(answer: Any) -> bool:
    """Return whether a candidate was stopped: another one had decided the question before it."""
    return isinstance(answer, Report) and "timeout" in (answer.broken or "")


def _facts(plain: Any) -> object:
    """What must be equal of two answers: not messages and outputs, which hold paths and times."""
    answer = decode(plain)
    if isinstance(answer, Report):
        ends = [(end.rung, end.refused != "", _signature(end.failure)) for end in answer.ends]
        return ends, bool(answer.broken), answer.applied
    return answer.ok if isinstance(answer, fresh.StandaloneCheck) else answer


def _signature(failure: Any) -> object:
    return failure and (failure.rung, failure.kind, failure.signature)


def _digest_of_test(request: pytest.FixtureRequest) -> str:
    """Return a digest of a test with its parameters, and of its module without the other tests."""
    return digest_of(request.node.name, _code_of_test(request.path, request.function.__name__))


@lru_cache
def _code_of_test(module: Path, name: str) -> str:
    tree = ast.parse(module.read_text())
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
        or node.name == name
    ]
    return ast.unparse(tree)

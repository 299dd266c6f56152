"""Recorded runs answer by program and question, and tests are left out by what they executed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from benchmarks.nightly import Part, Progress, run, take_over
from fullgraph.compiler.events import Position
from fullgraph.compiler.facts import TensorSummary, ValueSummary
from fullgraph.compiler.observe import FunctionValues
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.candidate import Report
from fullgraph.minifier.oracle.failure import Failure, Kind
from tests.recorded import RecordedRuns, Recording, decode, digest_of, encode, merge
from tests.recorded.executed import (
    ExecutedFiles,
    _bodies_in,
    _digest_of_file,
    note_data,
    noting_executed_files,
    read_notes,
)
from tests.rewrites.harness import offered


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(RecordedRuns, "mode", Recording.WRITE)
    return tmp_path / "test_it.py"


def record(module: Path, **answers: object) -> RecordedRuns:
    runs = RecordedRuns(module)
    for program, answer in answers.items():
        runs.answer(program, "?", lambda answer=answer: answer)  # type: ignore[misc]
    merge(module.parent, keep=False)
    return RecordedRuns(module)


@pytest.mark.parametrize(
    "value",
    [
        FunctionValues(
            {
                Position("{file}", 3, 4): ValueSummary(
                    ("torch.Tensor",), 2, (TensorSummary("bool", (2,), "cpu", False, True),)
                )
            },
            "ValueError: no",
        ),
        Report((RungOutcome("eager", Failure("eager", Kind.CRASH, ("SIGSEGV",), "it"), 0.0),)),
        (1, None, 0.5, "text", (True,)),
    ],
)
def test_what_is_written_is_read_again(value: object) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_a_class_that_is_not_listed_is_refused() -> None:
    with pytest.raises(TypeError, match="Tensor is not among the classes"):
        encode(torch.ones(2))


def test_a_recorded_answer_takes_the_place_of_a_run(module: Path) -> None:
    runs = record(module, a=3)
    runs.mode = Recording.REPLAY
    assert runs.answer("a", "?", lambda: 4) == 3
    assert runs.answer("b", "?", lambda: 4) == 4


def test_a_run_that_gives_something_else_fails_the_check(module: Path) -> None:
    runs = record(module, a=3)
    runs.mode = Recording.CHECK
    assert runs.answer("a", "?", lambda: 3) == 3
    with pytest.raises(AssertionError, match="is out of date"):
        runs.answer("a", "?", lambda: 4)


def test_the_program_with_the_longest_answers_is_the_sample(module: Path) -> None:
    runs = record(module, short="x", long="x" * 9)
    runs.mode = Recording.SAMPLE
    assert runs.answer("short", "?", lambda: "y") == "x"
    with pytest.raises(AssertionError):
        runs.answer("long", "?", lambda: "y")


def test_names_of_a_run_are_not_recorded(module: Path) -> None:
    RecordedRuns(module).answer("a", "?", lambda: "in /tmp/1.py", {"/tmp/1.py": "{file}"})
    merge(module.parent, keep=False)
    runs = RecordedRuns(module)
    assert "in {file}" in runs.path.read_text()
    assert runs.answer("a", "?", lambda: "", {"/tmp/2.py": "{file}"}) == "in /tmp/2.py"


def test_addresses_and_temporary_folders_are_no_difference(module: Path) -> None:
    runs = record(module, a=[94916468930176, "# mp/fullgraph-test-a1/tmpx1/f.py:2"])
    runs.mode = Recording.CHECK
    runs.answer("a", "?", lambda: [140221904445440, "# fullgraph-test-b2/tmpy2/f.py:2"])
    with pytest.raises(AssertionError):
        runs.answer("a", "?", lambda: [94916468930176, "# fullgraph-test-b2/tmpy2/f.py:3"])


def test_what_no_test_asked_for_is_dropped_unless_only_some_ran(module: Path) -> None:
    runs = record(module, a=1, b=2)
    for keep, left in ((True, {"a ?", "b ?"}), (False, {"a ?"})):
        runs.answer("a", "?", lambda: 0)
        (file,) = merge(module.parent, keep)
        assert set(json.loads(file.read_text())) == left


def test_digests_tell_tensors_apart() -> None:
    x = torch.tensor([1.0, 2.0])
    same = digest_of(x.clone(), {"n": 3})
    assert digest_of(x, {"n": 3}) == same
    others = (-x, x.double(), x[None], x.requires_grad_(), torch.tensor([1.0, 2.5]))
    assert same not in {digest_of(other, {"n": 3}) for other in others}


def test_a_program_of_a_rule_test_is_recorded(
    module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a second test with other inputs asks for facts of its own."""
    runs = RecordedRuns(module)
    monkeypatch.setattr("tests.rewrites.harness.current", lambda: runs)
    source = "import torch\n\n\ndef f(x):\n    return int(torch.as_tensor(x.size(0)))\n"
    for x in (torch.ones(2, 3), torch.ones(2, 3), torch.ones(4, 3)):
        text, _, _ = offered(
            source, "int(torch.as_tensor(x.size(0)))", "scalar extraction", x, rule="FG222"
        )
        assert "return int(x.size(0))" in text
    merge(module.parent, keep=False)
    assert len(RecordedRuns(module).answers) == 2


def test_a_recording_holds_on_another_machine(module: Path) -> None:
    runs = record(module, one=str(Path(__file__)), other=torch.__file__)
    text = runs.path.read_text()
    assert "{project}/tests/test_recorded.py" in text
    assert "{site-packages}/torch/__init__.py" in text
    assert [*runs.answers.values()] == [__file__, torch.__file__]


def test_files_of_functions_that_children_call_are_noted(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("the test\n")
    with noting_executed_files(notes):
        if not (child := os.fork()):
            encode(1)
            os._exit(0)
        os.waitpid(child, 0)
        digest_of(1)
    decode(1)
    ours = {f"tests/recorded/{name}.py" for name in ("executed", "plain", "runs")}
    assert read_notes(notes).keys() == ours


def test_a_test_is_unchanged_while_its_files_are(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tests.recorded.executed._called_on_import", dict)
    files = ExecutedFiles(tmp_path / "executed.json")
    assert not files.are_unchanged("test")
    other = {"rewrites/rule.py": {"Rule.answer"}}
    files.update({"test": {"diagnose/explain.py": {"explain"}}, "other": other})
    again = ExecutedFiles(tmp_path / "executed.json")
    assert again.are_unchanged("test") and again.are_unchanged("other")
    assert "compiler/observe/summaries.py" not in files.path.read_text()
    assert "diagnose/evidence.py" in files.path.read_text()  # from which explain.py imports
    monkeypatch.setattr(
        "tests.recorded.executed._digest_of_file",
        lambda name: "changed" if name == "diagnose/evidence.py" else name,
    )
    again.update({"other": other})
    assert not again.are_unchanged("test") and again.are_unchanged("other")


def test_a_test_is_unchanged_while_the_data_that_it_read_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tests.recorded.executed.ROOT", tmp_path)
    monkeypatch.setattr("tests.recorded.executed._with_imports", dict)
    monkeypatch.setattr("tests.recorded.executed._called_on_import", dict)
    monkeypatch.setattr("tests.recorded.executed._digest_of_file", _digest_of_file.__wrapped__)
    data, notes = tmp_path / "golden.json", tmp_path / "notes"
    data.write_text('{"a": 1, "b": 1}')
    notes.write_text("a\n")
    with noting_executed_files(notes):
        note_data(data, "a")
    executed = ExecutedFiles(tmp_path / "executed.json")
    executed.update({"a": read_notes(notes), "all": {"golden.json#": set()}})
    for text, unchanged in (('{"a": 1, "b": 2}', True), ('{"a": 2, "b": 1}', False)):
        data.write_text(text)
        assert (executed.are_unchanged("a"), executed.are_unchanged("all")) == (unchanged, False)


SOURCE = """LIMIT = 3


def called():
    # why
    return LIMIT


class Model:
    def forward(self):
        def local():
            return 1

        return local()


VALUE = called()


def other(): return 2
"""


def test_of_a_file_counts_what_runs_on_import_and_what_was_called(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("tests.recorded.executed.ROOT", tmp_path)
    monkeypatch.setattr("tests.recorded.executed._with_imports", dict)
    monkeypatch.setattr("tests.recorded.executed._called_on_import", lambda: {"m.py": {"called"}})
    file = tmp_path / "m.py"

    def write(text: str) -> None:
        file.write_text(text)
        _bodies_in.cache_clear()
        _digest_of_file.cache_clear()

    write(SOURCE)
    executed = ExecutedFiles(tmp_path / "executed.json")
    executed.update({"imports": {"m.py": set()}, "calls": {"m.py": {"Model.forward"}}})
    for old, new, unchanged in (
        ("return 1", "return 3", [True, False]),
        ("# why", "# how", [False, False]),
        ("LIMIT = 3", "LIMIT = 4", [False, False]),
        ("return 2", "return 5", [False, False]),
        ("", "", [True, True]),
    ):
        write(SOURCE.replace(old, new))
        again = ExecutedFiles(executed.path)
        assert [again.are_unchanged(test) for test in ("imports", "calls")] == unchanged, old


def test_a_nightly_run_goes_on_after_an_interruption(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.setattr("benchmarks.nightly.REPORT", report := tmp_path / "nightly.md")
    monkeypatch.setattr("benchmarks.nightly.ROOT", tmp_path)
    parts = [Part("first", ("echo", "one")), Part("second", ("ls", str(tmp_path / "there")))]
    state = tmp_path / "parts.json"
    assert run("1234567", parts, Progress(state)) == 1
    assert not report.exists()
    (tmp_path / "there").touch()
    assert run("1234567", parts, Progress(state)) == 0
    assert capfd.readouterr().out.splitlines().count("one") == 1
    assert "Last green on 1234567." in report.read_text()


def test_an_interrupted_part_is_not_done(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.nightly.subprocess.run", raise_interrupt)
    state = tmp_path / "parts.json"
    with pytest.raises(KeyboardInterrupt):
        run("1234567", [Part("tests", ("pytest",), (0, 1))], Progress(state))
    assert Progress(state).done == []


def raise_interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


def test_what_passed_counts_on_a_later_commit_that_changes_only_tests(tmp_path: Path) -> None:
    earlier, later = tmp_path / "1234567", tmp_path / "89abcde"
    (earlier / "tests").mkdir(parents=True)
    passed = [
        f"tests/{name}::test_one[x]"
        for name in ("a/test_a.py", "a/test_b.py", "b/test_c.py", "test_golden.py", "test_e.py")
    ]
    (earlier / "tests" / "passed.txt").write_text("".join(f"{name}\n" for name in passed))
    (earlier / "golden.jsonl").write_text("answers")
    Progress(earlier / "parts.json").add("lint", 1.0, passed=True)
    assert not take_over(later, earlier, ["tests/test_e.py", "rewrites/plan.py"])
    assert not take_over(later, earlier, ["tests/conftest.py"])
    assert not later.exists()
    changed = ["tests/a/conftest.py", "tests/b/recorded/c.json", "benchmarks/golden/models.json"]
    assert take_over(later, earlier, changed)
    assert (later / "tests" / "passed.txt").read_text() == f"{passed[3]}\n{passed[4]}\n"
    assert take_over(later, earlier, ["benchmarks/golden/rules.json"])
    assert passed[3] not in (later / "tests" / "passed.txt").read_text()
    assert (later / "golden.jsonl").read_text() == "answers"
    progress = Progress(later / "parts.json")
    assert (progress.done, progress.seconds) == ([], {"lint": 1.0})

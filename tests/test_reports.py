"""The reports of `benchmarks/reports` and their table agree, and a sample of them is minified."""

import json
from pathlib import Path

import pytest

from benchmarks.reports import FILES, REPORTS
from fullgraph.cli import main
from fullgraph.compiler.ladder import RUNGS

CONTROLS = [report for report in REPORTS.values() if report.is_control]
BUGS = [report for report in REPORTS.values() if not report.is_control]


def test_every_file_has_a_row():
    assert set(FILES) == set(REPORTS)


def test_rows_are_complete():
    rungs = {rung.name for rung in RUNGS}
    for report in BUGS:
        assert report.source.startswith("https://github.com/pytorch/pytorch/issues/"), report.name
        assert report.rung in rungs and report.kind in ("accuracy", "exception"), report.name
        assert report.title and report.diagnosis, report.name


def test_there_are_enough_of_each_kind():
    captured = [report for report in BUGS if report.rung in ("dynamo", "aot_eager")]
    assert len(BUGS) >= 12 and len(captured) >= 6 and len(CONTROLS) >= 6


def test_no_report_is_a_development_bug():
    sources = [report.source for report in BUGS]
    assert len(set(sources)) == len(sources)


def test_programs_can_be_built():
    for report in REPORTS.values():
        model, inputs = report.build()
        assert callable(model) and isinstance(inputs, tuple), report.name


def minify(name, capsys, tmp_path):
    """Run the command on a report and return its JSON."""
    report = REPORTS[name]
    out = tmp_path / f"{name}.py"
    main(["minify", f"{report.file}:build", *report.flags, "--json", "--issue", "--out", str(out)])
    return json.loads(capsys.readouterr().out)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("name", ["tensor_of_size", "multilabel_padding", "addmm_ignores_input"])
def test_a_report_comes_down_to_a_small_script(name, capsys, tmp_path):
    found, report = minify(name, capsys, tmp_path), REPORTS[name]
    assert found["first_failing"] == report.rung and found["standalone"], found
    assert found["lines"] <= report.lines, found
    assert Path(found["script"]).read_text() in found["issue"]


@pytest.mark.compiles
@pytest.mark.parametrize("name", ["control_unseeded_noise", "control_raises_in_eager"])
def test_a_control_is_refused(name, capsys, tmp_path):
    found = minify(name, capsys, tmp_path)
    assert REPORTS[name].refusal in found["refused"] and not found.get("issue")

"""Every format is valid, and its places are those of the source in the reader's units."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.check.codes import CODES
from fullgraph.rewrites.review import FORMATS, parse_outputs, review_of, write_outputs
from tests.rewrites.review.findings import SOURCE, result_of

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.fixture
def review(tmp_path):
    (tmp_path / ".git").mkdir()
    return review_of(result_of(tmp_path), tmp_path)


def validate(data, schema):
    definition = json.loads((SCHEMAS / schema).read_text())
    kind = jsonschema.validators.validator_for(definition)
    kind.check_schema(definition)
    kind(definition, format_checker=kind.FORMAT_CHECKER).validate(data)


def utf16(line, start, end):
    return line.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def test_sarif_is_valid_and_its_columns_are_utf16(review):
    log = json.loads(FORMATS["sarif"](review))
    validate(log, "sarif-2.1.0.json")
    run = log["runs"][0]
    assert run["columnKind"] == "utf16CodeUnits"
    first = run["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"] == {"uri": "net.py", "uriBaseId": "SRCROOT"}
    region = first["region"]
    line = SOURCE.split("\n")[region["startLine"] - 1]
    assert utf16(line, region["startColumn"] - 1, region["endColumn"] - 1) == "x.item()"
    other = run["results"][2]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(other) == "a folder/50%, done.py" and " " not in other
    assert [one["level"] for one in run["results"]] == ["warning", "warning", "note"]


def test_sarif_lists_all_rules_and_each_result_names_its_own(review):
    run = json.loads(FORMATS["sarif"](review))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES.values())
    assert all(rule["helpUri"].startswith("https://") for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_fix_replaces_the_statement(review):
    result = json.loads(FORMATS["sarif"](review))["runs"][0]["results"][1]
    lines = SOURCE.split("\n")
    (change,) = result["fixes"][0]["artifactChanges"]
    for edit in reversed(change["replacements"]):
        region = edit["deletedRegion"]
        head = lines[region["startLine"] - 1][: region["startColumn"] - 1]
        tail = lines[region["endLine"] - 1][region["endColumn"] - 1 :]
        text = head + edit["insertedContent"]["text"] + tail
        lines[region["startLine"] - 1 : region["endLine"]] = [text]
    assert "        x = torch.where(x.sum() > 0, x + 1, x - 1)" in lines


def test_sarif_names_what_was_not_checked(review):
    (run,) = json.loads(FORMATS["sarif"](review))["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == "It was not checked: line 1 is not valid Python."
    place = note["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "broken.py", "uriBaseId": "SRCROOT"}


def test_a_clean_run_has_empty_results(review):
    clean = review.keep(lambda one: False)
    log = json.loads(FORMATS["sarif"](clean))
    validate(log, "sarif-2.1.0.json")
    assert log["runs"][0]["results"] == []
    assert json.loads(FORMATS["rdjson"](clean))["diagnostics"] == []
    assert json.loads(FORMATS["gitlab"](clean)) == []
    assert FORMATS["github"](clean) == ""


def test_rdjson_is_valid_and_its_columns_are_bytes(review):
    data = json.loads(FORMATS["rdjson"](review))
    validate(data, "rdformat.json")
    first, second, third = data["diagnostics"]
    span = first["location"]["range"]
    line = SOURCE.split("\n")[6].encode()
    assert line[span["start"]["column"] - 1 : span["end"]["column"] - 1] == b"x.item()"
    (suggestion,) = second["suggestions"]
    assert suggestion["text"] == "x = torch.where(x.sum() > 0, x + 1, x - 1)"
    assert suggestion["range"]["start"] == {"line": 8, "column": 9}
    assert suggestion["range"]["end"] == {"line": 11, "column": 22}
    assert third["severity"] == "INFO" and "suggestions" not in third


def test_github_annotations_are_escaped(review):
    first, second, third = FORMATS["github"](review).splitlines()
    assert first == (
        "::warning file=net.py,line=7,endLine=7,col=23,endColumn=31,"
        "title=FGB111 scalar extraction::`x.item()` takes a number,%0Aout: 100 %25."
    )
    assert "title=FGB101 data-dependent branch::" in second
    assert third.startswith("::notice file=a folder/50%25%2C done.py,line=8,endLine=9,title=")
    assert "title=FGR101 recompile%3A number attribute::" in third


def test_gitlab_issues_have_what_gitlab_asks_for(review):
    issues = json.loads(FORMATS["gitlab"](review))
    assert len({one["fingerprint"] for one in issues}) == 3
    assert issues[2]["location"] == {
        "path": "a folder/50%, done.py",
        "lines": {"begin": 8, "end": 9},
    }
    assert [one["severity"] for one in issues] == ["major", "major", "minor"]
    assert issues[0]["check_name"] == "FGB111"


def test_json_has_the_fingerprints(review):
    data = json.loads(FORMATS["json"](review))
    assert data["schema"] == 1
    prints = [one["fingerprint"] for one in data["findings"]]
    assert prints == [one.fingerprint for one in review.remarks]


def test_text_has_the_caret(review):
    lines = FORMATS["text"](review).splitlines()
    assert lines[0].endswith(":7:23 FGB111 `x.item()` takes a number,")
    assert any(line.strip() == "^^^^^^^^" for line in lines)


def test_a_cell_is_named_where_lines_are_those_of_a_file(review, tmp_path):
    notebook = tmp_path / "net.ipynb"
    cells = [{"cell_type": "code", "source": SOURCE}]
    notebook.write_text(json.dumps({"cells": [*cells, *cells]}))
    finding = replace(review.result.findings[0], file=str(notebook), cell=2)
    noted = review_of(replace(review.result, findings=(finding,)), tmp_path)
    assert noted.lines.expression(finding) == "x.item()"
    log = json.loads(FORMATS["sarif"](noted))
    validate(log, "sarif-2.1.0.json")
    location = log["runs"][0]["results"][0]["locations"][0]
    assert location["message"]["text"] == "Cell 2, line 7"
    validate(json.loads(FORMATS["rdjson"](noted)), "rdformat.json")
    assert "Cell 2, line 7: " in FORMATS["github"](noted)
    assert "Cell 2, line 7: " in FORMATS["gitlab"](noted)


def test_outputs_go_where_they_are_sent(review, tmp_path, capsys):
    outputs = parse_outputs(["github", f"sarif:{tmp_path}/out.sarif", f"text:{tmp_path}/a:b"])
    write_outputs(review, outputs)
    assert capsys.readouterr().out == FORMATS["github"](review)
    assert (tmp_path / "out.sarif").read_text() == FORMATS["sarif"](review)
    assert (tmp_path / "a:b").read_text() == FORMATS["text"](review)


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (["junit"], "no format 'junit': write text, json, sarif"),
        (["sarif:"], "names no file"),
        (["text", "json"], "Two outputs go to stdout"),
        (["text:x", "json:x"], "Two outputs go to x"),
    ],
)
def test_bad_outputs_are_refused(outputs, said):
    with pytest.raises(FullgraphError, match=said):
        parse_outputs(outputs)


def test_a_file_that_cannot_be_written_is_one_sentence(review, tmp_path):
    with pytest.raises(FullgraphError, match=r"cannot be written: .*; give another path\.$"):
        write_outputs(review, parse_outputs([f"sarif:{tmp_path}/no/such/folder"]))

import json

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from fullgraph.compiler.errors import FullgraphError
from fullgraph.diagnose.report.data import from_dict, to_dict
from fullgraph.diagnose.report.schema import EXPLAIN

from .explanations import CLEAN, TROUBLED, TWO, many
from .strategies import EXPLANATION

SCHEMA = Draft202012Validator(EXPLAIN)


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(EXPLAIN)


@pytest.mark.parametrize("explanation", [CLEAN, TWO, TROUBLED, many(30)])
def test_every_sort_is_valid_json(explanation):
    SCHEMA.validate(json.loads(json.dumps(to_dict(explanation), allow_nan=False)))


def test_a_cause_has_its_position_flat():
    cause = TWO.to_dict()["causes"][0]
    assert (cause["file"], cause["line"], cause["column"]) == ("models/net.py", 14, 16)
    assert (cause["end_line"], cause["end_column"]) == (14, 33)
    assert cause["function"] == "Net.forward"
    assert cause["module_path"] == "layers[0..2]"
    assert "position" not in cause


def test_modes_stand_side_by_side():
    modes = TWO.to_dict()["modes"]
    assert (modes["default"]["graphs"], modes["default"]["breaks"]) == (3, 4)
    assert (modes["fullgraph"]["ok"], modes["fullgraph"]["breaks"]) == (False, 1)


@pytest.mark.parametrize("name", EXPLAIN["required"])
def test_the_schema_asks_for_each_named_field(name):
    data = to_dict(TWO)
    del data[name]
    assert not SCHEMA.is_valid(data)


@pytest.mark.parametrize("name", EXPLAIN["properties"]["causes"]["items"]["required"])
def test_the_schema_asks_for_each_field_of_a_cause(name):
    data = to_dict(TWO)
    del data["causes"][0][name]
    assert not SCHEMA.is_valid(data)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(EXPLANATION)
def test_json_and_back_is_the_same_explanation(explanation):
    data = json.loads(json.dumps(to_dict(explanation)))
    SCHEMA.validate(data)
    assert from_dict(data) == explanation


def test_unknown_fields_are_of_a_newer_fullgraph_and_ignored():
    data = to_dict(TWO)
    data["added"] = 1
    data["causes"][0]["added"] = 2
    assert to_dict(from_dict(data)) == to_dict(TWO)


def test_missing_fields_with_a_default_are_of_an_older_fullgraph():
    data = to_dict(CLEAN)
    del data["measurement"], data["complete"]
    assert to_dict(from_dict(data)) == to_dict(CLEAN)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {"schema": 1},
        {"causes": []},
        {"schema": 1, "causes": []},
        {"schema": 1, "causes": 3, "modes": {}},
        {"schema": 1, "causes": [], "modes": None},
        {**to_dict(TWO), "schema": 2},
        {**to_dict(TWO), "causes": [{"id": "C1"}]},
        {**to_dict(TWO), "causes": ["C1"]},
        {**to_dict(TWO), "torch": 2.13},
        {**to_dict(TWO), "runs": [["one"]]},
    ],
)
def test_what_is_not_ours_is_refused_in_one_sentence(data):
    with pytest.raises(FullgraphError, match=r"(?s)^This .*--json`\.$"):
        from_dict(data)

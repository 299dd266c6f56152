import libcst as cst
import pytest

from fullgraph.rewrites.analysis import (
    difference_in_operator,
    frame_lookup,
    walk,
    written_variable,
)
from fullgraph.rewrites.source import parse_document

SOURCE = """import inspect
import sys
import warnings
from sys import _getframe

import torch

SCALE, SEEN, FIXED = 2.0, [], 1.0


def caller():
    return inspect.currentframe().f_back.f_code.co_name


def names(x):
    return f"{caller()}: {x}"


def level(x):
    warnings.warn("large", stacklevel=2)


def aliased(x):
    return _getframe(1).f_lineno


def plain(x):
    warnings.warn("large")
    return x * FIXED


def set_scale(value):
    global SCALE
    SCALE = value
    SEEN.append(value)


def scaled(x):
    return x * SCALE


def through(x):
    return scaled(x)


def counted(x):
    return x * len(SEEN)


def own(x, SCALE):
    return x * SCALE


def mode(x):
    return f"{torch.is_grad_enabled()} {x}"
"""


def asked(question, name):
    document = parse_document("model.py", SOURCE)
    function = next(
        one
        for one in walk(document.module)
        if isinstance(one, cst.FunctionDef) and one.name.value == name
    )
    return question(document, [function.body])


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("names", "inspect.currentframe()"),
        ("level", 'warnings.warn("large", stacklevel=2)'),
        ("aliased", "_getframe(1)"),
        ("plain", ""),
    ],
)
def test_a_look_at_frames_is_found_in_what_a_function_calls(name, code):
    assert asked(frame_lookup, name) == code


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("scaled", "SCALE"),
        ("through", "SCALE"),
        ("counted", "SEEN"),
        ("set_scale", "SCALE"),
        ("own", None),
        ("plain", None),
    ],
)
def test_a_global_that_a_function_writes_is_found(name, variable):
    found = asked(written_variable, name)
    assert (found and found[0]) == variable
    assert found is None or SOURCE.splitlines()[found[1] - 1].strip().startswith(variable)


def test_what_an_operator_would_answer_otherwise_is_told():
    assert "`torch.is_grad_enabled()` is another" in asked(difference_in_operator, "mode")
    assert "looks at the frames" in asked(difference_in_operator, "aliased")
    assert asked(difference_in_operator, "scaled") == ""

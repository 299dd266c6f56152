import pytest

from tests.rewrites.harness import offered

SOURCE = """import torch

{initial}


def f(x):
    global CALLS
    {body}
    return x * CALLS
"""


def ask(initial, body):
    source = SOURCE.format(initial=initial, body=body)
    return source, *offered(source, "CALLS", "recompile: global", rule="FG853")


@pytest.mark.parametrize(
    ("initial", "body"),
    [
        ("CALLS = None", "CALLS += 1"),
        ("CALLS = 0", "CALLS = 2"),
        ("CALLS = OTHER = 0", "CALLS += 1"),
    ],
)
def test_left_alone(initial, body):
    _, text, rewrites, refusals = ask(initial, body)
    assert not rewrites and refusals, text


def test_fixed():
    source, text, rewrites, _ = ask("CALLS = 0  # so far", "CALLS += 1")
    new = source.replace("= 0", "= torch.tensor(0)").replace("CALLS += 1", "CALLS = CALLS + 1")
    assert text == new and rewrites[0].numbers

"""The texts of breaks and guards, taken apart."""

from __future__ import annotations

import pytest

from fullgraph.compiler.recording import parse_graph_break, parse_guard
from tests.text import block

PRINT = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`
    with these arguments.
  Hint: Avoid calling it.
  Hint: Report it.

  Developer debug context: builtin print [] False

 For more details about this graph break, please visit: https://x.org/gb/gb0059.html"""
LOOP = """graph break in loop
  Explanation: torch.compile cannot resume in a loop.
  Hint: Move it out.

  Developer debug context: frame skipped: f"""


def test_a_break_is_taken_apart() -> None:
    text = parse_graph_break(PRINT)
    assert (text.gb_type, text.gb_id) == ("Failed to trace builtin operator", "GB0059")
    assert text.explanation.endswith("`print`\nwith these arguments.")
    assert text.context == "builtin print [] False"
    assert text.hints == ("Avoid calling it.", "Report it.")
    assert text.wrappers == ()


def test_a_break_while_another_is_handled_is_its_wrapper() -> None:
    another = "*** While handling this graph break, another graph break occurred: ***"
    text = parse_graph_break(f"{PRINT}\n\n{another}\n\n{LOOP}")
    assert text.gb_id == "GB0059"
    assert text.wrappers == ("graph break in loop",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line",
        block("""
            two
            lines"""),
    ],
)
def test_other_text_is_a_type_of_its_first_line(text: str) -> None:
    assert parse_graph_break(text).gb_type == text.partition("\n")[0]


@pytest.mark.parametrize(
    ("reason", "text", "place"),
    [
        (
            '0/1: k == 0.0    # return x * k  # m.py:2 in f\nUser stack trace:\n  File "/m.py", '
            "line 2, in f\n    return x * k",
            "k == 0.0",
            ("/m.py", 2),
        ),
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5", None, None),
        ("len(parts) == 3", "len(parts) == 3", None),
    ],
)
def test_a_guard_is_taken_apart(
    reason: str, text: str | None, place: tuple[str, int] | None
) -> None:
    guard = parse_guard(reason)
    assert guard.text == (text or reason.partition(": ")[2])
    assert (guard.position and (guard.position.file, guard.position.line)) == place


def test_a_guard_names_what_it_guards() -> None:
    assert "L['x']" in parse_guard("tensor 'x' size mismatch at index 0.").sources

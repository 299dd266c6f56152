import ast

import pytest

from fullgraph.rewrites.source.wrapping import wrap_new_lines

NAME = "a_rather_long_name_of_a_tensor"


@pytest.mark.parametrize(
    "line",
    [
        "x = 1",
        f"x = {' + '.join([NAME] * 4)}",
        f"x = f({', '.join([NAME] * 3)})  # noqa: E501",
        f"text = '{'(' * 100}'",
        f"with {NAME}, torch.autocast('cpu') if {NAME} else {NAME}: pass",
    ],
)
def test_left_alone(line):
    assert wrap_new_lines("", line) == line


def test_lines_that_were_there_stay():
    line = f"x = f({', '.join([NAME] * 3)})\n"
    assert wrap_new_lines(line, f"{line}y = 1\n") == f"{line}y = 1\n"


def test_the_longest_line_of_the_file_is_the_limit():
    line = f"x = f({', '.join([NAME] * 3)})\n"
    assert wrap_new_lines("#" * len(line), line) == line


def test_a_comment_at_the_end_becomes_a_line_above():
    line = f"if x:\n    x = f({NAME}, {NAME})  # of both"
    assert wrap_new_lines("", line) == line
    longer = line.replace("both", "both, since one alone does not do")
    assert wrap_new_lines("", longer) == (
        f"if x:\n    # of both, since one alone does not do\n    x = f({NAME}, {NAME})"
    )


def test_the_longest_brackets_are_split():
    line = f"if x:\n    {NAME}[:, None] = torch.where({NAME}[:, None], {NAME}, 0)\n"
    assert wrap_new_lines("", line) == (
        f"if x:\n    {NAME}[:, None] = torch.where(\n        {NAME}[:, None], {NAME}, 0\n    )\n"
    )


def test_what_follows_the_brackets_is_split_too():
    line = f"x = f({NAME}, {NAME}, {NAME}) / 2 + another_function({NAME}, {NAME}, 1)\n"
    assert wrap_new_lines("", line) == (
        f"x = f(\n    {NAME},\n    {NAME},\n    {NAME},\n) / 2 + another_function(\n"
        f"    {NAME}, {NAME}, 1\n)\n"
    )


def test_a_long_first_line_of_a_statement_is_split_with_the_others():
    line = f"x = f({NAME}, {NAME}) + another_function([\n    1,\n    2,\n])\n"
    assert wrap_new_lines("", line) == (
        f"x = f(\n    {NAME}, {NAME}\n) + another_function([1, 2])\n"
    )
    comment = line.replace("1,", "1,  # the first one")
    assert ast.dump(ast.parse(wrap_new_lines("", comment))) == ast.dump(ast.parse(comment))


def test_each_call_of_a_chain_gets_a_line():
    call = f"torch.zeros({NAME}).add({NAME}, {NAME})"
    line = f"if x:\n    x.y += {call}.reshape(\n        2, 1\n    )\n"
    assert wrap_new_lines("", line) == (
        f"if x:\n    x.y += (\n        torch.zeros({NAME})\n        .add({NAME}, {NAME})\n"
        "        .reshape(2, 1)\n    )\n"
    )


def test_arguments_that_do_not_fit_get_a_line_each():
    line = f"while f({NAME}, g({NAME}, {NAME}, {NAME}), {NAME}):\n    pass\n"
    inner = f"        {NAME},\n" * 3
    assert wrap_new_lines("", line) == (
        f"while f(\n    {NAME},\n    g(\n{inner}    ),\n    {NAME},\n):\n    pass\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        f"x = f(*{NAME}, **{NAME}, key={NAME}[1, 2], other={NAME})",
        f"x = [{NAME} for a, {NAME} in {NAME}.items()], ({NAME},)",
        f"x = ({NAME} + {NAME}) * ({NAME} + {NAME}[{NAME}])",
        f"x = f'{{{NAME}}} and {{{NAME}}}', {{'key': {NAME}, 'other': {NAME}}}",
    ],
)
def test_meaning_stays(line):
    made = wrap_new_lines("", line + "\n")
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(line))
    assert len(made.splitlines()[0]) < 88

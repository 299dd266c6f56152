"""Entries that are named: functions that run compiled though the source does not show it."""

from textwrap import indent

import pytest

from fullgraph.cli import main
from fullgraph.rewrites.check import check
from tests.text import block

LOOP = """\
class Trainer:
    def step(self, x):
        print(x)


def step(x):
    print(x)
"""


@pytest.fixture
def loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


def lines(*entries):
    return [one.line for one in check(["loop.py"], entries=entries).findings]


def test_nothing_is_an_entry_unless_named(loop):
    assert lines() == []


def test_functions_and_methods_can_be_named(loop):
    assert lines("loop:step") == [7]
    assert lines("loop:Trainer.step") == [3]
    assert lines("loop:step", "loop:Trainer.step") == [3, 7]


def test_entries_of_files_that_are_not_checked_are_left_alone(loop):
    assert lines("other:step") == []


@pytest.mark.parametrize("name", ["loop:gone", "loop:Trainer.gone", "loop:Trainer", "loop", ":x"])
def test_a_name_without_a_function_is_bad_input(loop, name, capsys):
    assert main(["check", "loop.py", "--entry", name]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and name.rpartition(":")[2] in said


def test_pyproject_names_entries(loop, capsys):
    (loop / "pyproject.toml").write_text(
        block("""
            [tool.fullgraph.check]
            entry = ["loop:step"]
        """)
    )
    assert main(["check", "loop.py"]) == 1
    assert "loop.py:7:5 FGB201" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("above", "decorator"),
    [
        ("", "torch.compile"),
        ("", "torch.compile(mode='max-autotune')"),
        ("", "functools.partial(torch.compile, dynamic=True)"),
        ("", "functools.partial(torch.compile, dynamic=True)()"),
        ("fast = functools.partial(torch.compile, dynamic=True)", "fast"),
        ("fast = torch.compile(dynamic=True)\nfaster = fast", "faster"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_what_compiles_may_have_arguments_and_another_name(loop, above, decorator, nested):
    function = f"@{decorator}\ndef step(x):\n    print(x)\n"
    if nested:
        function = f"def train(rate):\n{indent(function, '    ')}\n    return step\n"
    (loop / "loop.py").write_text(f"import functools\nimport torch\n{above}\n{function}")
    text = (loop / "loop.py").read_text().splitlines()
    assert [text[line - 1].strip() for line in lines()] == ["print(x)"]


@pytest.mark.parametrize(
    "code",
    [
        """
        def make():
            def helper(x):
                print(x)

            def step(x):
                return helper(x)

            return torch.compile(step)
        """,
        """
        def make():
            class Trainer:
                def step(self, x):
                    print(x)

            return torch.compile(Trainer().step)
        """,
        """
        def make():
            class Net(torch.nn.Module):
                def forward(self, x):
                    print(x)

            return Net()
        """,
    ],
    ids=["helper", "method", "module"],
)
def test_what_lies_in_the_function_around_is_known(loop, code):
    (loop / "loop.py").write_text(f"import torch\n{block(code)}")
    text = (loop / "loop.py").read_text().splitlines()
    assert [text[line - 1].strip() for line in lines()] == ["print(x)"]


def test_a_partial_of_something_else_compiles_nothing(loop):
    text = block("""
        import functools
        import torch


        @functools.partial(print, torch)
        def step(x):
            print(x)
    """)
    (loop / "loop.py").write_text(text)
    assert lines() == []

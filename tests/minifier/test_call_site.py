"""Texts of the statements before a call, from the file that makes it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fullgraph.minifier.extract.call_site import text_of_call
from fullgraph.minifier.reduce.source.entry_point import entry_call, load_module
from tests.text import block

LIBRARY = """\
import math

HALF = 0.5


def halve(x):
    return math.floor(x * HALF)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return halve(x) * self.factor
"""


def text_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "") -> str:
    """Run a file of the user's that calls `ask(model, inputs)`; return the text of that call."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "scales", raising=False)
    (tmp_path / "scales.py").write_text(LIBRARY)
    file = tmp_path / "program.py"
    file.write_text(text)
    found: list[str | None] = []

    def ask(*args: object, **kwargs: object) -> None:
        found.append(text_of_call(sys._getframe(1)))

    space = {"__name__": name or "__main__", "__file__": str(file), "ask": ask}
    exec(compile(text, str(file), "exec"), space)
    (made,) = found
    assert made is not None and "scales" not in made and "ask(" not in made, made
    return made


def call_of(text: str) -> object:
    model, args, kwargs = entry_call(load_module(text))
    return model(*args, **kwargs)


CALLS: Mapping[str, str] = {
    "at the top": block("""
        model = Scale(3)
        model.factor += 1
        ask(model, (n,))
    """),
    "in a block": block("""
        if True:
            model = Scale(4)
            found = ask(model, (n,), budget=3)
    """),
    "of names": block("""
        model = Scale(4)
        ask(inputs=(n,), model=model)
        raise_error = 1
    """),
    "in main": (
        block("""
            def main():
                model = Scale(1)
                for one in (2, 3):
                    model.factor += one - 1
                with open(__file__):
                    return ask(model, (n,))


            LATER = 3


            if __name__ == '__main__':
                main()
        """)
    ),
    "with a parameter": block("""
        def run(factor):
            ask(Scale(factor), n)


        run(4)
    """),
}


@pytest.mark.parametrize("where", CALLS)
def test_the_statements_before_the_call_make_the_program(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = block("""
        from scales import Scale
        import math

        n = math.floor(7.5)


    """)
    text = text_from(tmp_path, monkeypatch, start + CALLS[where])
    assert call_of(text) == 12, text


def test_keyword_arguments_are_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_from(
        tmp_path,
        monkeypatch,
        block("""
            import scales

            ask(scales.halve, (), kwargs={'x': 9})
        """),
    )
    assert call_of(text) == 4


@pytest.mark.parametrize(
    "text",
    [
        "ask(*pair)\n",
        "ask(**{'model': abs, 'inputs': (1,)})\n",
        "ask(abs)\n",
        block("""
            class Main:
                def run(self):
                    ask(abs, (1,))


            Main().run()
        """),
        block("""
            def main(given):
                ask(given, (1,))


            main(Other())
        """),
    ],
)
def test_calls_that_do_not_tell(text: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    text = f"class Other:\n    pass\n\n\npair = abs, (1,)\n{text}"
    file.write_text(text)
    found: list[str | None] = []

    def ask(*args: object, **kwargs: object) -> None:
        found.append(text_of_call(sys._getframe(1)))

    exec(compile(text, str(file), "exec"), {"__name__": "__main__", "ask": ask})
    assert found == [None]

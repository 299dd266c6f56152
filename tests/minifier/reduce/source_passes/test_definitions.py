"""Functions, classes, and what is written once."""

import pytest

from fullgraph.minifier.reduce.source import definitions, inlining
from tests.minifier.reduce.source_passes.proposed_edits import clean, proposed, together
from tests.text import block


@pytest.mark.compiles
def test_annotations_and_docstrings_go() -> None:
    text = '''
    """A module."""
    from dataclasses import dataclass

    @dataclass
    class A:
        """A class."""
        b: int = 1

    def f(a: int, *, b: "str" = 2) -> None:
        """A function."""
        c: int = a
        return c

    if __name__ == "__main__":
        f(1)
    '''
    after = together(definitions.remove_declarations, text)
    assert "b: int = 1" in after
    assert (
        block("""
            def f(a, *, b = 2):
                c = a
                return c
        """)
        in after
    )
    for gone in ('"""', "__main__"):
        assert gone not in after


def test_a_parameter_that_is_not_read_goes_with_its_arguments() -> None:
    text = """
    def f(a, b, c=1):
        return b

    def g():
        return f(1, 2, 3), f(a=1, b=2)
    """
    first, last = proposed(definitions.unread_parameters, text)
    assert "def f(b, c=1)" in first
    assert "return f(2, 3), f(b=2)" in first
    assert "def f(a, b)" in last


def test_inputs_of_the_entry_go_with_its_parameters() -> None:
    text = """
    class A:
        def forward(self, a, b):
            return b

    def build():
        return A(), (1, 2)
    """
    after = proposed(definitions.unread_parameters, text)[0]
    assert "def forward(self, b):" in after
    assert "return A(), (2,)" in after


def test_a_class_of_one_method_becomes_a_function() -> None:
    text = """
    class MyGate(nn.Module):
        def __init__(self):
            super().__init__()

        def forward(self, x):
            return x + 1

    def build():
        return MyGate().eval(), ()
    """
    assert (
        together(definitions.classes_to_functions, text).split()
        == clean("""
    def my_gate(x):
        return x + 1

    def build():
        return my_gate, ()
    """).split()
    )


def test_a_class_that_uses_itself_stays() -> None:
    text = """
    class A:
        def forward(self, x):
            return self.b

    def f(x):
        return isinstance(x, B)

    class B:
        def forward(self, x):
            return x
    """
    assert proposed(definitions.classes_to_functions, text) == []


def test_a_base_is_taken_over() -> None:
    text = """
    class A(nn.Module):
        def f(self):
            return 1

        def g(self):
            return 2

    class B(A):
        def f(self):
            return 3
    """
    without, with_it = proposed(definitions.merge_bases, text)
    assert without.count("class B(nn.Module)") == 1
    assert without.count("return 2") == 1
    assert with_it.count("return 2") == 2
    assert with_it.count("return 1") == 1


def test_variables_that_are_read_once() -> None:
    text = """
    def f(x):
        y = x + 1
        z = y * 2
        return z
    """
    assert together(inlining.inline_variables, text) == clean("""
    def f(x):
        return (x + 1) * 2
    """)


def test_variables_that_stay() -> None:
    for text in (
        block("""
            def f(x):
                y = x()
                return y + y
        """),
        block("""
            def f(x):
                y = x()
                while y:
                    pass
        """),
        block("""
            def f(x):
                y = x()
                return lambda: y
        """),
        block("""
            def f(x):
                if x:
                    y = 1
                return y
        """),
        block("""
            def f(x):
                y = 1
                y = 2
                return y
        """),
    ):
        assert proposed(inlining.inline_variables, text) == []


def test_functions_that_are_called() -> None:
    text = """
    def g(a, b=2):
        return a * b

    def h(c):
        d = c + 1
        return d

    def f(x):
        y = g(x + 1)
        z = h(y)
        return z
    """
    one, two = proposed(inlining.inline_functions, text)
    assert "y = (x + 1) * 2\n" in one
    assert "    c = y\n    d = c + 1\n    z = d\n" in two


def test_a_function_that_returns_early_is_written_in_place_of_the_last_return() -> None:
    text = """
    def g(a):
        if a:
            return 1

    def f(x):
        print(x)
        return g(x)

    def h(x):
        y = g(x)
        return y
    """
    (only,) = proposed(inlining.inline_functions, text)
    assert "    print(x)\n    a = x\n    if a:\n        return 1\n" in only


def test_attributes_that_are_names() -> None:
    text = """
    def g(x):
        return x

    class A:
        def __init__(self):
            self.g = g
            self.n = 3
            self.m = make()

        def forward(self, x):
            return self.g(x) * self.n + self.m
    """
    after = together(inlining.inline_attributes, text)
    assert "return g(x) * 3 + self.m" in after
    assert "self.m = make()" in after
    assert "self.g" not in after

"""The normal form, and what goes along with a change."""

import ast
import textwrap

import pytest

from fullgraph.minifier.reduce.source.formatting import drop_unbound, drop_unreachable, normalize
from fullgraph.minifier.reduce.source.unbound_names import find_names
from tests.text import block

pytestmark = pytest.mark.compiles


def clean(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def test_normal_form() -> None:
    text = """
    # a comment
    import os; import sys


    def f(  # why
        a,
        b = 1,
    ):

        # inside
        if a: return b
        return [
            a,
            b,  # last
        ]
    x = 1
    """
    assert normalize(clean(text)) == clean("""
    import os
    import sys

    def f(a, b = 1):
        if a:
            return b
        return [a, b]

    x = 1
    """)


def test_strings_keep_their_lines() -> None:
    text = 'x = """one\n\n  # two\n"""\n'
    assert normalize(text) == text


def test_statements_that_lost_a_name_go() -> None:
    before = find_names(
        ast.parse(
            block("""
                import a

                def f(x):
                    y = a.b(x)
                    z = y + 1
                    return x
            """)
        )
    )
    text = block("""
        def f(x):
            y = a.b(x)
            z = y + 1
            return x
    """)
    assert drop_unbound(text, before) == block("""
        def f(x):
            return x
    """)


def test_a_block_that_loses_everything_passes() -> None:
    before = find_names(
        ast.parse(
            block("""
                import a
                if True:
                    a.b()
            """)
        )
    )
    assert drop_unbound(
        block("""
            if True:
                a.b()
        """),
        before,
    ) == block("""
        if True:
            pass
    """)


def test_the_entry_is_never_lost() -> None:
    before = find_names(
        ast.parse(
            block("""
                x = 1
                def build():
                    return x, ()
            """)
        )
    )
    assert (
        drop_unbound(
            block("""
                def build():
                    return x, ()
            """),
            before,
        )
        is None
    )


def test_what_is_not_reached_goes() -> None:
    text = """
    import math
    from os import path, sep
    LIMIT = 3

    def used():
        return sep

    def unused():
        return path, LIMIT

    def build():
        return used, ()
    """
    assert (
        drop_unreachable(clean(text)).split()
        == clean("""
    from os import sep
    def used():
        return sep
    def build():
        return used, ()
    """).split()
    )


def test_what_registers_itself_stays() -> None:
    text = clean("""
    import torch
    @torch.library.custom_op("a::b", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x.clone()
    print("said")
    def build():
        return torch.ops.a.b, ()
    """)
    assert drop_unreachable(text) == text


def test_nothing_is_unreached_without_an_entry() -> None:
    text = block("""
        import os
        def f():
            pass
    """)
    assert drop_unreachable(text) == text

"""When two failures are the same."""

import pytest

from fullgraph.compiler.numerics import Mismatch
from fullgraph.minifier.oracle.failure import (
    Kind,
    failure_of_difference,
    failure_of_exception,
    normalize_message,
)


@pytest.mark.parametrize(
    "one, other",
    [
        ("size mismatch [3, 4] at buf12", "size mismatch [2] at buf3"),
        ("Expected 1.5e-03 but got 2", "Expected 7 but got 0.1"),
        ("no file /tmp/a1/b2/c.py here", "no file /home/x/y.py here"),
        ("object at 0x7f00 failed", "object at 0x1 failed"),
        ("first line\nof this", "first line\nof that"),
    ],
)
def test_numbers_shapes_paths_and_names_do_not_count(one, other):
    assert normalize_message(one) == normalize_message(other)


def test_words_count():
    assert normalize_message("cannot broadcast") != normalize_message("cannot expand")


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


def test_the_inner_exception_is_the_failure():
    class Backend(Exception):
        def __init__(self, inner):
            super().__init__("backend='x' raised:")
            self.inner_exception = inner

    failure = failure_of_exception("inductor", raised(Backend(ValueError("node 3"))))
    assert failure.signature[:2] == ("ValueError", "node N")


def test_rung_kind_and_signature_make_it_the_same():
    one = failure_of_exception("inductor", raised(ValueError("a 1")))
    assert one.same(failure_of_exception("inductor", raised(ValueError("a 2"))))
    assert not one.same(failure_of_exception("aot_eager", raised(ValueError("a 1"))))
    assert not one.same(failure_of_exception("inductor", raised(TypeError("a 1"))))
    assert not one.same(None)


def test_an_exception_with_a_message_that_raises():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    assert "its message raised" in failure_of_exception("dynamo", raised(Odd())).message


def test_where_a_result_differs_does_not_count_but_what_does():
    nan = failure_of_difference("inductor", Mismatch("result", "output[0]", "nan", "1", "nan"))
    other = failure_of_difference("inductor", Mismatch("result", "output[3]", "nan", "7", "nan"))
    far = failure_of_difference("inductor", Mismatch("result", "output[0]", "value", "1", "2"))
    assert nan.same(other) and not nan.same(far)
    assert nan.kind is Kind.RESULT


def test_dtypes_count():
    def dtype(got):
        return failure_of_difference("dynamo", Mismatch("metadata", "output", "dtype", "f32", got))

    assert dtype("f64").same(dtype("f64")) and not dtype("f64").same(dtype("f16"))

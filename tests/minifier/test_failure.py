"""When two failures are the same."""

import pytest
import torch

from fullgraph.compiler.numerics import Mismatch
from fullgraph.minifier.oracle.failure import (
    Kind,
    failure_of_difference,
    failure_of_exception,
)
from fullgraph.minifier.oracle.signatures import normalize_message, strip_qualifiers


@pytest.mark.parametrize(
    "one, other",
    [
        ("size mismatch [3, 4] at buf12", "size mismatch [2] at buf3"),
        ("Expected 1.5e-03 but got 2", "Expected 7 but got 0.1"),
        ("no file /tmp/a1/b2/c.py here", "no file /home/x/y.py here"),
        ("object at 0x7f00 failed", "object at 0x1 failed"),
        ("first line\nof this", "first line\nof that"),
        ("a 'candidate.Proxy' has no len()", "a 'case.Proxy' has no len()"),
        ("a '__main__.Proxy' has no len()", "a 'build.<locals>.Proxy' has no len()"),
        ("a 'pack.models.Net.<locals>.Proxy' fails", "a 'Proxy_2' fails"),
        ("in candidate.py", "in /tmp/tmp1x/case.py"),
        ("name '___stack0' is not defined", "name '___stack1' is not defined"),
        ("guard on L['x'].shape[0]", "guard on L['self'].items[3].shape[1]"),
        ("got L_x_ in torch_dynamo_resume_in_run_at_3", "got L_self_w_ in __resume_at_12_3"),
        ("__compiled_fn_3_0a1b failed", "__compiled_fn_11_9f failed"),
    ],
)
def test_numbers_shapes_paths_and_names_do_not_count(one, other):
    assert normalize_message(one) == normalize_message(other)


def test_an_operators_error_on_fake_tensors_is_its_own():
    def of(function):
        with pytest.raises(Exception) as caught:
            torch.compile(function, backend="eager", fullgraph=True)(torch.ones(3, 3))
        return failure_of_exception("dynamo", caught.value)

    one = of(lambda x: x @ torch.ones(4, 4))
    assert one.message == (
        "TorchRuntimeError: RuntimeError: a and b must have same reduction dim, "
        "but got [3, 3] X [4, 4]."
    )
    assert one.same(of(lambda x: (x + 1) @ torch.ones(7, 2)))
    assert not one.same(of(lambda x: x.view(2, 2)))


def test_a_librarys_names_keep_their_modules():
    assert strip_qualifiers("torch.float32 of case.Proxy") == "torch.float32 of Proxy"
    assert strip_qualifiers("aten.add.Tensor") != strip_qualifiers("aten.sub.Tensor")


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


def test_a_type_is_the_same_in_another_module():
    def kind(got):
        return failure_of_difference("dynamo", Mismatch("metadata", "output", "type", "list", got))

    assert kind("Row").same(kind("build.<locals>.Row")) and not kind("Row").same(kind("Column"))


def test_dtypes_count():
    def dtype(got):
        return failure_of_difference("dynamo", Mismatch("metadata", "output", "dtype", "f32", got))

    assert dtype("f64").same(dtype("f64")) and not dtype("f64").same(dtype("f16"))

"""One form for operators, functions, methods and layers."""

from __future__ import annotations

import libcst as cst
import pytest

from fullgraph.compiler.facts import TensorSummary, ValueSummary
from fullgraph.compiler.observe import FunctionValues
from fullgraph.rewrites.analysis import Operation, Site, operation_of
from fullgraph.rewrites.source import parse_document
from tests.text import block

HEAD = block("""
    import numpy as np
    import torch
    import torch.nn.functional as F
""")
TENSOR = ValueSummary(("torch.Tensor",), 1, (TensorSummary("float32", (2,), "cpu", False, True),))


class Facts(FunctionValues):
    """Facts by the text of an expression: `a` and `b` are tensors, `layer` is a ReLU."""

    def at(self, position):
        text = document_text[position.line - 1][position.column : position.end_column]
        kinds = {"a": TENSOR, "b": TENSOR}
        kinds["layer"] = ValueSummary(("torch.nn.modules.activation.ReLU",))
        return kinds.get(text)


document_text: list[str] = []


def parse(text: str) -> Operation | None:
    """The operation of the only statement of `text`."""
    document = parse_document("model.py", HEAD + text + "\n")
    document_text[:] = (HEAD + text).splitlines()
    (small,) = cst.ensure_type(document.module.body[-1], cst.SimpleStatementLine).body
    node = small.value if isinstance(small, cst.Expr) else small
    return operation_of(Site(document, node, "", Facts()), node)


@pytest.mark.parametrize("text", ["helper(a)", "a and b", "a is b", "a < b < a", "a[b]", "a"])
def test_other_code_is_no_operation(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "text", ["a + b", "a += b", "torch.add(a, b)", "a.add(b)", "a.add_(b)", "np.add(a, b)"]
)
def test_forms_of_one_operation_are_equal(text: str) -> None:
    found = parse(text)
    assert found is not None
    assert found.name == "add"
    assert [one.value for one in found.operands] == ["a", "b"]
    assert found.in_place == (text in ("a += b", "a.add_(b)"))


@pytest.mark.parametrize("text", ["F.relu(a)", "torch.relu(a)", "a.relu()", "layer(a)"])
def test_a_layer_is_its_function(text: str) -> None:
    found = parse(text)
    assert found is not None
    assert (found.name, [one.value for one in found.operands]) == ("relu", ["a"])


def test_aliases_and_operators_have_one_name() -> None:
    names = {text: parse(text).name for text in ("a / b", "torch.true_divide(a, b)", "a.divide(b)")}
    assert set(names.values()) == {"div"}
    assert parse("a >= b").name == parse("torch.greater_equal(a, b)").name == "ge"
    assert parse("-a").name == parse("a.negative()").name == "neg"


def test_keywords_and_out_are_kept() -> None:
    found = parse("torch.sub(a, other=b, out=a)")
    assert found.in_place and set(found.keywords) == {"other", "out"}

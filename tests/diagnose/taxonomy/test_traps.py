"""What the traps say happens: a fix that changes something says what it changes."""

from __future__ import annotations

import pytest
import torch

from fullgraph.compiler.categories import Category
from fullgraph.diagnose.taxonomy.advice import FIXES
from fullgraph.diagnose.taxonomy.switches import SWITCHES
from tests.diagnose.taxonomy.snippets import breaks, compiled, eager, setting
from tests.text import block

pytestmark = pytest.mark.compiles

SCALARS, SHAPES = (
    f"torch._dynamo.config.capture_{what} = True"
    for what in ("scalar_outputs", "dynamic_output_shape_ops")
)


def traps(category: Category) -> str:
    """Everything the advice on a category warns of."""
    told = (*FIXES.get(category, ()), *SWITCHES.get(category, ()))
    return " ".join(fix.advice.trap for fix in told)


def test_the_side_not_chosen_puts_a_nan_into_the_gradient() -> None:
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    torch.where(x > 0, x.sqrt(), x).sum().backward()
    assert x.grad is not None and x.grad.isnan().any()
    assert "NaN into the gradient" in traps(Category.BRANCH)


@pytest.mark.parametrize(
    "side",
    [
        "lambda x: x",
        "lambda x: (x + 1).double()",
        "lambda x: x.add_(1).clone()",
        "lambda x: print(x)",
    ],
    ids=["input as it is", "other dtype", "in place", "print"],
)
def test_a_bad_side_of_cond_is_a_hard_error_by_default(side: str) -> None:
    with pytest.raises(Exception, match=r"cond|alias|mutat|higher order|Higher"):
        compiled(f"y = torch.cond(x.sum() > 0, {side}, lambda x: x - 1, (x,))", "default")
    assert "hard errors" in traps(Category.BRANCH)


def test_an_assert_becomes_a_runtime_error() -> None:
    text = block("""
        assert (x < 0).all(), 'positive'
        y = x + 1""")
    with pytest.raises(AssertionError):
        eager(text)
    with pytest.raises(RuntimeError):
        compiled(text, "default")
    assert "RuntimeError" in traps(Category.ASSERT)


def test_a_reordered_print_shows_a_later_value(capsys) -> None:
    def shout(x):
        total = x * 0
        print(total)
        total.add_(100)
        return total

    with setting("torch._dynamo.config.reorderable_logging_functions = {print}"):
        torch._dynamo.reset()
        torch.compile(shout, backend="eager")(torch.zeros(()))
    assert "100" in capsys.readouterr().out
    assert "not what it was at the call" in traps(Category.PRINT)


def test_a_reordered_print_takes_no_sizes() -> None:
    with setting("torch._dynamo.config.reorderable_logging_functions = {print}"):
        assert breaks(
            block("""
                print(x.shape)
                y = x + 1"""),
            "default",
        )
    assert "not `x.shape`" in traps(Category.PRINT)


@pytest.mark.parametrize(
    "text",
    [
        block("""
            if x.sum().item() > 0:
                x = x + 1
            y = x"""),
        "y = x * x[0].tolist()[0]",
    ],
)
def test_capturing_scalars_leaves_branches_and_float_lists_broken(text: str) -> None:
    with setting(SCALARS):
        assert breaks(text, "default")
    assert "breaks all the same" in traps(Category.SCALAR)


def test_capturing_shapes_leaves_branches_on_them_broken() -> None:
    with setting(SHAPES):
        assert breaks(
            block("""
                z = x[mask]
                y = z if len(z) > 3 else x"""),
            "default",
        )
    assert "branches on them" in traps(Category.MASK)


def test_a_deepcopy_is_a_leaf_and_a_clone_is_not() -> None:
    assert eager(
        block("""
            import copy
            y = copy.deepcopy(leaf).is_leaf""")
    )
    assert not eager("y = leaf.clone().is_leaf")
    assert "leaf" in traps(Category.COPY)


def test_nonzero_static_fills_with_minus_one_and_drops() -> None:
    mask = torch.tensor([True, False, True])
    assert torch.nonzero_static(mask, size=3).flatten().tolist() == [0, 2, -1]
    assert torch.nonzero_static(mask, size=1).flatten().tolist() == [0]
    assert "missing ones are -1" in traps(Category.NONZERO)


def test_equal_shapes_are_not_asked_for_by_comparing() -> None:
    row, table = torch.ones(2), torch.ones(3, 2)
    assert not torch.equal(row, table)
    assert (row == table).all()
    assert "broadcasts" in traps(Category.COMPARISON)


@pytest.mark.parametrize("text", ["y = torch.zeros(int(labels.max()) + 1)", "y = rnn(x)[0]"])
def test_what_has_no_rewrite_still_breaks(text: str) -> None:
    assert breaks(text, "default")

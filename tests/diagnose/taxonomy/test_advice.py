"""What is advised, in which order, and in whose words."""

from __future__ import annotations

import pytest

from fullgraph.compiler.categories import Category
from fullgraph.diagnose.causes import diagnose
from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy.advice import FIXES, with_user_expression
from tests.diagnose.taxonomy.snippets import a_break, breaks
from tests.text import block


def advice_on(example: str, expression: str) -> tuple[Advice, ...]:
    """What is advised on the first break of an example."""
    return diagnose(breaks(example, "default")[0], expression=expression).advice


def texts(example: str, expression: str) -> list[str]:
    return [advice.text for advice in advice_on(example, expression)]


def in_words(category: Category, expression: str) -> str:
    """The first example of a category that changes with the user's expression."""
    for fix in FIXES[category]:
        advice = with_user_expression(fix.advice, category, expression)
        if advice.before == expression:
            return advice.after
    return ""


@pytest.mark.compiles
def test_code_comes_before_settings() -> None:
    kinds = [a.kind for a in advice_on("y = x * x.sum().item()", "x.sum().item()")]
    assert kinds == sorted(kinds)
    assert set(kinds) == {"code", "config"}


@pytest.mark.compiles
def test_a_setting_always_names_a_trap() -> None:
    settings = advice_on(
        block("""
            print(x)
            y = x"""),
        "print(x)",
    )
    assert all(advice.trap for advice in settings if advice.kind == "config")


@pytest.mark.compiles
def test_both_uses_of_a_mask_are_advised_on() -> None:
    found = texts("y = x[mask].sum()", "x[mask]")
    assert "torch.where(mask, x, 0)" in found[0] and any("mean" in text for text in found)


@pytest.mark.compiles
def test_what_does_not_fit_the_expression_is_left_out() -> None:
    assert not any("repeat_interleave" in t for t in texts("y = F.one_hot(labels)", "F.one_hot(x)"))


def test_a_break_of_no_known_fix_gets_an_advice_all_the_same() -> None:
    (advice,) = diagnose(a_break("a thing nobody has named"), expression="f(x)").advice
    assert advice.text == "Move `f(x)` out of the compiled function."


def test_the_example_is_in_the_users_words_where_that_is_sure() -> None:
    assert in_words(Category.VARIABLE, "Variable(self.w, requires_grad=True)") == "self.w"
    assert in_words(Category.COPY, "copy.deepcopy(state)") == "state.clone()"
    assert in_words(Category.SCALAR, "math.sqrt(a + b)") == "(a + b).sqrt()"
    assert in_words(Category.SCALAR, "math.exp(x.sum())") == "x.sum().exp()"
    assert in_words(Category.NUMPY_SCALAR, "int(np.prod(x.shape[1:]))") == "math.prod(x.shape[1:])"
    assert in_words(Category.PRINT, "print(a)").endswith("is_compiling():\n    print(a)")


def test_the_example_stays_general_where_it_is_not() -> None:
    assert in_words(Category.COPY, "copy.deepcopy([a, b])") == ""
    assert in_words(Category.SCALAR, "math.hypot(a, b)") == ""
    assert in_words(Category.SCALAR, "not python") == ""

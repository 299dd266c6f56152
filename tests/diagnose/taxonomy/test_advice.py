"""What is advised, in which order, and in whose words."""

from __future__ import annotations

import ast
from dataclasses import replace
from textwrap import indent

import pytest

from fullgraph.compiler.categories import Category as C
from fullgraph.compiler.sources import read_source
from fullgraph.diagnose.causes import diagnose
from fullgraph.diagnose.explanation_data import Advice
from fullgraph.diagnose.taxonomy.advice import FIXES, advise, with_user_expression
from fullgraph.diagnose.taxonomy.usage import Usage
from fullgraph.diagnose.taxonomy.user_code import PARTS
from tests.diagnose.taxonomy.snippets import a_break, breaks
from tests.rewrites.harness import imported
from tests.text import block


def advice_on(example: str, expression: str) -> tuple[Advice, ...]:
    """What is advised on the first break of an example."""
    return diagnose(breaks(example, "default")[0], expression=expression).advice


def texts(example: str, expression: str) -> list[str]:
    return [advice.text for advice in advice_on(example, expression)]


def in_words(category: C, expression: str) -> str:
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
    assert in_words(C.VARIABLE, "Variable(self.w, requires_grad=True)") == "self.w"
    assert in_words(C.COPY, "copy.deepcopy(state)") == "state.clone()"
    assert in_words(C.SCALAR, "math.sqrt(a + b)") == "(a + b).sqrt()"
    assert in_words(C.SCALAR, "math.exp(x.sum())") == "x.sum().exp()"
    assert in_words(C.NUMPY_SCALAR, "int(np.prod(x.shape[1:]))") == "math.prod(x.shape[1:])"
    assert in_words(C.PRINT, "print(a)").endswith("is_compiling():\n    print(a)")


def test_the_example_stays_general_where_it_is_not() -> None:
    assert in_words(C.COPY, "copy.deepcopy([a, b])") == ""
    assert in_words(C.SCALAR, "math.hypot(a, b)") == ""
    assert in_words(C.SCALAR, "not python") == ""


@pytest.mark.parametrize(
    "category, usage, phrase, is_said",
    [
        (C.THREAD, Usage("threading.local()"), "lock around", False),
        (C.THREAD, Usage("self.lock", "with self.lock: pass"), "lock around", True),
        (C.EXCEPTION, Usage("table['b']"), "handling its error", False),
        (C.EXCEPTION, Usage("table['b']", is_handled=True), "handling its error", True),
        (C.SKIPPED, Usage("scaler.step(opt)", value="None"), "custom_op", False),
        (C.SKIPPED, Usage("s(x)", value="f32[3]", context="qualname: S.step"), "custom_op", False),
        (C.SKIPPED, Usage("nms(x)", value="i64[3]", context="qualname: nms"), "custom_op", True),
        (C.BRANCH, Usage("Wishart(x)", below="`v.any()` in torch/w.py:1"), "torch.where", False),
        (C.BRANCH, Usage("x.sum()", value="f32[] 1.5"), "torch.where(x.sum() != 0, ", True),
        (C.BRANCH, Usage("x.any()", value="bool[] True"), "torch.where(x.any(), ", True),
        (C.BRANCH, Usage("not m.any()"), "torch.where(torch.logical_not(m.any()), ", True),
        (C.BRANCH, Usage("bool(m.any())"), "torch.where(m.any(), ", True),
        (C.BRANCH, Usage("a and b"), "torch.where(a and b", False),
        (C.BRANCH, Usage("0 < x < 1"), "torch.where(0 < x", False),
        (C.PARAMETER, Usage("self.act(self.fc(x))"), "Make `self.act", False),
        (C.PRINT, Usage("for i in trange(3)"), "is_compiling", False),
        (C.BRANCH, Usage("a > b", context="UnspecializedPythonVariable"), "Draw the number", True),
        (C.MODULE, Usage("net.zero_grad()", reads="computed"), "in `__init__`", False),
        (C.NUMPY_LOOP, Usage("sizes", origins={"sizes": "x.numpy()"}), "in a list", False),
        (C.SIDE_EFFECT, Usage("a.f()", context="Reconstruction failure"), "Remove the graph", True),
        (C.GUARD, Usage("rows[i]", parts={"rows": "[1, 2]"}), "Make a tensor of what `rows`", True),
        (C.GUARD, Usage("rows[i]", parts={"rows": "f32[2]"}), "Make a tensor of what", False),
        (C.SCALAR, Usage("x[0, n[k]]", parts={"n[k]": "int64 3"}), "numbers in `x[0, n[k]]`", True),
    ],
)
def test_advice_claims_what_was_seen(category: C, usage: Usage, phrase: str, is_said: bool) -> None:
    assert (phrase in advise(category, usage)[0].text) is is_said


@pytest.mark.parametrize(
    "statement, phrase",
    [
        ("if bad.any(): raise ValueError", "_assert_async(~(bad.any()), …)"),
        ("if not bad.any(): raise ValueError", "_assert_async(bad.any(), …)"),
        ("if n > 3 or bad.any(): raise ValueError", "_assert_async(~(bad.any()), …)"),
        ("if not (n > 3 and bad.any()): raise ValueError", "_assert_async(bad.any(), …)"),
        ("if n > 3 and bad.any(): raise ValueError", "of the whole condition"),
        ("if not n and not bad.any(): raise ValueError", "of the whole condition"),
        ("if bad.any():\n    pass\nelse:\n    raise ValueError", "_assert_async(bad.any(), …)"),
        ("assert bad.any()", "_assert_async(bad.any(), …)"),
        ("assert not bad.any()", "_assert_async(~(bad.any()), …)"),
        ("for i in x:\n    if not bad.any(): break", "done | (~(bad.any()))"),
        ("for i in x:\n    if n and bad.any(): break", "a mask of the whole condition"),
        ("for i in x:\n    if not bad.any(): continue", "where `~(bad.any())` holds"),
    ],
)
def test_advice_on_a_branch_has_the_condition_with_which_it_exits(statement, phrase) -> None:
    usage = usage_in(statement, "bad.any()", value="bool[] True")
    assert phrase in advise(C.BRANCH, usage)[0].text


@pytest.mark.parametrize(
    "category, statement, expression, phrase",
    [
        (C.GUARD, "if rows.shape[0] == 0: x = y", "rows.shape[0] == 0", "from depending on data"),
        (C.GUARD, "if n < 3: x = y", "n < 3", "Where both sides compute tensors"),
        (C.GUARD, "for i in x:\n    if n < 3: break", "n < 3", "Run every iteration"),
        (C.SCALAR, "y = x[:n[0]]", ":n[0]", "Mask with `torch.arange(…) < n`"),
        (C.SCALAR, "for y in x[:n[0]][::-1]: pass", ":n[0]", "mask the rounds that do not count"),
        (C.SCALAR, "x[:n[0]] = y", ":n[0]", "Write through a mask"),
        (C.SCALAR, "x[0, n[0]:] = 0", "n[0]:", "Write through a mask"),
        (C.SCALAR, "x[:, i : i + 2] = y", "i : i + 2", "positions `i + torch.arange(2)`"),
        (
            C.SCALAR,
            "y = torch.arange(n, device=x.device)",
            "torch.arange(n, device=x.device)",
            "the caller",
        ),
        (
            C.GUARD,
            "m = x.item(); y = m == x.size(0)",
            "m == x.size(0)",
            "Where both sides compute tensors",
        ),
        (C.SCALAR, "y = x[i : i + 3]", "i : i + 3", "Index with `i + torch.arange(3)`"),
        (C.SCALAR, "n = int(x)\nif n > 3: y = n", "int(x)", "else take the number outside"),
        (C.SCALAR, "assert int(x) > 3", "int(x)", "Assert inside the graph"),
        (C.SCALAR, "print(x.item())", "x.item()", "Guard the statement"),
        (C.SCALAR, "y = torch.zeros(int(x))", "int(x)", "keep the whole size and mask"),
        (C.SCALAR, "return x.item()", "x.item()", "Return the tensor"),
        (C.MASK, "y = x[m].mean()", "x[m]", "divide by the number of elements"),
        (C.MASK, "y = x[m].sum()", "x[m]", "with a value that does not count"),
        (C.MASK, "y = g(x[m])", "x[m]", "treats each element alone"),
        (C.MASK, "y = x[m]; z = y.sum() + g(y)", "x[m]", "treats each element alone"),
        (C.BRANCH, "if m.any(): x[m] = 1", "m.any()", "Do what the branch does at all times"),
        (C.SCALAR, "n = int(x)\nif n > 3: raise ValueError", "int(x)", "Assert inside the graph"),
        (C.SCALAR, "y = x.split(n.tolist())", "n.tolist()", "Pass the sizes in as a list of ints"),
        (C.RNN, "y = self.rnn(x)", "self.rnn(x)", "or call the RNN outside"),
        (C.RNN, "y = self.rnn.weight", "self.rnn.weight", "`self.rnn.weight` is of an RNN module"),
        (C.NONZERO, "for i in m.nonzero(): pass", "m.nonzero()", "Replace the loop"),
        (C.NONZERO, "y = x[m.nonzero()]", "m.nonzero()", "Use the mask itself, as"),
        (C.NONZERO, "y = g(m.nonzero())", "m.nonzero()", "nonzero_static"),
        (C.NONZERO, "return torch.where(m)", "torch.where(m)", "Return the mask"),
        (C.NONZERO, "n = m.nonzero().min()", "m.nonzero()", "Reduce positions under the mask"),
        (C.SCALAR, "y = rows[int(n)]", "int(n)", "Index with the tensor"),
        (C.BRANCH, "if m.all(): return None", "m.all()", "one side returns None"),
        (C.BRANCH, "if m.all(): return", "m.all()", "one side returns None"),
        (
            C.BRANCH,
            "while True:\n    if a.any() or b: continue\n    else: break",
            "a.any()",
            "a mask of the whole condition",
        ),
        (
            C.AUTOGRAD,
            "g = torch.autograd.grad(f, x, v)",
            "torch.autograd.grad(f, x, v)",
            "`torch.func.vjp`",
        ),
        (
            C.AUTOGRAD,
            "loss.backward(create_graph=True)",
            "loss.backward(create_graph=True)",
            "cannot be differentiated twice",
        ),
        (
            C.DYNAMIC_SHAPE,
            "y = torch.unique(x)",
            "torch.unique(x)",
            "outside the compiled function",
        ),
        (C.DYNAMIC_SHAPE, "x = x + 1; y = torch.unique(x)", "torch.unique(x)", "Set `torch."),
        (C.BUILTIN, "x = x + 1; y = min(x, key=f)", "min(x, key=f)", "as two functions"),
        (C.CALL, "with frozen(x): pass", "frozen(x)", "Enter `frozen(x)` around"),
        (C.OBJECT, "x.table = 3", "x.table", "Move the assignment to `x.table`"),
    ],
)
def test_advice_fits_what_the_value_is_for(category, statement, expression, phrase) -> None:
    assert phrase in advise(category, usage_in(statement, expression))[0].text


@pytest.mark.parametrize(
    "part, expression, parts, code",
    [
        ("drawn", "random.random() < p", {}, "torch.rand(())"),
        ("drawn", "np.random.rand(3, 4)", {}, "torch.rand(3, 4)"),
        ("drawn", "np.random.uniform(a, b)", {}, "torch.empty(()).uniform_(a, b)"),
        ("drawn", "np.random.normal(size=3)", {}, "torch.empty(3).normal_()"),
        ("drawn", "random.randint(0, 3)", {}, "torch.randint(0, 3 + 1, ())"),
        ("drawn", "np.random.randint(5)", {}, "torch.randint(0, 5, ())"),
        ("drawn", "np.random.beta(a, b)", {}, ""),
        ("drawing", "3 * random.random()", {}, "`random.random()`"),
        ("drawing", "int(random.random())", {}, "`int(random.random())`"),
        ("tensor", "int(x)", {"x": "i64[1]"}, "the tensor"),
        ("tensor", "x.sum().item()", {"x.sum()": "f32[] 1.0"}, "the 0-d tensor"),
        ("tensor", "int(row.sum())", {"row.sum()": "int64 3"}, "the NumPy value"),
        ("indices", "np.random.choice(n)", {}, "torch.randint(n, ())"),
        ("indices", "np.random.choice(n, k)", {}, "torch.randint(n, (k,))"),
        ("indices", "np.random.choice(n, k, replace=False)", {}, "torch.randperm(n)[:k]"),
        ("indices", "random.choices(n, k=3)", {}, "torch.randint(n, (3,))"),
        (
            "indices",
            "np.random.choice(n, p=w)",
            {},
            "torch.multinomial(w, 1, replacement=True)",
        ),
        ("python", "np.zeros(np.max([3, x.shape[0]]))", {}, "max([3, x.shape[0]])"),
        ("python", "int(np.prod(x.shape[1:]))", {}, "math.prod(x.shape[1:])"),
        ("python", "np.mean(c)", {"c": "[0.25, 0.5]"}, "sum(c) / len(c)"),
        ("python", "np.mean(c)", {"c": "f32[2]"}, ""),
        ("number", "torch.topk(x, self.k)", {}, "self.k"),
        ("number", "torch.linspace(0, h - 1, h)", {"h - 1": "i64[]", "h": "i64[]"}, "h"),
        ("kind", "torch.tensor_split(x, at)", {"at": "i64[2]"}, "a list of ints"),
        ("step", "range(0, n, r)", {"r": "i64[] 2"}, "r"),
        ("step", "range(0, n, r)", {"n": "i64[] 2"}, ""),
    ],
)
def test_advice_has_code_made_of_the_expression(part, expression, parts, code) -> None:
    assert PARTS[part](Usage(expression, parts=parts)) == code


def test_the_first_index_is_that_of_the_first_true_element() -> None:
    usage = Usage("(x > 0).nonzero()", "i = (x > 0).nonzero()[0]", "i64[3, 1]")
    assert PARTS["first"](usage) == "(x > 0).int().argmax()"
    assert PARTS["first"](replace(usage, value="i64[3, 2]")) == ""
    usage = Usage("np.where(m)", "i = np.where(m)[0][0]", "tuple of i64[3]")
    assert PARTS["first"](usage) == "np.argmax(m != 0)"
    assert PARTS["first"](replace(usage, parts={"m": "bool[5]"})) == "np.argmax(m)"


def usage_in(statement: str, expression: str, **known: str) -> Usage:
    """Return the usage of an expression in a statement of a function."""
    file = read_source(str(imported(f"def f(x):\n{indent(statement, '    ')}\n").__file__))
    node = next(one for one in ast.walk(file.tree) if file.segment(one) == expression)
    around = next(one for one in file.ancestors(node) if isinstance(one, ast.stmt))
    return Usage(expression, file.segment(around), **known).within(file, node)

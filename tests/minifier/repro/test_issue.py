"""The text for a tracker."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from fullgraph.minifier.minified import Minified
from fullgraph.minifier.oracle.attempt import RungOutcome
from fullgraph.minifier.oracle.failure import Failure, Kind
from fullgraph.minifier.repro import issue as tracker
from fullgraph.minifier.repro.backend_outcomes import find_outcomes
from fullgraph.minifier.repro.fresh_interpreter import ScriptRun, asserts_itself
from fullgraph.minifier.repro.operator_names import operators
from fullgraph.minifier.repro.script_check import ScriptCheck, first_clauses
from fullgraph.minifier.rungs.bisection import Bisection
from fullgraph.minifier.rungs.culprit import Culprit
from tests.text import block

SCRIPT = """\
# torch 2.13.0
import torch


def f(x):
    return torch.nn.functional.softshrink(x, 0.5) + x.exp()


x = torch.zeros(3)
got = torch.compile(f, backend="inductor")(x)
"""
CHECK = ScriptCheck(Kind.RESULT, "nan", "0", aspect="nan", where="output[0]")
OUTCOMES = {
    "not compiled": "passes",
    'backend="eager"': "passes",
    'backend="inductor"': "fails: differs from eager",
}
RAN = ScriptRun(
    1,
    output="""\
warning: noise
Traceback (most recent call last):
  File "repro.py", line 11, in <module>
AssertionError: Tensor-likes are not close!
""",
)


def found(culprit: Culprit | None = None) -> Minified:
    failure = Failure(
        "inductor", Kind.RESULT, ("nan",), "output[0] (nan): expected -371.5, got 814.5"
    )
    rungs = {
        "eager": RungOutcome("eager", None, 0.1),
        "inductor": RungOutcome("inductor", failure, 3.0),
    }
    bisection = Bisection("2.13.0", rungs, culprit)
    return Minified(bisection, CHECK, SCRIPT, standalone=True, ran=RAN, outcomes=OUTCOMES)


@pytest.mark.compiles
def test_an_issue_has_what_a_maintainer_asks_for() -> None:
    text = tracker.issue(found())
    title, *_ = text.splitlines()
    assert title == (
        'torch.compile(backend="inductor"): wrong result of torch.nn.functional.softshrink '
        "and Tensor.exp: 0 instead of nan"
    )
    assert (
        'The result is `0` under `torch.compile(backend="inductor")` and `nan` in eager. '
        'The script passes with `backend="eager"`, so the failure begins in Inductor.\n'
    ) in text
    assert SCRIPT.strip() in text
    assert '| `backend="inductor"` | fails: differs from eager |' in text
    assert "AssertionError: Tensor-likes are not close!" in text and "noise" not in text
    assert "### Versions\n\n```\nPyTorch version: " in text and "Is debug build:" in text


@pytest.mark.compiles
def test_values_are_those_of_the_script_and_nothing_is_cut() -> None:
    text = tracker.issue(found())
    assert "371" not in text and "814" not in text  # of the whole program
    assert "…" not in text and "dynamo" not in text.partition("### Versions")[0]
    dynamic = SCRIPT.replace('backend="inductor"', 'backend="inductor", dynamic=True')
    assert dynamic != SCRIPT
    table = "| `torch.compile(…, dynamic=True)` | the script |"
    assert table in tracker.issue(replace(found(), text=dynamic))


def test_titles_say_what_is_wrong() -> None:
    def title(check: ScriptCheck) -> str:
        return tracker.title_of(check, "inductor", ("Tensor.exp",)).partition(": ")[2]

    assert title(ScriptCheck(Kind.CRASH, signature=("SIGSEGV",))) == "SIGSEGV in Tensor.exp"
    assert title(ScriptCheck(Kind.EXCEPTION, got="KeyError: 3")) == "KeyError: 3 (Tensor.exp)"
    stride = ScriptCheck(Kind.METADATA, "(1, 2)", "(2, 1)", aspect="stride")
    assert title(stride) == "wrong strides of the result of Tensor.exp: (2, 1) instead of (1, 2)"
    none = ScriptCheck(Kind.GRADIENT, "tensor([[1.]])", "None", aspect="type")
    assert title(none) == "wrong gradient of Tensor.exp: None instead of tensor([[1.]])"
    long = ScriptCheck(Kind.RESULT, "tensor([" + "1., " * 30 + "])", "0")
    assert title(long) == "wrong result of Tensor.exp"
    assert all(title(ScriptCheck(kind)) for kind in Kind)
    script = 'torch.compile(f, backend="inductor", dynamic=True)(x)'
    whole = tracker.title_of(ScriptCheck(Kind.HANG), "inductor", (), script)
    assert whole == 'torch.compile(backend="inductor", dynamic=True): does not end'


def test_a_long_error_ends_at_a_clause() -> None:
    error = "CppCompileError: error: no match for operator+ (operand types are " + "x" * 99 + ")"
    assert first_clauses(error) == "CppCompileError: error: no match for operator+"
    assert (
        first_clauses(
            block("""
                KeyError: 3.
                more""")
        )
        == "KeyError: 3"
    )
    assert first_clauses("KeyError: " + "x" * 999) == "KeyError"
    wide = "TorchRuntimeError: RuntimeError: a() && b() INTERNAL ASSERT FAILED at file.cpp"
    assert first_clauses(f"{wide} {'y' * 99}") == f"{wide} …"


def test_sentences_for_every_kind() -> None:
    for kind in Kind:
        check = ScriptCheck(kind, "1", "KeyError: 3.", where="input[0]")
        told = tracker.summarize(check, "aot_eager", SCRIPT)
        assert told.endswith(".") and ".." not in told and told[0].isupper()


def test_a_culprit_is_named_only_where_it_explains_the_failure() -> None:
    lowering = Culprit("inductor", "lowerings", 8, "sub")
    assert tracker.describe_culprit(lowering, ops_aten=9) == ""
    assert tracker.describe_culprit(lowering, ops_aten=1) == (
        "It passes if `sub` of Inductor's `lowerings` is left out."
    )
    setting = Culprit("inductor", "layout", None, "layout_optimization=False fixes it")
    assert tracker.describe_culprit(setting, ops_aten=9) == (
        "With `layout_optimization=False` it passes."
    )


OPERATORS = {
    "torch.autograd.Function.apply": """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x

        def f(x):
            return Scale.apply(x)
        """,
    "torch.nn.functional.gelu": "def f(x): return F.gelu(torch.ones(2))",
    "numpy.percentile": "def f(x): return np.percentile(x, [1])",
    "torch.nn.Linear": "def f(x): return nn.Linear(1, 1)(x)",
    "Tensor.exp": "def f(x): return x.exp()",
    "Tensor.log": "def f(x): return torch.ones(2).log()",
    "torch.ones": "def f(): return torch.ones(2)",
    "OrderedDict.move_to_end": "def f(x): return OrderedDict(a=x).move_to_end('a')",
    "Tensor.__setitem__": "def f(x): x[1:] = x[:-1]",
    "+": block("""
        def f(x):
            x = x + 1
            return x"""),
    "`x + 1`": "def f(x): return x + 1",
    "Tensor.sin": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = OrderedDict()

            def forward(self, x):
                self.kept["a"] = x.sin()
                torch._dynamo.graph_break()
                return {}
        """,
    "OrderedDict.popitem": """
        class Net(nn.Module):
            def forward(self):
                return self.kept.popitem()
        """,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_their_public_names(name: str) -> None:
    imports = block("""
        import torch
        import numpy as np
        import torch.nn.functional as F
    """)
    text = (
        imports
        + block("""
            from collections import OrderedDict
            from torch import nn
        """)
        + dedent(OPERATORS[name])
    )
    assert operators(text) == (name,)


CONSTRUCTS = {
    "the return value of a generator": block("""
        def f():
            yield 1
            return 2"""),
    "a format specification in an f-string": "def f(x): return f'a{x.shape[0]:03d}'",
    "str() of a KeyError": """
        def f():
            try:
                {}["a"]
            except KeyError as error:
                return str(error)
        """,
    "list.append to a closure variable": """
        def make():
            found = []

            def f(x):
                found.append(x)
                return x.exp()

            return f
        """,
}


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_python_constructs_are_named_for_failures_in_dynamo(name: str) -> None:
    text = "import torch\n" + dedent(CONSTRUCTS[name])
    assert tracker.subjects(text, "eager") == (name,)
    assert name not in tracker.subjects(text, "aot_eager")


def test_a_custom_operator_is_named_by_what_it_does() -> None:
    text = """
    import torch

    @torch.library.custom_op("own::fill", mutates_args=("x",))
    def fill(x: torch.Tensor) -> None:
        x.fill_(1)

    def f(x):
        torch.ops.own.fill.default(x.clone())
    """
    assert operators(dedent(text)) == (
        "a custom operator that mutates its arguments",
        "Tensor.clone",
    )


def test_inputs_that_share_memory_are_named() -> None:
    text = block("""
        import torch
        x = torch.ones(2)
        y = x[1:]
        def f(a, b): return a.exp()
        f(x, {})""")
    assert tracker.subjects(text.format("y"), "aot_eager") == (
        "a function of inputs that share memory (Tensor.exp)",
    )
    assert tracker.subjects(text.format("z"), "aot_eager") == ("Tensor.exp",)


def test_a_title_of_a_side_effect_says_what_is_compared() -> None:
    text = block("""
        def f(x):
            found.append(x)


        assert len(found) == expected""")
    check = ScriptCheck(Kind.MUTATION, "1", "0", aspect="keys", where="found")
    title = tracker.title_of(check, "eager", ("list.append",), text)
    assert title.endswith(": wrong `len(found)` after list.append: 0 instead of 1")


def test_one_element_of_several_is_named_by_its_index() -> None:
    check = ScriptCheck(Kind.RESULT, "1", "0", element="[0, 2]")
    assert tracker.summarize(check, "eager", SCRIPT).startswith("Element `[0, 2]` of the result is")
    picked = block("""
        expected = f(x)[1]
        got = torch.compile(f)(x)[1]
    """)
    told = tracker.summarize(ScriptCheck(Kind.RESULT, "1", "0"), "eager", picked)
    assert told.startswith("Element `[1]` of the result is")


def test_a_title_names_the_operator_that_torch_underlines() -> None:
    text = block("""
        import torch

        def f(x):
            return torch.stack([x.item() * x])""")
    frames = (
        '\nfrom user code:\n   File "/tmp/repro.py", line 4, in f\n'
        "    return torch.stack([x.item() * x])\n"
        "                        ^^^^^^^^\n"
    )
    assert tracker.subjects(text, "eager", ScriptRun(1)) == ("Tensor.item", "torch.stack")
    assert tracker.subjects(text, "eager", ScriptRun(1, output=frames)) == ("Tensor.item",)


def test_a_title_names_no_operator_that_only_makes_a_tensor() -> None:
    assert (
        operators(
            block("""
                import torch

                def f(x): return str(x), torch.ones(2)""")
        )
        == ()
    )


def test_an_assertion_inside_torch_is_not_the_scripts() -> None:
    head = 'Traceback (most recent call last):\n  File "/tmp/repro.py", line 9, in <module>\n'
    inside = '  File "/env/torch/_functorch/functional_utils.py", line 3, in replay\n'
    compared = '  File "/env/torch/testing/_comparison.py", line 7, in assert_close\n'
    assert asserts_itself("AssertionError", f"{head}AssertionError: expected 1, got 2\n")
    assert asserts_itself("AssertionError", f"{head}{compared}AssertionError: not close\n")
    assert not asserts_itself("AssertionError", f"{head}{inside}AssertionError: wrong shape\n")
    assert not asserts_itself("KeyError", f"{head}KeyError: 1\n")


def test_counts_are_honest() -> None:
    bisection = found().bisection
    of_lines = Minified(bisection, CHECK, SCRIPT, ops=0, before=76, unit="lines")
    assert of_lines.verdict.startswith("76 lines → 5; ")
    of_graph = Minified(bisection, CHECK, SCRIPT, ops=1, before=98)
    assert of_graph.verdict.startswith("98 operators → 1 operator, 5 lines; ")


@pytest.mark.compiles
def test_outcomes_by_backend_are_those_of_the_script() -> None:
    text = block("""
        import torch


        def f(x):
            return x.reshape(3) if torch.compiler.is_compiling() else x


        torch.compile(f, backend="eager")(torch.ones(2))
    """)
    told = find_outcomes(text, [None, "eager", "aot_eager"], seconds=60)
    assert list(told) == ["not compiled", 'backend="eager"', 'backend="aot_eager"']
    assert told["not compiled"] == "passes"
    assert told['backend="eager"'].startswith(
        "fails: TorchRuntimeError: RuntimeError: shape '[3]' is invalid"
    )


def test_a_traceback_is_shortened_and_tells_no_home() -> None:
    frames = [
        f'  File "/home/me/env/lib/site-packages/torch/a{i}.py", line {i}, in f{i}\n    code'
        for i in range(30)
    ]
    last = '  File "/home/me/model.py", line 3, in g\n    code'
    frames.insert(9, "torch._dynamo.exc.Unsupported: no rule")
    frames.insert(10, "  Dynamo failed to run FX node with fake tensors: call_function stack(*(")
    frames.insert(11, "    )), **{}): got RuntimeError('no rule either " + "x" * 300)
    text = "\n".join(["Traceback (most recent call last):", *frames, last, "KeyError: 3"])
    short = tracker.shorten_traceback(text)
    assert "Unsupported: no rule" in short and "call_function stack" in short
    assert "RuntimeError('no rule either" in short
    assert "/home/me" not in short and short.count("File") == 7
    assert 'File "torch/a0.py"' in short and "[24 frames are left out]" in short
    assert short.endswith("KeyError: 3") and 'File "torch/a29.py"' in short


def test_of_a_compilers_output_the_errors_are_shown() -> None:
    error = "a.cpp:1: error: no match for " + "T" * 300
    lines = [
        "Traceback (most recent call last):",
        "InductorError: CppCompileError: C++ compile error",
        "Command:",
        "g++ " + "-x " * 500,
        *["noise"] * 99,
        error,
        "  16 | tmp0 + tmp1;",
        "     | ~~~~~^~~~~~",
        *["a.cpp:2: warning: more"] * 99,
    ]
    assert tracker.shorten_traceback("\n".join(lines)).splitlines() == [
        *lines[:2],
        "",
        error,
        "  16 | tmp0 + tmp1;",
        "     | ~~~~~^~~~~~",
    ]


@pytest.mark.compiles
def test_a_redacted_issue_tells_no_name_of_the_program() -> None:
    text = block("""
        import torch


        def acme_forward(x):
            return x.reshape(3) if torch.compiler.is_compiling() else x


        torch.compile(acme_forward, backend="eager")(torch.ones(2))
    """)
    check = ScriptCheck(Kind.EXCEPTION, got="TorchRuntimeError: RuntimeError in acme_forward")
    ran = ScriptRun(1, "TorchRuntimeError", "", "Traceback: acme_forward")
    outcomes = {'backend="eager"': "fails: TorchRuntimeError: in acme_forward"}
    whole = Minified(found().bisection, check, text, ran=ran, outcomes=outcomes)
    assert "acme" in whole.issue()
    told = whole.redacted(seconds=120).issue().partition("### Versions")[0]
    assert "acme" not in told and "TorchRuntimeError" in told and "def f1(x)" in told

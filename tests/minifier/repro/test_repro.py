"""Scripts: what they say, and that they fail alone as they must, and not with the rung below."""

from __future__ import annotations

import ast
import re
import sys
import venv
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from fullgraph.compiler.numerics import OWN_MEMORY
from fullgraph.minifier.emit.program_text import ProgramText
from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.repro import build_parts as unbuilt
from fullgraph.minifier.repro import fresh_interpreter as fresh
from fullgraph.minifier.repro.script import script
from fullgraph.minifier.repro.script_check import ScriptCheck
from fullgraph.minifier.repro.script_text import backend_below, backend_of, lower_backend
from tests.text import block

SECONDS = 120
X = "x = torch.ones(8, requires_grad=True)"
TWICE = "return x * (2 if torch.compiler.is_compiling() else 1)"
"""Something else once it is compiled: Dynamo's own fault, so to say."""


def program(body: str, inputs: str = X, **more: object) -> ProgramText:
    function = f"def f(x):\n    {body}"
    return ProgramText(function, inputs, arguments=("x",), outputs=1, loss="{}.sum()", **more)  # type: ignore[arg-type]


def text(check: ScriptCheck, body: str = TWICE, *, backend: str = "eager", **more: object) -> str:
    return script(program(body, **more), check, backend=backend, environment="here")  # type: ignore[arg-type]


def test_a_wrong_result() -> None:
    check = ScriptCheck(Kind.RESULT, "1", "2", where="output[0]")
    close = "got, expected, rtol=0.0001, atol=1e-05, equal_nan=True, "
    close += 'msg=f"expected {expected}, got {got}"'
    assert text(check) == dedent(
        """\
        # here
        import torch


        def f(x):
            return x * (2 if torch.compiler.is_compiling() else 1)


        x = torch.ones(8, requires_grad=True)

        expected = f(x)
        got = torch.compile(f, backend="eager")(x)
        # expected 1, got 2
        torch.testing.assert_close(
            {close}
        )
        """
    ).replace("{close}", close)


def test_what_a_text_imports_is_a_line_each_and_torch_is_not_imported_twice() -> None:
    source = block("""
        import torch, torch.nn as nn

        def f(x):
            return nn.ReLU()(x) * 2

    """)
    source += block("""
        model = f
        inputs = (torch.ones(8),)""")
    made = script(
        unbuilt.program(source, unbuilt.ProgramFacts("tuple", True, False)),
        ScriptCheck(Kind.RESULT, "1", "2", where="output[0]"),
        backend="eager",
    )
    assert re.findall("^import.*", made, re.MULTILINE) == ["import torch", "import torch.nn as nn"]


INPUTS = {
    "(torch.ones(3, requires_grad=True), torch.ones(3))": "input[0]",
    "{'y': torch.ones(3), 'x': torch.ones(3, requires_grad=True)}": "input['x']",
    "torch.ones(3, requires_grad=True)": "input[0]",
    "({'x': torch.ones(3, requires_grad=True)},)": "input[0]['x']",
    "(*[torch.ones(3, requires_grad=True) for _ in range(2)],)": "input[0]",
    "dict(x=torch.ones(3, requires_grad=True), y=torch.ones(3))": "input['x']",
}
"""Ways to give them, with the name that results give to the one that is looked at."""
FAULTS = {
    "alias": "return x if torch.compiler.is_compiling() else x * 1",
    "copied": "return x * 1 if torch.compiler.is_compiling() else x",
    "gradient": TWICE,
    "mutation": "x.detach().add_(1 + torch.compiler.is_compiling()); return x * 1",
}


@pytest.mark.compiles
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_text_is_called_with_is_looked_at_under_its_name(fault: str, inputs: str) -> None:
    where = INPUTS[inputs]
    check = {
        "alias": ScriptCheck(Kind.METADATA, OWN_MEMORY, where, aspect="alias", where="output"),
        "copied": ScriptCheck(Kind.METADATA, where, OWN_MEMORY, aspect="alias", where="output"),
        "gradient": ScriptCheck(Kind.GRADIENT, where=where, backward=True),
        "mutation": ScriptCheck(Kind.MUTATION, where=where),
    }[fault]
    take = "x = x['x']; " if where.endswith("]['x']") else ""
    source = f"def f(x, y=None):\n    {take}{FAULTS[fault]}\n\nmodel = f\ninputs = {inputs}"
    form = "dict" if inputs.startswith(("{", "dict")) else "tuple" if inputs[0] == "(" else "one"
    parts = unbuilt.program(source, unbuilt.ProgramFacts(form, True, False))
    made = script(parts, check, backend="eager")
    assert fresh.passes_controls(made, SECONDS), made
    with pytest.raises(AssertionError):
        exec(made, {})


def test_settings_go_before_the_program_and_the_backend_stands_alone() -> None:
    made = script(
        program(TWICE),
        ScriptCheck(Kind.EXCEPTION, got="Bad: it is"),
        backend="inductor",
        mode="max-autotune-no-cudagraphs",
        options={"cpp.simdlen": 8},
        settings={"torch._dynamo.config.cache_size_limit": 3},
        dynamic=True,
        environment="here",
    )
    assert made.splitlines()[3:7] == [
        "torch._dynamo.config.cache_size_limit = 3",
        "torch._inductor.config.max_autotune = True",
        "torch._inductor.config.coordinate_descent_tuning = True",
        "torch._inductor.config.cpp.simdlen = 8",
    ]
    assert made.endswith(
        block("""
            # Bad: it is
            torch.compile(f, backend="inductor", dynamic=True)(x)
        """)
    )


def test_the_backend_can_be_exchanged() -> None:
    made = text(ScriptCheck(Kind.EXCEPTION), backend="inductor")
    assert backend_of(made) == "inductor"
    assert 'torch.compile(f, backend="aot_eager")(x)' in lower_backend(made, "aot_eager")
    assert [backend_below(name) for name in ("inductor", "aot_eager", "eager", "mine")] == [
        *("aot_eager_decomp_partition", "eager", None, "eager"),
    ]
    with pytest.raises(ValueError, match="once"):
        lower_backend("import torch", "eager")


def test_inputs_that_change_are_made_anew() -> None:
    changing = program("x.add_(1); return x", "x = torch.ones(8)", mutates=True, random=True)
    made = script(changing, ScriptCheck(Kind.MUTATION, where="input[0]"), backend="eager")
    assert made.count("x = torch.ones(8)") == made.count("torch.manual_seed(0)") == 2
    many = program("x.add_(1); return x", "\n".join(["x = torch.ones(8)"] * 5), mutates=True)
    made = script(many, ScriptCheck(Kind.RESULT), backend="eager")
    assert made.count("x = make_inputs()") == 2 and "def make_inputs():" in made


@pytest.mark.compiles
@pytest.mark.parametrize(
    "more", [{"random_inputs": True}, {"random_inputs": True, "random": True}, {"random": True}]
)
def test_both_calls_get_the_same_random_inputs(more: dict[str, bool]) -> None:
    drawn = "x = torch.randn(5, 5)" if "random_inputs" in more else "x = torch.ones(5, 5)"
    body = "x.add_(1 + torch.compiler.is_compiling()); return x + torch.rand(5)"
    body = body if "random" in more else body.replace(" + torch.rand(5)", "")
    parts = program(body, drawn, mutates=True, **more)
    made = script(parts, ScriptCheck(Kind.RESULT, where="output[0]"), backend="eager")
    assert fresh.passes_controls(made, SECONDS), made
    with pytest.raises(AssertionError, match="expected tensor"):
        exec(made, {})
    shared = script(
        replace(parts, random=False, random_inputs=False),
        ScriptCheck(Kind.RESULT, where="output[0]"),
        backend="eager",
    )
    assert not fresh.passes_controls(shared, SECONDS), shared


@pytest.mark.compiles
def test_what_definitions_hold_is_made_anew_where_calls_change_it() -> None:
    function = block("""
        count = 0


        def add(x, seen=[]):
            global count
            count += 1
            seen.append(x)
            return len(seen) + count


        def f(x):
            return x + add(x) + torch.compiler.is_compiling()""")
    parts = replace(program("", "x = torch.ones(3)", mutates=True), function=function)
    check = ScriptCheck(Kind.RESULT, where="output[0]")
    assert not fresh.passes_controls(script(parts, check, backend="eager"), SECONDS)
    made = script(replace(parts, anew=True), check, backend="eager")
    assert fresh.passes_controls(made, SECONDS), made
    with pytest.raises(AssertionError, match="expected tensor"):
        exec(made, {})


@pytest.mark.compiles
def test_what_the_function_finds_outside_is_made_anew_with_its_inputs() -> None:
    lines = ["count = [0]", "rows = [[n] for n in range(3)]", "x = torch.tensor(rows)", "y = 2"]
    body = "for n in range(2): count[0] += torch.compiler.is_compiling()\n    return x + count[0]"
    parts = program(body, "\n".join(lines), mutates=True)
    made = script(parts, ScriptCheck(Kind.RESULT, where="output"), backend="eager")
    assert made.count("count, x = make_inputs()") == 2
    assert fresh.passes_controls(made, SECONDS), made
    with pytest.raises(AssertionError, match="expected tensor"):
        exec(made, {})


def test_every_kind_is_a_program() -> None:
    for kind in Kind:
        for more in ({"calls": 3}, {"backward": True}, {"limit": 3.0}):
            where = "output" if kind in (Kind.RESULT, Kind.METADATA) else "input[0]"
            made = text(ScriptCheck(kind, "1", "2", where=where, **more))  # type: ignore[arg-type]
            ast.parse(made)
            assert made.count('backend="') == 1
    for aspect in ("dtype", "shape", "stride", "layout", "requires_grad", "type", "keys"):
        ast.parse(text(ScriptCheck(Kind.METADATA, "a", "b", aspect=aspect, where="output[0]")))


def test_the_modes_of_the_call_are_around_it() -> None:
    made = text(ScriptCheck(Kind.RESULT), under=("torch.no_grad()",))
    assert (
        block("""
            with torch.no_grad():
                expected = f(x)
        """)
        in made
    )


STRIDED = "return torch.zeros(3, 2).t() if torch.compiler.is_compiling() else torch.zeros(2, 3)"
ALIASED = "return x if torch.compiler.is_compiling() else x.clone()"
LOOP = "while torch.compiler.is_compiling(): x = x + 1\n    return x"
SLOW = (
    "return (torch.ones(999, 999) @ torch.ones(999, 999) if torch.compiler.is_compiling() else x)"
)
HUGE = "return torch.zeros(1 << 40) if torch.compiler.is_compiling() else x"
COUNTS = "global n; n += 1; return x + n"
RAISES = "return x.reshape(3) if torch.compiler.is_compiling() else x"
WRITES = "x.add_(1 + torch.compiler.is_compiling()); return x"


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "body", "more"),
    [
        (ScriptCheck(Kind.RESULT, where="output[0]"), TWICE, {}),
        (ScriptCheck(Kind.METADATA, aspect="stride", where="output[0]"), STRIDED, {}),
        (
            ScriptCheck(Kind.METADATA, OWN_MEMORY, "input[0]", aspect="alias", where="output[0]"),
            ALIASED,
            {"places": {"input[0]": "x"}},
        ),
        (
            ScriptCheck(Kind.GRADIENT, where="input[0]", backward=True),
            TWICE,
            {"places": {"input[0]": "x"}},
        ),
        (
            ScriptCheck(Kind.MUTATION, where="input[0]"),
            WRITES,
            {"places": {"input[0]": "x"}, "inputs": "x = torch.ones(8)"},
        ),
        (ScriptCheck(Kind.EXCEPTION, got="TorchRuntimeError: x"), RAISES, {}),
        (
            ScriptCheck(Kind.BREAK, got="Unsupported: x"),
            "torch._dynamo.graph_break(); return x",
            {},
        ),
        (ScriptCheck(Kind.RECOMPILE, calls=3), COUNTS, {"prelude": "n = 0"}),
        (ScriptCheck(Kind.HANG, limit=6), LOOP, {}),
        (ScriptCheck(Kind.MEMORY, limit=1 << 36), HUGE, {}),
        (ScriptCheck(Kind.SLOW), SLOW, {}),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, ScriptCheck) else "",
)
def test_fails_alone_and_not_without_the_compiler(
    check: ScriptCheck, body: str, more: dict[str, object]
) -> None:
    made = text(check, body, **more)
    assert fresh.passes_controls(made, SECONDS), made
    found = fresh.check_standalone(made, check, seconds=SECONDS)
    assert found.ok, f"{found.reason}\n{made}\n{found.ran.output}"


@pytest.mark.compiles
def test_one_rung_down_modes_and_settings_are_those_of_a_fresh_interpreter() -> None:
    made = lower_backend(
        text(ScriptCheck(Kind.RESULT, where="output[0]"), "return x * 2"), "aot_eager"
    )
    made += "\nimport torch._dynamo.config as config\n"
    made += "assert torch.is_grad_enabled() and not config.capture_scalar_outputs\n"
    made += "import os; assert os.listdir() == ['repro.py']\n"
    with torch.no_grad(), torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert fresh.passes_controls(made, SECONDS)
        assert not fresh.passes_controls(made + "assert False\n", SECONDS)


@pytest.mark.compiles
@pytest.mark.slow
def test_a_script_that_passes_does_not_stand() -> None:
    check = ScriptCheck(Kind.RESULT, where="output[0]")
    found = fresh.check_standalone(text(check, "return x"), check, seconds=SECONDS)
    assert not found.ok and found.ran.passed and "passes" in found.reason


@pytest.mark.compiles
def test_a_script_that_needs_no_compiler_to_fail_does_not_stand() -> None:
    check = ScriptCheck(Kind.EXCEPTION, got="RuntimeError: x")
    found = fresh.check_standalone(text(check, "return x.reshape(3)"), check, seconds=SECONDS)
    assert not found.ok and found.fails_control


@pytest.mark.compiles
def test_another_error_is_not_the_failure() -> None:
    ran = fresh.run("import no_such_module", seconds=SECONDS)
    assert ran.error == "ModuleNotFoundError" and ran.code == 1
    assert not fresh.shows_failure(ran, ScriptCheck(Kind.RESULT))
    assert not fresh.shows_failure(ran, ScriptCheck(Kind.EXCEPTION, got="RuntimeError: x"))


def test_a_signature_is_found_in_what_was_printed() -> None:
    printed = dedent(
        """\
        Traceback (most recent call last):
          File "/a/site-packages/torch/_inductor/graph.py", line 7, in run_node
            raise ValueError("axis 3 is wrong")
        ValueError: axis 3 is wrong

        The above exception was the direct cause of the following exception:

        Traceback (most recent call last):
          File "/tmp/x/repro.py", line 7, in <module>
        torch._inductor.exc.InductorError: LoweringException: ValueError: axis 3 is wrong
          target: aten.add
        """
    )
    error, message = fresh.last_exception(printed)
    assert error == "InductorError" and message.startswith("LoweringException: ValueError")
    ran = fresh.ScriptRun(1, "", error, message, printed)
    good = ("ValueError", "axis N is wrong", "torch._inductor.graph.run_node")
    assert fresh.shows_failure(ran, ScriptCheck(Kind.EXCEPTION, signature=good))
    for other in (
        ("KeyError", "axis N is wrong", ""),
        ("ValueError", "axis N is right", ""),
        ("ValueError", "axis N is wrong", "torch._inductor.ir.realize"),
    ):
        assert not fresh.shows_failure(ran, ScriptCheck(Kind.EXCEPTION, signature=other))


@pytest.mark.compiles
def test_a_rank_says_the_same() -> None:
    ran = fresh.run(
        "print('[rank0]: Traceback (most recent call last):\\n[rank0]: KeyError: 3')", seconds=9
    )
    assert (ran.error, ran.message) == ("KeyError", "3")


@pytest.mark.compiles
def test_a_crash_is_a_signal() -> None:
    ran = fresh.run(
        block("""
            import os
            os.kill(os.getpid(), 11)"""),
        seconds=SECONDS,
    )
    assert ran.signal == "SIGSEGV" and ran.code is None
    assert fresh.shows_failure(ran, ScriptCheck(Kind.CRASH, signature=("SIGSEGV",)))
    assert not fresh.shows_failure(ran, ScriptCheck(Kind.CRASH, signature=("SIGABRT",)))


@pytest.mark.compiles
def test_what_does_not_end_is_ended_with_its_children() -> None:
    ran = fresh.run(
        block("""
            import os
            os.fork()
            while True: pass"""),
        seconds=2,
    )
    assert ran.code is None and not ran.signal and "did not end" in str(ran)


@pytest.mark.compiles
@pytest.mark.slow
def test_a_gigabyte_of_output_is_cut() -> None:
    ran = fresh.run("for _ in range(1000): print('x' * 1000000)", seconds=SECONDS)
    assert ran.passed and len(ran.output) < 2_000_000


@pytest.mark.compiles
def test_it_runs_in_an_empty_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    code = "import os, sys; print(os.listdir(), os.getenv('TORCH_LOGS'), '/somewhere' in sys.path)"
    ran = fresh.run(code, seconds=SECONDS)
    assert ran.output.strip() == "['repro.py'] None False"


@pytest.mark.compiles
def test_threads_handlers_and_hooks_are_waited_for_after_an_exception() -> None:
    code = block("""
        import atexit, sys, threading, time
        atexit.register(print, 'handler')
        threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()
        sys.excepthook = lambda *error: (print('hook'), sys.__excepthook__(*error))
        assert 0, 'no'""")
    ran = fresh.run(code, seconds=SECONDS)
    assert (ran.code, ran.error, ran.message.partition("\n")[0]) == (1, "AssertionError", "no")
    assert re.search("hook.*thread.*handler", ran.output, re.DOTALL)


@pytest.mark.compiles
def test_an_environments_own_start_is_the_scripts(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(
        block("""
            import builtins
            builtins.of_the_site = 3
        """)
    )
    code = block("""
        import os, sys
        assert of_the_site == 3 and 'PYTHONPATH' not in os.environ
        assert not any(folder.endswith('/site') for folder in sys.path)""")
    ran = fresh.run(code, seconds=SECONDS, python=str(tmp_path / "bin" / "python"))
    assert ran.passed, ran.output


@pytest.mark.compiles
@pytest.mark.slow
def test_other_versions() -> None:
    check = ScriptCheck(Kind.RESULT)
    found = fresh.elsewhere("assert 0", check, [sys.executable, "0.0.1"], seconds=SECONDS)
    assert [each.state for each in found] == ["fails", "cannot be installed"]

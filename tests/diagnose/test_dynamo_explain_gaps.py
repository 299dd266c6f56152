"""Where `torch._dynamo.explain` miscounts or is silent, `explain` tells the truth."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fullgraph import Explanation, explain
from tests.diagnose import branching
from tests.diagnose import breaking as b

pytestmark = pytest.mark.compiles

X = torch.ones(4)
TORCH = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])


def shown_causes(found: Explanation) -> list[tuple[str, str, int]]:
    """The causes of default mode that are not hidden: expression, frame's fate, events."""
    return [
        (c.expression, c.frame, c.events)
        for c in found.causes
        if not c.hidden and "default" in c.modes
    ]


def dynamo_counts(target: Callable[..., object], *args: object) -> tuple[int, int, int]:
    """What torch's own explain counts: graphs, breaks, reasons."""
    torch._dynamo.reset()
    with contextlib.redirect_stdout(io.StringIO()):
        said = torch._dynamo.explain(target)(*args)
    torch._dynamo.reset()
    return said.graph_count, said.graph_break_count, len(said.break_reasons)


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (b.in_for, "for"),
        (b.in_while, "while"),
        (b.in_try, "try"),
        (b.in_finally, "finally"),
        (b.in_except, "except"),
        (b.in_context, "context"),
        (b.in_managed, "managed"),
        (b.in_suppress, "suppress"),
    ],
)
def test_a_break_that_skips_its_whole_frame(function: Callable[..., object], word: str) -> None:
    found = explain(function, X, unmask=False)
    if word == "suppress" and TORCH < (2, 13):  # where suppress itself broke
        assert "skipped" in {c.frame for c in found.causes}
        return
    assert shown_causes(found) == [(f'print("{word}")', "skipped", 1)]
    assert found.causes[0].modes == ("default", "fullgraph")
    assert (found.default.graphs, found.default.breaks, found.default.ok) == (0, 1, False)
    assert found.fullgraph.ok is False
    assert dynamo_counts(function, X) == (0, -1, 0)


def test_a_generator_is_skipped() -> None:
    found = explain(b.generator, X, unmask=False)
    (cause,) = found.causes
    assert (cause.category, cause.frame) == ("generator", "skipped")
    assert cause.gb_id in ("GB0003", None)


def test_a_coroutine_with_a_break_is_reported_as_a_crash_of_torch() -> None:
    found = explain(b.coroutine, X, unmask=False)
    assert [c.expression for c in found.causes] == ['print("async")']
    assert found.crashes


@pytest.mark.parametrize(
    ("target", "x", "expression", "gb_id"),
    [
        (b.BackwardHook(), torch.ones(2, 4, requires_grad=True), "self.lin(x)", "GB0083"),
        (b.collate_first, X, "torch.utils.data.default_collate([x, x])", "GB0007"),
        (b.clock_last, X, "time.time()", "GB0007"),
        (b.backward_last, torch.ones(4, requires_grad=True), "y.backward()", "GB0123"),
    ],
)
def test_a_break_before_any_op_or_after_the_last(
    target: Any, x: torch.Tensor, expression: str, gb_id: str
) -> None:
    found = explain(target, x, unmask=False)
    assert [name for name, _, _ in shown_causes(found)] == [expression]
    if TORCH == (2, 13):
        assert found.causes[0].gb_id == gb_id
    assert found.default.breaks == 1


def test_breaks_in_hooks_lambdas_and_autograd_functions_have_their_place() -> None:
    x = torch.ones(4, requires_grad=True)
    assert shown_causes(explain(b.ForwardHook(), X, unmask=False))[0][0] == 'print("hook")'
    assert shown_causes(explain(b.reduced, X, unmask=False))[0][0] == 'print("reduce")'
    found = explain(b.applied, x)
    assert 'print("forward")' in [c.expression for c in found.causes]


def test_one_expression_reached_by_two_calls_is_one_cause() -> None:
    for function in (b.nested, b.outer):
        found = explain(function, X, unmask=False)
        assert shown_causes(found) == [("x.sum().item()", "resumed", 3)]
        assert found.default.breaks == 3
        assert found.fullgraph.ok is True
        assert found.causes[0].modes == ("default",)


def test_a_branch_on_a_tensor_has_its_id_and_value() -> None:
    (cause,) = explain(b.branch, X, unmask=False).causes
    assert (cause.gb_id, cause.category) == ("GB0170", "data-dependent branch")
    assert cause.expression == "x.sum() > 0"
    assert "True" in cause.message
    assert cause.position.function == "branch"


def test_a_break_in_a_child_called_in_the_parents_loop_is_one_cause() -> None:
    found = explain(b.Stack(), torch.ones(2, 4), unmask=False)
    ((expression, frame, events),) = shown_causes(found)
    assert (expression, frame) == ('print("block")', "skipped")
    assert events == found.default.breaks >= 2
    assert found.causes[0].module_path == "layers[0..2]"
    assert found.causes[0].next_graph == "G1"


def test_code_that_ran_eager_without_a_break_is_reported() -> None:
    class Passive(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Passive():
        found = explain(b.clean, X)
    assert "TorchDispatchMode" in found.fallbacks[0].reason
    with torch.compiler.set_stance("force_eager"):
        found = explain(b.clean, X)
    assert "force_eager" in found.fallbacks[0].reason
    found = explain(b.Disabled(), X)
    assert found.default.graphs == 0
    assert "disable" in " ".join(c.message for c in (*found.causes,)) or found.fallbacks


def test_a_break_for_the_second_shape_only() -> None:
    assert not explain(b.for_big, X, unmask=False).causes
    found = explain(b.for_big, X, calls=[torch.ones(7)], unmask=False)
    assert shown_causes(found) == [('print("big")', "resumed", 1)]
    assert found.recompiles


def test_an_uncaught_exception_is_an_error_of_the_program_and_no_cause() -> None:
    found = explain(b.uncaught, X)
    assert found.error is not None
    assert "raises in eager" in found.error and "ValueError: not caught" in found.error
    assert not found.causes and not found.crashes


def test_three_causes_behind_one_another_at_their_expressions() -> None:
    found = explain(b.three, X)
    lines = [(c.expression, c.position.column, c.hidden) for c in found.causes]
    assert lines == [
        ("print(x)", 8, False),
        ("x.sum() > 0", 11, True),
        ("x.sum().item()", 12, True),
    ]
    first = found.causes[0].position.line
    assert [c.position.line - first for c in found.causes] == [0, 1, 3]
    assert dict(found.runs)["unmasking"] >= 4


def test_causes_of_one_mode_only() -> None:
    found = explain(b.masked, X, unmask=False)
    assert [c.modes for c in found.causes] == [("default",)]
    assert found.fullgraph.ok is True
    found = explain(b.ranged, X, unmask=False)
    modes = {c.expression: c.modes for c in found.causes}
    assert modes == {"x.sum().item()": ("default",), "range(int(n))": ("fullgraph",)}
    assert found.fullgraph.ok is False


def test_a_model_without_a_break_is_traced_once() -> None:
    found = explain(b.clean, X)
    assert found.runs == (("default mode", 1),)
    assert (found.default.ok, found.fullgraph.ok) == (True, True)
    assert "in default mode and under fullgraph=True" in found.verdict


@pytest.mark.parametrize(
    ("target", "inputs", "count"),
    [
        (b.lengthened, [(X, str(10**n)) for n in range(12)], 7),
        (b.summed, [(X, [1.0] * n) for n in range(1, 13)], 7),
        (b.Counter(), [X] * 12, 7),
        (b.scaled, [(X, n + 0.5) for n in range(12)], 1),
    ],
)
def test_recompiles_and_the_limit(target: Any, inputs: list[Any], count: int) -> None:
    found = explain(target, inputs[0], calls=inputs[1:], unmask=False)
    (row,) = found.recompiles
    limited = count == 7
    assert row.count == count
    assert bool(found.fallbacks) == limited
    if limited:
        assert "runs eager" in found.fallbacks[0].reason
        assert found.fallbacks[0].gb_id == "GB0039"
    assert not found.crashes


def test_a_number_out_of_a_break_recompiles_once_and_its_text_every_time() -> None:
    calls = [X * n for n in range(2, 13)]
    found = explain(b.item_times, X, calls=calls, unmask=False)
    assert sum(row.count for row in found.recompiles) == 1
    assert not found.fallbacks
    found = explain(b.item_as_text, X, calls=calls, unmask=False)
    assert sum(row.count for row in found.recompiles) >= 7
    assert found.fallbacks


def test_a_backend_that_raises_is_a_crash_and_the_causes_are_reported_too() -> None:
    def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise RuntimeError("not this graph")

    found = explain(b.branch, X, backend=backend)
    assert [c.expression for c in found.causes] == ["x.sum() > 0"]
    crash = found.crashes[0]
    assert "BackendCompilerFailed" in crash.error
    assert found.error is None


def test_the_backward_is_traced_too() -> None:
    lin = torch.nn.Linear(4, 4)
    found = explain(lin, torch.ones(2, 4), loss=True, backend="aot_eager")
    assert found.default.ok


def test_compiled_autograd_has_a_graph_and_no_noise_of_libraries() -> None:
    with torch._dynamo.config.patch(compiled_autograd=True):
        found = explain(b.train_step, torch.ones(2, 4), backend="aot_eager", unmask=False)
    assert shown_causes(found) == [("y.backward()", "resumed", 1)]
    assert "backward" in {graph.phase for graph in found.graphs}


def test_a_method_whose_argument_breaks_is_no_cause_of_its_own() -> None:
    found = explain(b.looked_up_early, torch.ones(2, 4))
    assert [c.expression for c in found.causes] == ["int(np.prod(x.shape[:-1]))"]
    assert "looked up before" in found.causes[0].consequences[0]


@pytest.mark.parametrize("function", [f for name, f in vars(branching).items() if "in_" in name])
def test_a_branch_is_found_at_its_test(function: Callable[..., object]) -> None:
    cause = explain(function, X, unmask=False).causes[0]
    asked = (
        "y.any()" if function in (branching.in_lambda, branching.in_comprehension) else "x.any()"
    )
    assert (cause.category, cause.expression) == ("data-dependent branch", asked)
    assert (
        cause.message == f"`{asked}` is a tensor (bool[], here True): the branch depends on data."
    )
    line = dict(cause.source)[cause.position.line]
    assert line[cause.position.column : cause.position.end_column] == asked


@pytest.mark.parametrize(
    "function, expression",
    [(b.made_and_entered, "torch.random.fork_rng()"), (b.printed_when_made, 'print("made")')],
)
def test_a_context_manager_that_is_made_and_entered_is_one_cause(
    function: Callable[..., object], expression: str
) -> None:
    explanation = explain(function, X)
    cause, *others = explanation.causes
    assert not others and cause.expression == expression
    entered = [text for text in cause.consequences if "enters what is made here" in text]
    assert len(entered) == len(cause.consequences) == (explanation.default.breaks or 0) - 1


def test_a_context_manager_of_several_is_found() -> None:
    (cause,) = explain(b.second_of_two, X).causes
    assert (cause.category, cause.expression) == ("lock or thread", "GATE")


def test_the_handle_of_a_hook_is_no_cause_where_it_comes_along() -> None:
    registered, printed, *others = explain(b.handle_comes_along, X).causes
    assert not others and registered.category == "hook registration"
    assert registered.expression.startswith("HOOKED.register_forward_hook")
    assert printed.expression == 'print("hooked")'

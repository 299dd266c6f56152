"""A failed guard names the user's variable, and what is advised against it helps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fullgraph.compiler.recording import record
from fullgraph.diagnose.taxonomy import describe_guard, describe_limit

pytestmark = pytest.mark.compiles


def guards(run, *calls, **options) -> list[str]:
    """The newest guard that failed at each recompile, over some calls."""
    torch._dynamo.reset()
    compiled = torch.compile(run, backend="eager", **options)
    with record() as recorder:
        for arguments in calls:
            compiled(*arguments)
    return [recompile.guards[0] for recompile in recorder.recording.recompiles]


def add(x, k=1):
    return x + k


def scale(x, k):
    return x * k


def count(x, items):
    return x + len(items)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.layers = nn.ModuleList([nn.Dropout()])

    def forward(self, x):
        self.n += 1
        return self.layers[0](x) * self.n


def x(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes or (3,))


CASES = {
    "rows": (add, [(x(4, 2),), (x(5, 2),)], "`x` had 4 rows, now 5."),
    "columns": (add, [(x(4, 2),), (x(4, 3),)], "`x` had size 2 in dimension 1, now 3."),
    "one": (add, [(x(4, 2),), (x(1, 2),)], "`x` had 4 rows, now 1. Sizes 0 and 1 always"),
    "rank": (add, [(x(4),), (x(4, 2),)], "`x` had 1 dimensions, now 2."),
    "dtype": (add, [(x(),), (x().double(),)], "`x` had dtype Float, now Double."),
    "stride": (
        add,
        [(x(4, 4),), (x(4, 4).t(),)],
        "`x` has another memory layout (stride 4, now 1).",
    ),
    "grad": (add, [(x(),), (x().requires_grad_(),)], "`x` did not require grad, now it does."),
    "float": (scale, [(x(), 0.5), (x(), 0.7)], "`k` was 0.5, now another value."),
    "int": (scale, [(x(), 5), (x(), 7)], "`k` was 5, now another value."),
    "type": (scale, [(x(), x()), (x(), 2)], "`k` was a tensor, now it is of type int."),
    "str": (count, [(x(), "a"), (x(), "bb")], "`items` was 'a', now another value."),
    "length": (count, [(x(), [1]), (x(), [1, 2])], "`items` had length 1, now another."),
}


@pytest.mark.parametrize("run, calls, said", CASES.values(), ids=CASES)
def test_a_guard_names_the_users_variable(run, calls, said) -> None:
    (guard,) = guards(run, *calls)
    assert describe_guard(guard)[0].startswith(said)


def test_one_tensor_in_two_places_is_reported() -> None:
    one, other = x(), x()
    (guard,) = guards(add, (one, other), (one, one))
    assert describe_guard(guard)[0] == "`k` and `x` are now the same tensor."


def test_a_counter_of_a_module_is_named_with_its_path() -> None:
    first = guards(Counter(), (x(),), (x(),), (x(),))[0]
    text, advice = describe_guard(first)
    assert text.startswith("`self.n` was 0, now another value")
    assert 'register_buffer("n"' in advice[0].text
    assert "allow_unspec_int_on_nn_module" in advice[1].text


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (True, "was in training mode, now it is not."),
        (False, "was not in training mode, now it is."),
    ],
)
def test_training_mode_is_named_with_the_users_path(first: bool, said: str) -> None:
    model = nn.Sequential(nn.Dropout())
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    with record() as recorder:
        model.train(first)
        compiled(x())
        model.train(not first)
        compiled(x())
    (recompile,) = recorder.recording.recompiles
    text, _ = describe_guard(recompile.guards[0])
    assert text.endswith(said) and "_modules" not in text


def test_the_grad_mode_is_named() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(add, backend="eager")
    with record() as recorder:
        compiled(x())
        with torch.no_grad():
            compiled(x())
    assert describe_guard(recorder.recording.recompiles[0].guards[0])[0] == "The grad mode changed."


@pytest.mark.parametrize(
    "guard, said",
    [
        ("L['x'].size()[0] % 2 == 0", "`x.size()[0] % 2 == 0` no longer holds."),
        (
            "2 <= L['x'].size()[0] <= 4",
            "The code holds only while size 0 of `x` is between 2 and 4.",
        ),
        ("self._modules['layers']._modules['0'].k == 'a'", "`self.layers[0].k` was 'a', now"),
        ("___check_obj_id(L['fn'], 1397), type=<class 'function'>", "`fn` is another object"),
        ("___check_type_id(L['c'], 139), type=<class 'float'>", "`c` was of type float, now of"),
        ("___stack1 == 1.08", "A value that was 1.08 came out of the graph break"),
        (
            "Cache line invalidated because L['___stack0'] got deallocated",
            "A value that came out of the graph break before it was freed.",
        ),
        ("Cache line invalidated because L['m'] got deallocated", "The `m` of the version before"),
        ("a guard of a later version", "`a guard of a later version` no longer holds."),
    ],
)
def test_a_guard_is_put_in_plain_words(guard: str, said: str) -> None:
    assert describe_guard(guard)[0].startswith(said)


def test_marking_a_dimension_helps() -> None:
    first, second = x(4, 2), x(5, 2)
    _, (mark, dynamic) = describe_guard(guards(add, (first,), (second,))[0])
    exec(mark.after, {"torch": torch, "x": first, "compiled": lambda x: None})
    assert not guards(add, (first,), (second,))
    assert "dynamic=True" in dynamic.text
    assert not guards(add, (x(4, 2),), (second,), dynamic=True)


def test_passing_a_tensor_instead_of_a_number_helps() -> None:
    (guard,) = guards(scale, (x(), 0.5), (x(), 0.7))
    assert "0-d tensor" in describe_guard(guard)[1][0].text
    assert not guards(scale, (x(), torch.tensor(0.5)), (x(), torch.tensor(0.7)))


def test_symbolic_integers_of_modules_help_a_counter() -> None:
    with torch._dynamo.config.patch(allow_unspec_int_on_nn_module=True):
        assert len(guards(Counter(), *[(x(),)] * 5)) <= 1


def test_the_recompile_limit_says_how_often_and_what_then() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(count, backend="eager")
    with record() as recorder:
        for length in range(10):
            compiled(x(), "a" * length)
    if not recorder.recording.breaks:
        pytest.skip("this torch does not tell the limit as a break")
    said = [describe_limit(brk) for brk in recorder.recording.breaks]
    assert said == ["`count` was compiled 8 times; from now on it runs eager."]


def test_a_value_of_the_stack_has_no_name() -> None:
    for guard in (
        "tensor '___stack0' size mismatch at index 0. expected 4, actual 5",
        "tensor '___stack2' stride mismatch at index 0. expected 0, actual 32",
        "___stack1 is None",
    ):
        text, advice = describe_guard(guard)
        assert text.startswith("A value that came out of the graph break before it ")
        assert [one.text for one in advice] == ["Remove the graph break that the value comes from."]


def test_an_int_becomes_dynamic_by_itself() -> None:
    _, (advice, _) = describe_guard("L['step'] == 2")
    assert advice.text.startswith("Expect one recompile")

import linecache

import pytest
import torch
from torch import nn

from fullgraph.diagnose.causes.places import place_of
from fullgraph.diagnose.hidden_search import notes_on_search
from fullgraph.diagnose.unmask import UnmaskResult, unmask
from fullgraph.diagnose.unmask.replacements import spell_value
from tests.diagnose import hiding
from tests.diagnose.unmasking import expression, search, traced
from tests.text import block

pytestmark = pytest.mark.compiles

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Compile once before forking, so that each child need not import the compiler."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.compile(lambda x: x + 1, backend="eager")(X)
    yield
    torch.set_num_threads(threads)


def texts(rounds) -> list[str]:
    return [expression(hidden.place) for round in rounds for hidden in round.found]


def not_taken(rounds) -> list[str]:
    return [expression(h.place) for round in rounds for h in round.found if h.not_taken]


def test_nothing_hides_behind_a_break_that_resumes():
    _, rounds = search(hiding.plain, X)
    assert [(r.number, r.found, r.stopped, r.runs) for r in rounds] == [(0, (), "nothing new", 0)]


def test_a_loop_shows_one_break_after_the_other_at_its_place():
    first, rounds = search(hiding.Loop(), X)
    assert [expression(place_of(brk)) for brk in first.breaks] == ["print(x)"]
    assert texts(rounds) == ["x.sum() > 0", "x.sum().item()"]
    found = [hidden for round in rounds for hidden in round.found]
    assert [expression(hidden.behind) for hidden in found] == ["print(x)", "x.sum() > 0"]
    assert rounds[-1].stopped == "nothing new" and not rounds[-1].blocked
    assert [round.runs for round in rounds] == [2, 2, 2]


def test_the_values_of_the_places_come_with_the_rounds():
    _, rounds = search(hiding.Loop(), X)
    test = next(o for o in rounds[-1].values.places if o.expression == "x.sum() > 0")
    assert (test.count, test.sides, test.values[0]) == (2, (True, True), "bool[] True")
    inside = {part.expression: part.values for part in test.parts}
    assert inside == {"x.sum()": ("f32[] 6", "f32[] 9"), "x": ("f32[3]", "f32[3]")}


CHAINS = [
    (hiding.Cleanup(), ["x[x > 0]", "y.tolist()"]),
    (hiding.comprehension, ["y.item()"]),
    (hiding.variable, ["int(x.max())"]),
    (hiding.differing, ['print("big")']),
    (hiding.storing, ["torch.unique(x)", "torch.unique(x).tolist()", "print(a)"]),
    (hiding.either, ["x.max().item()", "print(z)"]),
    (hiding.Recurrent(), ["out[out > 0]", "chosen.sum().item()"]),
    (hiding.closure, ["x[x > scale]", "y.sum().item()"]),
    (hiding.asserting, ["x.sum().item()"]),
]


@pytest.mark.parametrize(("fn", "found"), CHAINS, ids=lambda v: getattr(v, "__name__", None))
def test_what_hides(fn, found):
    _, rounds = search(fn, X)
    assert texts(rounds) == found
    assert not not_taken(rounds)
    assert rounds[-1].stopped == "nothing new" and not rounds[-1].blocked


def test_a_context_manager_that_breaks_is_entered_without_it():
    _, rounds = search(hiding.managed, X)
    assert "print(x)" in texts(rounds)
    # torch 2.10 breaks at suppress() whatever stands there, and the search says so
    assert "time.time()" in texts(rounds) or rounds[-1].blocked


def test_a_child_module_behind_its_parents_loop_is_found_once():
    first, rounds = search(hiding.Stack(), X)
    known = {expression(place_of(brk)) for brk in first.breaks}
    assert known | set(texts(rounds)) == {'print("layer")', "x.max().item()"}
    assert "x.max().item()" not in known or not texts(rounds)


def test_the_branch_not_taken_is_followed_into_nested_ones():
    _, rounds = search(hiding.Nested(), X)
    expected = ["x.sum().item()", "x.mean() > 100", "x.max() < 3", 'print("deep")']
    assert texts(rounds) == not_taken(rounds) == expected
    assert rounds[-1].stopped == "nothing new"


def test_a_test_of_a_breaking_value_is_a_branch_too():
    _, rounds = search(hiding.scalar_test, X)
    assert not_taken(rounds) == ["print(x)"]


def test_the_code_after_an_early_return_and_before_it():
    _, rounds = search(hiding.early, X)
    assert not_taken(rounds) == ["x.sum().item()", "x.max().item()"]


def test_a_forced_loop_ends():
    _, rounds = search(hiding.endless, X)
    assert not_taken(rounds) == ["print(x)"]
    assert rounds[-1].stopped == "nothing new"


def test_a_side_that_raises_is_followed_as_far_as_it_goes_and_said():
    _, rounds = search(hiding.raising, X)
    assert 'log.warning("about to fail")' in not_taken(rounds)
    reasons = [blocked.reason for blocked in rounds[-1].blocked]
    assert reasons == ["its other side raises ValueError: negative"]


@pytest.mark.parametrize(("function", "said"), [(hiding.raising, 0), (hiding.unreshaped, 1)])
def test_what_lies_behind_is_asked_of_an_error_but_not_of_a_raise(function, said):
    _, rounds = search(function, X)
    assert any("raises" in blocked.reason for blocked in rounds[-1].blocked)
    assert len([*notes_on_search(rounds[-1], "default", 12, 10.0)]) == said


def test_a_generator_cannot_be_passed():
    _, rounds = search(lambda x: list(hiding.generator(x)), X)
    first, rounds = search(hiding.generator, X)
    assert [brk.gb_id for brk in first.breaks] == ["GB0003"]
    assert [blocked.reason for blocked in rounds[-1].blocked] == [
        "it is a whole generator function"
    ]


def test_the_generator_of_a_context_manager_is_only_a_consequence():
    _, rounds = search(hiding.managed, X)
    assert not any(hidden.event.gb_id == "GB0003" for r in rounds for hidden in r.found)


def test_a_model_in_a_notebook_cell():
    text = block("""
        import torch
        class Cell(torch.nn.Module):
            def forward(self, x):
                for _ in range(2):
                    print('é'); y = x.sum().item(); print(y)
                return x + y
    """)
    name = "<ipython-input-7-0>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    _, rounds = search(scope["Cell"](), X)
    assert texts(rounds) == ["x.sum().item()", "print(y)"]


def test_two_instances_and_a_training_step():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.first, self.second = hiding.Loop(), hiding.Loop()

        def forward(self, x):
            return self.second(self.first(x * self.weight)).sum()

    net = Twice()

    def step(x):
        loss = net(x)
        loss.backward()
        return loss

    _, rounds = search(step, X)
    assert {"x.sum() > 0", "x.sum().item()"} <= set(texts(rounds))


def test_the_budget_of_rounds_is_kept_and_said():
    _, rounds = search(hiding.Loop(), X, rounds=1)
    assert [(r.number, r.stopped) for r in rounds] == [(1, "rounds")]


def test_the_budget_of_seconds_is_kept_and_said():
    _, rounds = search(hiding.Loop(), X, seconds=0.0)
    assert [(r.number, r.stopped) for r in rounds] == [(1, "seconds")]


def test_a_trial_that_is_lost_is_said():
    first = traced(hiding.Loop(), X)
    lost = UnmaskResult(error="the process was killed by signal 11")
    rounds = list(unmask(first, lambda trial: lost))
    assert rounds[-1].stopped == "nothing new"
    assert "signal 11" in rounds[-1].blocked[0].reason


def test_containers_are_written_as_displays():
    objects: dict[str, object] = {}
    assert spell_value({"a": [1, X], 2: (-0.5,)}, "v", objects) == "{'a': [1, v_0_1], 2: (-0.5,)}"
    assert objects == {"v_0_1": X}

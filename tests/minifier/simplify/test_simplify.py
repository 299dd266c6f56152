"""Scripts as a person writes them: what each pass changes, and that the failure decides."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from fullgraph.minifier.oracle.failure import Kind
from fullgraph.minifier.repro.script_check import ScriptCheck
from fullgraph.minifier.simplify import (
    ScriptProblem,
    begin_trial,
    format_script,
    simplify_script,
)
from tests.text import block

SECONDS = 120
CALL = """
x = torch.ones(2)
expected = f(x)
got = torch.compile(f, backend="eager")(x)
torch.testing.assert_close(got, expected)
"""


def clean(text: str) -> str:
    return dedent(text).strip("\n") + "\n"


def simplified(text: str, still_fails=lambda text: True) -> str:
    """A script simplified with a judge of its text."""
    problem = ScriptProblem(clean(text), lambda candidate: lambda: still_fails(candidate))
    simplify_script(problem)
    return format_script(problem.current)


def runs(text: str) -> bool:
    """Whether a script runs in eager."""
    with torch.compiler.set_stance("force_eager"):
        try:
            exec(text, {"__name__": "script"})
        except Exception:
            return False
    return True


UNCHANGED = {
    "a plain script": block("""
        import torch


        def f(x):
            return x.exp()

    """)
    + CALL,
    "a variable that two statements read": (
        block("""
            import torch


            def f(x):
                y = x.exp()
                return y * y

        """)
        + CALL
    ),
    "a size that is not written out": (
        block("""
            import torch


            def f(x):
                return x.exp()[0].shape[0]

        """)
        + CALL
    ),
    "a closure that reads a variable": (
        block("""
            import torch


            def f(x):
                y = x.exp()
                return lambda: y

        """)
        + CALL
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_stays(name: str) -> None:
    text = format_script(UNCHANGED[name])
    assert simplified(text) == text


BODIES = {
    "a tuple of one value each": (
        block("""
            x, maps = (x, [])
            return x.exp()"""),
        "return x.exp()",
    ),
    "a minus before zero": ("return x.reshape(x.shape[-0], 1)", "return x.reshape(2, 1)"),
    "arithmetic on a size": ("return x.expand(x.shape[0] - 1, 2)", "return x.expand(1, 2)"),
    "arithmetic on literals": ("return x * (3 - 1)", "return x * 2"),
    "a variable that is read once": (
        block("""
            y = x.exp()
            return y"""),
        "return x.exp()",
    ),
    "a variable that a later statement reads": (
        block("""
            y = [x.exp()]
            torch.ones(2)
            return y"""),
        block("""
            torch.ones(2)
            return [x.exp()]"""),
    ),
    "a variable that is set again": (
        block("""
            x = x.exp()
            x = x.log()
            return x"""),
        "return x.exp().log()",
    ),
    "digits": ("return x * 7.391482e-3 + 2.2", "return x * 1.0 + 2.0"),
    "a multiple of a half": ("return x * 0.5 + 1e9", "return x * 0.5 + 1e9"),
    "a slice": ("return x[1:].exp()", "return x.exp()"),
    "a list that is filled at once": (
        block("""
            found = []
            found.append(x.exp())
            return found, found"""),
        block("""
            found = [x.exp()]
            return found, found"""),
    ),
    "a key that comes again": ("return {'a': 1, 'a': x.exp()}", "return {'a': x.exp()}"),
    "arguments in a tuple": ("return torch.add(*(x, 3))", "return torch.add(x, 3)"),
    "a counter that nothing reads": (
        block("""
            for i, y in enumerate(x):
                x.add_(y)
            return x"""),
        block("""
            for y in x:
                x.add_(y)
            return x"""),
    ),
    "an `if` that does nothing": (
        block("""
            if torch.ones(()):
                pass
            return x.exp()"""),
        block("""
            torch._dynamo.graph_break()
            return x.exp()"""),
    ),
    "empty strings": ("return {'': x, 'a': 1}", "return {'b': x, 'a': 1}"),
    "a docstring": (
        block("""
            'Add.'
            return x + 1"""),
        "return x + 1",
    ),
    "a `return` of nothing": (
        block("""
            x.add_(1)
            return ()"""),
        "x.add_(1)",
    ),
    "a value that is not returned": ("f'a{x:03d}'", "return f'a{x:03d}'"),
    "a comprehension over nothing": ("return x, {a: b for a, b in ()}", "return x, {}"),
    "a comprehension over one": ("return [a.exp() for a in (x,)]", "return [x.exp()]"),
    "a tensor of one number": ("return x * torch.tensor([3])", "return x * 3"),
    "random numbers": ("return x + torch.randn(2)", "return x + torch.ones(2)"),
    "an empty list as an argument": ("return x.permute([])", "return x.permute([1])"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    before, after = (
        "import torch\n\n\ndef f(x):\n    " + body.replace("\n", "\n    ") + "\n\n" + CALL
        for body in BODIES[name]
    )
    assert simplified(before) == format_script(after)


def test_a_module_without_state_is_made_by_its_constructor() -> None:
    text = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return x * self.training

    net = Net.__new__(Net)
    nn.Module.__init__(net)
    x = torch.ones(2)
    torch.compile(net, backend="eager")(x)
    """
    made = simplified(text)
    assert "__new__" not in made and "__init__" not in made
    assert 'torch.compile(Net(), backend="eager")(torch.ones(2))' in made


def test_a_class_that_only_holds_forward_becomes_a_function() -> None:
    text = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            return x.exp()

    net = Net.__new__(Net)
    nn.Module.__init__(net)
    x = torch.ones(2)
    torch.compile(net, backend="eager")(x)
    """
    assert simplified(text) == clean(
        """
        import torch


        def net(x):
            return x.exp()


        torch.compile(net, backend="eager")(torch.ones(2))
        """
    )


def test_attributes_that_are_set_once_are_written_where_they_are_read() -> None:
    text = """
    import torch
    from torch import nn

    class Scheduler:
        def __init__(self):
            self.sigmas = torch.linspace(1.0, 1.0, 2)

        def scale(self, sigma):
            return sigma + 2

    class Sampler(nn.Module):
        def __init__(self, schedule, power):
            super().__init__()
            self.schedule = schedule
            self.power = power

        def forward(self, x, *, guidance=1.0):
            return x * self.schedule.scale(self.schedule.sigmas[0]) ** self.power

    schedule = Scheduler()
    model = Sampler(schedule, 3)
    x = torch.ones(1)
    torch.compile(model, backend="eager")(x)
    """
    assert simplified(text, runs) == clean(
        """
        import torch


        def sampler(x):
            return x * (torch.linspace(1.0, 1.0, 2)[0] + 2) ** 3


        torch.compile(sampler, backend="eager")(torch.ones(1))
        """
    )


def test_a_method_is_written_where_it_is_called() -> None:
    text = """
    import torch
    from torch import nn

    class Cov(nn.Module):
        def stats(self, a):
            c = a @ a.T
            return (c.diag(), c)

        def forward(self, x):
            off, mid = self.stats(x)
            return off.exp()

    cov = Cov()
    x = torch.ones(2, 2)
    torch.compile(cov, backend="eager")(x)
    """
    assert simplified(text, runs) == clean(
        """
        import torch


        def cov(x):
            return (x @ x.T).diag().exp()


        torch.compile(cov, backend="eager")(torch.ones(2, 2))
        """
    )


def test_results_that_nothing_reads_go_and_only_the_compared_one_is_returned() -> None:
    text = """
    import torch

    def find(key):
        try:
            {}[key]
        except KeyError as error:
            return (key, 0, str(error))

    def f(key):
        expert, number, note = find(key)
        notes = []
        notes.append(note)
        return {"": torch.ones(2), "a": notes}

    y = "a"
    expected = f(y)["a"][0]
    got = torch.compile(f, backend="eager")(y)["a"][0]
    assert got == expected
    """
    assert simplified(text, lambda made: "str(error)" in made and runs(made)) == clean(
        """
        import torch


        def f(x):
            try:
                {}[x]
            except KeyError as error:
                return str(error)


        x = "a"
        expected = f(x)
        got = torch.compile(f, backend="eager")(x)
        assert got == expected
        """
    )


def test_helpers_that_do_nothing_and_unused_definitions_go() -> None:
    text = """
    import math
    import torch

    LIMIT = 3

    def recording(*args):
        pass

    def unused(x):
        return x + math.pi

    def f(x):
        recording(x)
        return x.exp()

    """
    made = simplified(dedent(text) + CALL)
    assert not any(name in made for name in ("recording", "unused", "math", "LIMIT"))


def test_a_parameter_that_nothing_reads_goes_with_its_argument() -> None:
    made = simplified(
        block("""
            import torch


            def f(x, mask=None):
                return 3

        """)
        + CALL
    )
    assert "def f():" in made and "expected = f()" in made
    assert 'torch.compile(f, backend="eager")()' in made and "torch.ones" not in made


def test_a_parameter_of_forward_goes_with_its_argument() -> None:
    text = """
    import torch
    from torch import nn

    class Policy(nn.Module):
        def forward(self, obs):
            self.steps.add_(1)

    policy = Policy()
    policy.steps = torch.zeros(())
    x = torch.ones(2)
    policy(x)
    torch.compile(policy, backend="eager")(x)
    """
    made = simplified(text, lambda made: runs(made) and "self.steps" in made)
    assert "def forward(self):" in made and "policy()" in made and "ones" not in made


def test_an_input_goes_that_only_shares_its_name_with_a_local_variable() -> None:
    text = """
    import torch

    def f():
        x = torch.rand(2)
        return x * x

    x = torch.zeros(2)
    torch.compile(f, backend="eager")()
    """
    assert "torch.zeros" not in simplified(text)


def test_an_input_is_not_empty_unless_the_failure_needs_it() -> None:
    text = block("""
        import torch


        def f(x):
            return x.exp()

    """) + CALL.replace("(2)", "(0, 3)")
    assert "x = torch.ones(2, 3)" in simplified(text)
    assert "x = torch.ones(0, 3)" in simplified(text, lambda made: "ones(0" in made)


def test_an_argument_of_an_autograd_function_goes_with_its_gradient() -> None:
    text = """
    import torch

    class Round(torch.autograd.Function):
        def forward(x, steps):
            return torch.ones(1)

        def setup_context(ctx, inputs, output):
            pass

        def backward(ctx, gradient):
            return (gradient, None)

    def f(x):
        return Round.apply(x, 0)

    x = torch.ones(1)
    torch.compile(f, backend="eager")(x)
    """
    assert simplified(text, lambda made: "backward(ctx" in made and runs(made)) == clean(
        """
        import torch


        class Round(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x.clone()

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, gradient):
                return gradient


        def f(x):
            return Round.apply(x)


        torch.compile(f, backend="eager")(torch.ones(1))
        """
    )


def test_attributes_of_a_tuple_assignment_are_set_one_by_one() -> None:
    text = """
    import torch

    class Cache:
        def __init__(self):
            self.room, self.scales = (0, {})

        def use(self, x):
            self.scales[1] = x
            return self.scales

    cache = Cache()
    torch.compile(cache.use, backend="eager")(torch.ones(1))
    """
    made = simplified(text, lambda made: runs(made) and "self.scales = {}" in made)
    assert "self.scales = {}\n" in made and "room" not in made


def test_lengths_stand_for_structures() -> None:
    text = """
    import torch

    shapes = []

    def f(x):
        shapes.append(x)
        return x

    f(torch.ones(1))
    expected = torch.utils._pytree.tree_structure(shapes)
    torch.compile(f, backend="eager")(torch.ones(1))
    got = torch.utils._pytree.tree_structure(shapes)
    assert got == expected, f"expected {expected}, got {got}"
    """
    made = simplified(text, lambda made: "return x" in made)
    assert "expected = len(shapes)" in made and "got = len(shapes)" in made


def test_digits_that_the_failure_needs_stay() -> None:
    text = (
        block("""
            import torch


            def f(x):
                return x * 0.7391482

        """)
        + CALL
    )
    assert "x * 0.7\n" in simplified(text, lambda made: "0.7" in made)
    assert "x * 0.7391482\n" in simplified(text, lambda made: "0.739" in made)


def test_an_input_that_nothing_writes_to_is_made_once() -> None:
    text = """
    import torch

    def f(x, y, z):
        x.index_put_((y,), z)
        return x.add_(x.flip(0))

    x = torch.zeros(2)
    y = torch.tensor([1])
    z = x[:1]
    expected = f(x, y, z)
    x = torch.zeros(2)
    y = torch.tensor([1])
    z = x[:1]
    got = torch.compile(f, backend="eager")(x, y, z)
    torch.testing.assert_close(got, expected)
    """
    made = simplified(text)
    assert [made.count(f"{name} = ") for name in "xyz"] == [2, 1, 2]


def test_strides_are_compared_without_axes_of_one_element_if_that_fails_too() -> None:
    text = """
    import torch

    def f(x):
        return x.t()

    x = torch.ones(1, 3)
    expected = f(x)
    got = torch.compile(f, backend="eager")(x)
    got, expected = got.squeeze().stride(), expected.squeeze().stride()
    assert got == expected
    """
    made = simplified(text)
    assert "torch.ones(2, 3)" in made and "assert got.stride() == expected.stride()" in made
    assert "squeeze" in simplified(text, lambda made: "(1, 3)" in made)


def test_a_function_that_is_passed_once_becomes_a_lambda() -> None:
    text = """
    import torch

    def energy(x):
        return x.sum() * 2

    def f(x):
        return torch.vmap(energy)(x)

    """
    made = simplified(dedent(text) + CALL)
    assert "return torch.vmap(lambda x: x.sum() * 2)(x)" in made


def test_an_operator_of_the_script_is_called_by_its_name() -> None:
    text = """
    import torch

    @torch.library.custom_op("own::fill", mutates_args=("x",))
    def fill(x: torch.Tensor) -> None:
        x.fill_(1)

    def f(x):
        torch.ops.own.fill.default(x)
        torch.ops.aten.relu.default(x)

    """
    made = simplified(dedent(text) + CALL)
    assert "    fill(x)\n" in made and "torch.ops.aten.relu.default(x)" in made


def test_the_only_input_is_called_x() -> None:
    text = block("""
        import torch


        def f(batch_norm):
            return batch_norm.exp()

    """)
    made = simplified(text + CALL.replace("x)", "batch_norm)").replace("x =", "batch_norm ="))
    assert made == format_script(
        block("""
            import torch


            def f(x):
                return x.exp()

        """)
        + CALL
    )


def test_inputs_named_after_a_graph_are_called_x_and_y() -> None:
    text = """
    import torch

    def f(sqrt, x):
        return torch.copysign(sqrt, x)

    sqrt = torch.zeros(2)
    x = torch.ones(2)
    expected = f(sqrt, x)
    got = torch.compile(f, backend="eager")(sqrt, x)
    torch.testing.assert_close(got, expected)
    """
    assert simplified(text, runs) == clean(
        """
        import torch


        def f(x, y):
            return torch.copysign(x, y)


        x = torch.zeros(2)
        y = torch.ones(2)
        expected = f(x, y)
        got = torch.compile(f, backend="eager")(x, y)
        torch.testing.assert_close(got, expected)
        """
    )


def test_a_key_that_comes_again_but_is_needed_gets_another_name() -> None:
    text = (
        block("""
            import torch


            def f(x):
                return {'a': x.sin(), 'a': x.exp()}

        """)
        + CALL
    )
    assert '{"b": x.sin(), "a": x.exp()}' in simplified(text, lambda made: "sin" in made)


def test_the_names_of_the_check_stay() -> None:
    made = simplified(
        block("""
            import torch


            def f(x):
                return x.exp()

        """)
        + CALL
    )
    assert "expected = f(x)\ngot = " in made


def trial(check: ScriptCheck):
    return lambda text: begin_trial(text, check, seconds=SECONDS)


def really_simplified(text: str, check: ScriptCheck) -> str:
    """A script simplified in forked children."""
    start = begin_trial(text, check, seconds=SECONDS, strict=False)()
    assert start is not None

    def begin(candidate: str):
        wait = begin_trial(candidate, start, seconds=SECONDS)
        return lambda: wait() is not None

    problem = ScriptProblem(text, begin)
    simplify_script(problem)
    return format_script(problem.current)


@pytest.mark.compiles
def test_the_gradient_of_a_parameter_becomes_that_of_the_input() -> None:
    text = clean(
        """
        import torch
        from torch import nn

        class Scale(torch.autograd.Function):
            def forward(ctx, x):
                return x.clone()

            def backward(ctx, grad):
                return grad * (2 if torch.compiler.is_compiling() else 1)

        class Net(nn.Module):
            def forward(self, x):
                h = self.first(x)
                h = Scale.apply(h)
                return h

        net = Net.__new__(Net)
        nn.Module.__init__(net)
        net.first = nn.Linear(1, 1)
        x = torch.ones(1)
        net(x).sum().backward()
        expected, net.first.weight.grad = net.first.weight.grad, None
        torch.compile(net, backend="eager")(x).sum().backward()
        torch.testing.assert_close(
            net.first.weight.grad, expected, rtol=1e-4, atol=1e-5, equal_nan=True
        )
        """
    )
    made = really_simplified(text, ScriptCheck(Kind.GRADIENT, backward=True))
    assert made == clean(
        """
        import torch


        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * (2 if torch.compiler.is_compiling() else 1)


        def net(x):
            return Scale.apply(x)


        x = torch.ones(1, requires_grad=True)
        net(x).sum().backward()
        expected, x.grad = x.grad, None
        torch.compile(net, backend="eager")(x).sum().backward()
        torch.testing.assert_close(x.grad, expected)
        """
    )


@pytest.mark.compiles
def test_a_parameter_that_is_set_on_the_model_is_passed_to_the_function() -> None:
    text = clean(
        """
        import torch
        from torch import nn

        class Actor(nn.Module):
            def forward(self, obs):
                return self.log_std.exp() * (2 if torch.compiler.is_compiling() else 1)

        actor = Actor()
        actor.log_std = nn.Parameter(torch.zeros(1))
        x = torch.ones(2)
        actor(x).sum().backward()
        expected, actor.log_std.grad = actor.log_std.grad, None
        torch.compile(actor, backend="eager")(x).sum().backward()
        torch.testing.assert_close(actor.log_std.grad, expected)
        """
    )
    made = really_simplified(text, ScriptCheck(Kind.GRADIENT, backward=True))
    assert made == clean(
        """
        import torch


        def actor(x):
            return x.exp() * (2 if torch.compiler.is_compiling() else 1)


        x = torch.zeros(1, requires_grad=True)
        actor(x).sum().backward()
        expected, x.grad = x.grad, None
        torch.compile(actor, backend="eager")(x).sum().backward()
        torch.testing.assert_close(x.grad, expected)
        """
    )


@pytest.mark.compiles
def test_settings_and_options_stay_only_if_the_failure_needs_them() -> None:
    text = clean(
        """
        import torch

        torch._dynamo.config.cache_size_limit = 3
        torch._dynamo.config.error_on_recompile = True
        torch.set_num_threads(1)

        def f(x):
            return x.exp()

        with torch.no_grad():
            torch.manual_seed(0)
            compiled = torch.compile(f, backend="eager", dynamic=False, fullgraph=True)
            compiled(torch.ones(2))
            compiled(torch.ones(3))
        """
    )
    made = really_simplified(text, ScriptCheck(Kind.RECOMPILE))
    assert made == clean(
        """
        import torch

        torch._dynamo.config.error_on_recompile = True


        def f(x):
            return x.exp()


        compiled = torch.compile(f, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(3))
        """
    )


@pytest.mark.compiles
def test_an_option_without_which_eager_fails_too_stays() -> None:
    text = clean(
        """
        import torch

        def f(x):
            return x / x * (2 if torch.compiler.is_compiling() else 1)

        x = torch.arange(2.0)
        expected = f(x)
        got = torch.compile(f, backend="eager")(x)
        torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1, equal_nan=True)
        """
    )
    made = really_simplified(text, ScriptCheck(Kind.RESULT))
    assert "assert_close(got, expected, equal_nan=True)" in made


@pytest.mark.compiles
def test_another_failure_is_not_the_same() -> None:
    text = clean(
        """
        import torch

        def f(x):
            y = x.double() if torch.compiler.is_compiling() else x
            return y * 2

        x = torch.ones(2)
        expected = f(x)
        got = torch.compile(f, backend="eager")(x)
        assert got.dtype == expected.dtype, "no"
        """
    )
    check = ScriptCheck(Kind.METADATA, "torch.float32", "torch.float64", aspect="dtype")
    assert begin_trial(text, check, seconds=SECONDS)() == check
    for other in ("x.half()", "x", "x.no_such_method()"):
        changed = text.replace("x.double()", other)
        assert begin_trial(changed, check, seconds=SECONDS)() is None


@pytest.mark.compiles
def test_the_values_are_those_of_the_script() -> None:
    text = block("""
        import torch


        def f(x):
            return x * (3 if torch.compiler.is_compiling() else 1)""")
    check = ScriptCheck(Kind.RESULT, "-0.9640", "-1.2171")
    found = begin_trial(f"{text}\n\n{CALL}", check, seconds=SECONDS)()
    assert found is not None and (found.expected, found.got) == ("1", "3")


def test_objects_that_only_hold_values_become_parameters_and_whole_lists_are_compared() -> None:
    text = """
    import torch
    from torch import nn

    class Cache:
        def __init__(self):
            self.scales = {}

        def use(self, name):
            self.scales["b"] = name

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = Cache()
            for name in ("a", "b"):
                self.cache.scales[name] = 1.0

        def note(self, name):
            with torch.no_grad():
                return [name]

        def forward(self, x):
            self.cache.use(x)
            return [self.note(x), list(self.cache.scales)]

    model = Mixer()
    expected = model("a")[1]
    model = Mixer()
    got = torch.compile(model, backend="eager")("a")[1]
    assert got == expected, f"{got} {expected}"
    """
    kept = ("no_grad", "list(", "b", "for name")
    assert simplified(text, lambda made: all(one in made for one in kept) and runs(made)) == clean(
        """
        import torch


        def note(x):
            with torch.no_grad():
                return [x]


        def make_scales():
            scales = {}
            for name in ("a", "b"):
                scales[name] = 1.0
            return scales


        def mixer(scales, x):
            scales["b"] = x
            note(x)
            return list(scales)


        scales = make_scales()
        expected = mixer(scales, "a")
        scales = make_scales()
        got = torch.compile(mixer, backend="eager")(scales, "a")
        assert got == expected, f"{got} {expected}"
        """
    )


def test_objects_with_other_uses_stay() -> None:
    text = """
    import torch
    from torch import nn

    class Cache:
        def __init__(self):
            self.scales = {}

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = Cache()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return id(self.cache), vars(self), self.layer(x)

    model = Mixer()
    x = torch.ones(2)
    expected = model(x)
    got = torch.compile(model, backend="eager")(x)
    assert got == expected
    """
    kept = ("id(self.cache)", "vars(self)", "self.layer(x)")
    made = simplified(text, lambda made: all(one in made for one in kept) and runs(made))
    assert "class Cache" in made and "class Mixer(nn.Module)" in made

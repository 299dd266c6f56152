import re

import pytest
import torch

from benchmarks.field.vision import detector_reference_points
from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, rewritten
from tests.text import block

HEAD = block("""
    import numpy as np
    import torch


""")
X = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
CALLS = block("""
    def f(x):
        return x * 2 + best(x).sum()
""")
RAISING = block("""
    def best(x):
        order = [row.index(max(row)) for row in x.tolist()]
        if len(set(order)) == 1:
            raise ValueError("the same one in each row")
        return torch.tensor(order)


    def f(x):
        try:
            return x * 2 + best(x).sum()
        except ValueError:
            return x
""")


def module(body, call="self.best(x).sum()"):
    return (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.COUNT, self.net = 2, torch.nn.Linear(3, 3)\n\n"
        f"    def best(self, x):\n        {body}\n\n"
        f"    def forward(self, x):\n        return x * 2 + {call}\n"
    )


def refusals(source, x=X):
    outcome = rewritten(source, x)
    assert "FG904" not in outcome.rules, outcome.source
    return " ".join(outcome.refusals)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.tensor(sum(self.net(x).tolist()[0]))", "`self.net` cannot be handed to"),
        ("self.last = x.tolist()\n        return x.long()", "`best` changes `self.last`"),
        ("x[0] = max(x.tolist()[0])\n        return x.long()", "`best` changes `x[0]`"),
        ("return torch.tensor(str(x.tolist()).count('0')), 'a'", ""),
        ("return x if x.tolist()[0][0] > 7 else x / 2", "a gradient flows through `best`"),
    ],
)
def test_left_alone(body, reason):
    call = "len(self.best(x))" if "'a'" in body else "self.best(x).sum()"
    needs = X.clone().requires_grad_() if "gradient" in reason else X
    assert reason in refusals(module(body, call), needs)


def test_an_exception_that_the_caller_handles():
    source = f"{HEAD}{RAISING}"
    assert "handled by a `try`" in refusals(source)


@pytest.mark.parametrize(
    "decorator", ["@torch.no_grad()", "@torch.inference_mode", "@staticmethod"]
)
def test_a_decorated_helper(decorator):
    body = "order = [max(range(3), key=row.__getitem__) for row in x.tolist()]\n"
    source = module(f"{body}        return torch.tensor(order)")
    source = source.replace("    def best", f"    {decorator}\n    def best")
    if "static" in decorator:
        source = source.replace("best(self, x)", "best(x)")
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert f"    {decorator}\n    def best" in outcome.source
    outcome.check(exact=True)


def test_other_decorators_are_named():
    source = f"{HEAD}import functools\n\n\n@functools.lru_cache\ndef best(x):\n"
    body = "    return torch.tensor(max(x.tolist()[0]))\n\n\n"
    assert "`best` has the decorator `@functools.lru_cache`" in refusals(source + body + CALLS)


def test_forward_itself_and_nested_functions_are_left_alone():
    inner = "def g(x):\n        return max(x.tolist())[0]\n\n    return x * g(x)\n"
    assert "made anew inside a function" in refusals(f"{HEAD}def f(x):\n    {inner}")
    plain = f"{HEAD}def f(x):\n    return x * max(x.tolist())[0]\n"
    assert "lies in `f` itself" in refusals(plain)


def test_a_helper_that_eager_calls_after_a_break():
    """It is a compiled frame of its own, without callers in the stack of its second break."""
    body = block("""
        def best(x):
            a = max(x[0].tolist())
            b = sorted(x[1].tolist())
            return torch.full_like(x, a * b[0])
    """)
    loop = block("""
        def f(x):
            for _ in range(2):
                x = x * best(x).sum()
            return x
    """)
    outcome = rewritten(f"{HEAD}{body}\n\n{loop}", X)
    assert "FG904" in outcome.rules and "in `best` itself" not in str(outcome.refusals)
    outcome.check((X * 5,), exact=True)


def test_a_generator_in_the_compiled_function_is_no_helper():
    body = "s = sorted(v for row in x for v in row.tolist())\n    return x * s[0]\n"
    outcome = rewritten(f"{HEAD}def f(x):\n    {body}", X)
    assert "def _f_op" not in outcome.source


def test_a_new_tensor_may_be_changed():
    body = "rows = max(x.tolist()[0])\n    return x.new_zeros(x.shape[1]).fill_(rows).add_(1)\n"
    outcome = rewritten(f"{HEAD}def best(x):\n    {body}\n\n{CALLS}", X)
    assert outcome.rules == ["FG904"], outcome.refusals
    outcome.check((X * 5,), exact=True)


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        (
            "order = [max(range(3), key=row.__getitem__) for row in x.tolist()]\n"
            "        return torch.tensor(order)",
            '"{space}::best", mutates_args=())\ndef _best_op(x: torch.Tensor) -> torch.Tensor:\n'
            "    return Model.best(None, x)\n\n\n@_best_op.register_fake\ndef _best_fake(x):\n"
            "    return torch.empty((x.shape[0],), dtype=torch.int64)\n",
        ),
        (
            '"""Doc."""\n'
            "        found = sorted(sum(x.tolist(), []))\n"
            "        return torch.tensor(found[: self.COUNT]).long()",
            block("""
                def _best_impl(x: torch.Tensor, count: int) -> torch.Tensor:
                    found = sorted(sum(x.tolist(), []))
                    return torch.tensor(found[: count]).long()


                _best_op = torch.library.custom_op("{space}::best", _best_impl, mutates_args=())


                @_best_op.register_fake
                def _best_fake(x, count):
                    return torch.empty((count,), dtype=torch.int64)
            """),
        ),
    ],
)
def test_operator(body, operator):
    source = module(body)
    outcome = rewritten(source, X)
    assert operator in re.sub(r"rewritten_\d+::", "{space}::", outcome.source), outcome.source
    assert outcome.rules == ["FG904"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)


@pytest.mark.compiles
def test_sizes_that_data_decide_and_ints():
    source = (
        f"{HEAD}def parts(x):\n    count = 1 + int(np.sum(np.unwrap(x.numpy()) > 3.5))\n"
        "    return torch.arange(count), count\n\n\n"
        "def f(x):\n    index, count = parts(x)\n"
        "    return torch.zeros(count, 3).index_add_(0, index, x[:1].expand(count, 3)), index\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert "-> tuple[torch.Tensor, int]:" in outcome.source
    count = "    count = torch.library.get_ctx().new_dynamic_size()\n"
    assert f"{count}    return torch.empty((count,), dtype=torch.int64), count\n" in outcome.source
    assert outcome.after.fullgraph.ok and outcome.before.fullgraph.ok is False
    f, new = imported(source).f, torch.compile(imported(outcome.source).f, fullgraph=True)
    for x in (X, X * 3, X - 9):
        assert torch.equal(f(x)[0], new(x)[0])


def test_a_size_of_an_argument_may_be_chance_where_data_decide():
    source = (
        f"{HEAD}def kinds(x):\n    values = (x > 0).long().unique().numpy()\n"
        "    return torch.from_numpy(values)\n\n\ndef f(x):\n    return kinds(x).sum() + x[:2]\n"
    )
    outcome = rewritten(source, torch.tensor([1.0, -1.0]))
    assert "    return x.new_empty((size,), dtype=torch.int64)\n" in outcome.source


HELPERS = """
def longest(x, y):
    texts = [str(row) for row in x.tolist()]
    return torch.tensor([len(text) * y.numel() for text in texts])


def f(x, y):
    return x[:, 0] * longest(x, y)
"""


def test_equal_sizes_of_two_arguments_are_told_apart():
    outcome = rewritten(HEAD + HELPERS, X, X[:, :1].clone())
    assert "    return torch.empty((x.shape[0],), dtype=torch.int64)\n" in outcome.source
    assert not any("equal" in clause for clause in outcome.assumes)
    swapped = HELPERS.replace("in x.tolist()", "in y.tolist()").replace("[:, 0] *", "[:2, 0] *")
    swapped = swapped.replace("y.numel()", "x.numel()")
    outcome = rewritten(HEAD + swapped, X, X[:, :1].clone())
    assert "    return torch.empty((y.shape[0],), dtype=torch.int64)\n" in outcome.source
    assert "def _longest_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:" in outcome.source


def test_sizes_that_stay_equal_are_assumed_to_be_of_the_source():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.one = torch.nn.Buffer(torch.ones(3))\n"
        "        self.two = torch.nn.Buffer(torch.ones(3))\n\n"
        "    def best(self):\n        first = self.one.tolist()[0]\n"
        "        return torch.tensor([float(str(v)) for v in self.two.tolist()]) + first\n\n"
        "    def forward(self, x):\n        return x * self.best()\n"
    )
    outcome = rewritten(source, X)
    assert "    return torch.empty(two.shape, dtype=torch.float32)\n" in outcome.source
    assert "`two.shape[0]` is a size of its result, and not the equal `one.shape[0]`" in (
        outcome.assumes
    )


@pytest.mark.parametrize(
    ("value", "fake"),
    [
        ("torch.tensor(sorted(x[0].tolist()))", "torch.empty((x.shape[1],), dtype=torch.float32)"),
        ("torch.tensor(x.tolist(), device=x.device)", "x.new_empty(x.shape, dtype=torch.float32)"),
        ("torch.tensor(x.tolist()).to(x)", "torch.empty_like(x)"),
        ("torch.tensor(x.tolist()).to(x.device)", "x.new_empty(x.shape, dtype=torch.float32)"),
        ("torch.from_numpy(np.unwrap(x.cpu().numpy()))", 'torch.empty_like(x, device="cpu")'),
        ("torch.from_numpy(np.unwrap(x.numpy()))", "torch.empty_like(x)"),
        ("torch.from_numpy(np.unwrap(x.numpy())) > 1", "torch.empty_like(x, dtype=torch.bool)"),
        ("x[: int(x.max()) - 4] * 2", "x.new_empty((size, x.shape[1]))"),
        (
            "torch.stack([torch.tensor(r) for r in x.tolist()])",
            "torch.empty(x.shape, dtype=torch.float32)",
        ),
    ],
)
def test_device_and_dtype_come_from_the_source(value, fake):
    body = f"return {value}"
    found = rewritten(module(body), X).source
    assert f"    return {fake}\n" in found, found


def test_a_position_is_no_size():
    body = "row = x[0].tolist()\n        return row.index(max(row)), row.index(min(row))"
    found = rewritten(module(body, "sum(self.best(x))"), X).source
    lines = ("best", "best_2")
    assert "    return best, best_2\n" in found and "size =" not in found
    assert all(
        f"    {one} = torch.library.get_ctx().new_dynamic_size()\n" in found for one in lines
    )


def test_gradients_are_cut_only_where_the_code_cuts_them():
    source = (
        f"{HEAD}def f(x, y):\n    a = np.unwrap(x.numpy()) + np.unwrap(y.detach().numpy())\n"
        "    return torch.from_numpy(a) + 1\n"
    )
    assert "_a_of_f_op(x, y.detach())" in rewritten(source, X, X.clone()).source


def test_eager_code_runs_the_function_with_any_arguments():
    source = (
        f"{HEAD}def ranks(x, scale: torch.Tensor | None, first=0, *, count=None):\n"
        "    order = sorted(range(first, count or len(x)), key=x.tolist().__getitem__)\n"
        "    found = x[torch.tensor(order)]\n"
        "    return found if scale is None else found * scale\n\n\n"
        "def f(x, scale):\n    return ranks(x[:, 0], scale, count=2) * 2\n"
    )
    scale = torch.tensor([1.0, 3.0])
    outcome = rewritten(source, X, scale)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert (
        "def _ranks_op(x: torch.Tensor, scale: torch.Tensor, first: int, count: int)"
        " -> torch.Tensor:\n    return ranks(x, scale, first, count=count)\n"
    ) in outcome.source
    test = (
        "torch.compiler.is_dynamo_compiling() and not x.requires_grad and scale is not None "
        "and not scale.requires_grad and isinstance(first, int) and isinstance(count, int)"
    )
    assert test in " ".join(outcome.source.split())
    assert "        return _ranks_op(x, scale, first, count)\n" in outcome.source
    outcome.check((X * 5, scale), exact=True)
    new, wanted = imported(outcome.source).ranks, X[0].sort().values
    assert torch.equal(new(X[0], None), wanted)
    needs = X[0].clone().requires_grad_()
    new(needs, None).sum().backward()
    assert torch.equal(needs.grad, torch.ones(3))


RANKED = """class Model(torch.nn.Module):
    def __init__(self, scale: float = 2.0, shift=0.5):
        super().__init__()
        self.scale = scale
        self.shift = shift

    def forward(self, x):
        y = x * 3
        return self.ranked(y) + 1

    def ranked(self, y):
        order = sorted(range(len(y)), key=y[:, 0].tolist().__getitem__)
        return y[torch.tensor(order)] * self.scale + (self.shift or 0.0)
"""
LINES = RANKED.partition("def ranked(self, y):\n")[2].replace("return", "z =")
INLINE = RANKED.replace("        return self.ranked(y) + 1\n", f"{LINES}        return z + 1\n")


@pytest.mark.compiles
@pytest.mark.parametrize("source", [HEAD + RANKED, HEAD + INLINE])
def test_moved_code_keeps_its_gradient_and_takes_other_values(source):
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert not any("gradient" in one for one in outcome.assumes)
    outcome.check((X * 5,), exact=True)
    old, new = imported(source).Model, imported(outcome.source).Model
    for arguments in ((), (3.0, None), (3.0, torch.ones(1))):
        for needs_grad in (False, True):
            results = []
            for model in (old(*arguments), new(*arguments), torch.compile(new(*arguments))):
                x = X.clone().requires_grad_(needs_grad)
                result = model(x)
                grad = torch.autograd.grad(result.sum(), x)[0] if needs_grad else None
                results.append((result.detach(), grad))
            torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
            torch.testing.assert_close(results[2], results[0])


SETTINGS = """class Model(torch.nn.Module):
    def __init__(self, wide: bool = True, mode: str = "rows", noisy: bool = True):
        super().__init__()
        self.wide, self.mode, self.noisy = wide, mode, noisy

    def ranked(self, y):
        order = torch.tensor(sorted(range(len(y)), key=y[:, 0].tolist().__getitem__))
        if self.wide:
            y = y[:, None] + y
        if self.noisy:
            y = y + 0.5
        y[order[0]] = 0
        return y if self.mode == "rows" else y.sum(0)

    def forward(self, x):
        y = x * 3
        return self.ranked(y) + y.sum()
"""


@pytest.mark.compiles
def test_compiled_code_calls_the_operator_for_the_settings_that_were_seen():
    """Others give another shape, or change the argument."""
    outcome = rewritten(HEAD + SETTINGS, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    conditions = 'self.wide and self.noisy and self.mode == "rows"'
    assert conditions in " ".join(outcome.source.split())
    outcome.check((X * 5,), exact=True)
    old, new = imported(HEAD + SETTINGS).Model, imported(outcome.source).Model
    for arguments in ((), (False,), (True, "columns"), (False, "rows", False)):
        expected = old(*arguments)(X)
        torch.testing.assert_close(new(*arguments)(X), expected, rtol=0, atol=0)
        torch.testing.assert_close(torch.compile(new(*arguments))(X), expected)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "line",
    [
        block("""
            if self.pads:
                        values.append(0.0)"""),
        block("""
            if self.pads:
                        values += [0.0]"""),
        block("""
            if self.pads:
                        values: list[float] = values + [0.0]"""),
        "values = [v for v in values if self.pads or v > 6]",
    ],
)
def test_a_setting_that_decides_the_length_of_a_list(line):
    head = "class Model(torch.nn.Module):\n    def __init__(self, pads: bool = True):\n"
    body = f"values = sorted(x.flatten().tolist())\n        {line}\n        "
    source = (
        f"{HEAD}{head}        super().__init__()\n        self.pads = pads\n\n"
        f"    def best(self, x):\n        {body}return torch.tensor(values)\n\n"
        "    def forward(self, x):\n        return self.best(x * 2) + 1\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert "and self.pads" in outcome.source or "self.pads and" in outcome.source, outcome.source
    model = imported(outcome.source).Model(False)
    expected = imported(source).Model(False)(X)
    assert torch.equal(torch.compile(model, backend="eager")(X), expected)


@pytest.mark.parametrize("change", ["x = x + 1", "x += 1", "x.add_(1)"])
def test_settings_that_keep_the_shape_are_not_asked_for(change):
    source = (
        f"{HEAD}def ranks(x, noisy: bool):\n"
        "    order = sorted(range(len(x)), key=x.tolist().__getitem__)\n    x = x * 1\n"
        f"    if noisy:\n        {change}\n    return x[torch.tensor(order)] * 2\n\n\n"
        "def f(x):\n    return ranks(x[0], True) * 2\n"
    )
    outcome = rewritten(source, X)
    assert "is_dynamo_compiling() and not x.requires_grad:" in outcome.source
    outcome.check((X * 5,), exact=True)


def test_an_argument_that_one_branch_replaces_may_be_changed():
    body = (
        "if x.tolist()[0][0] > 7:\n            x = x + 1\n        x[0] = 5\n        return x.long()"
    )
    assert "`best` changes `x[0]`" in refusals(module(body))


@pytest.mark.compiles
def test_an_operator_takes_no_none():
    source = (
        f"{HEAD}def ranks(x, scale: torch.Tensor | None):\n"
        "    order = sorted(range(len(x)), key=x.tolist().__getitem__)\n"
        "    found = x[torch.tensor(order)]\n"
        "    return found if scale is None else found * scale\n\n\n"
        "def f(x, scale):\n    return ranks(x[:, 0], scale) + ranks(x[:, 1], None)\n"
    )
    scale = torch.rand(len(X))
    new = rewritten(source, X, scale).source
    if "_ranks_op" in new:
        assert "def _ranks_op(x: torch.Tensor, scale: torch.Tensor)" in new
        assert "        and scale is not None\n        and not scale.requires_grad\n" in new
    result = torch.compile(imported(new).f, backend="aot_eager")(X, scale)
    assert torch.equal(result, imported(source).f(X, scale))


def test_methods_without_self_and_unused_parameters_stay_in_eager():
    body = "order = [max(range(3), key=row.__getitem__) for row in x.tolist()]\n"
    source = module(f"{body}        return torch.tensor(order)")
    static = source.replace("    def best(self, x)", "    @staticmethod\n    def best(x)")
    for method, call in ((static, "Model.best(x)"), (source, "Model.best(None, x)")):
        new = rewritten(method, X).source
        assert f"def _best_op(x: torch.Tensor) -> torch.Tensor:\n    return {call}\n" in new
        test = "if torch.compiler.is_dynamo_compiling() and x.dim() == 2:"
        assert f"        {test}\n            return _best_op(x)\n        order = [" in new
    function = f"{HEAD}def best(unused, x):\n    {body}    return torch.tensor(order)\n\n\n"
    call = CALLS.replace("best(x)", "best(0, x)")
    other = f"{function.replace('        return', '    return')}{call}"
    source = rewritten(other, X).source
    assert "is_dynamo_compiling" not in source
    test = "    if torch.compiler.is_compiling() and x.dim() == 2:\n        return _best_op(x)\n"
    assert f"def best(unused, x):\n{test}    return _best_impl(x)\n" in source


MEDIANS = """
def medians(x, weight: Optional[torch.Tensor] = None, fill: Union[float, str, None] = None):
    rows = sorted(range(x.shape[0]), key=x.tolist().__getitem__)
    found = x[torch.tensor(rows)]
    if weight is not None:
        found = found * weight.view(-1, *[1] * (x.dim() - 1))
    return found + (x.mean() if fill == "mean" else fill or 0.0)
"""


@pytest.mark.compiles
def test_what_the_operator_cannot_do_stays_as_it_was():
    call = "medians(x, weight, 2.0) * 3"
    head = block("""
        from typing import Optional, Union

        import torch

    """)
    model = (
        "\n\nclass Model(torch.nn.Module):\n{}    def forward(self, x, weight):\n        return {}"
    )
    method = MEDIANS.replace("\n", "\n    ").replace("(x, weight", "(self, x, weight") + "\n"
    of_function = f"{head}{MEDIANS}{model.format('', call)}\n"
    of_method = f"{head}{model.format(method, f'self.{call}')}\n"
    weight = torch.tensor([1.0, 3.0])
    for text in (of_function, of_method):
        outcome = rewritten(text, X, weight)
        assert outcome.rules == ["FG904"], outcome.refusals
        assert "no gradient flows through it" not in outcome.assumes
        outcome.check((X * 5, weight), exact=True)
        old, new = imported(text), imported(outcome.source)
        for x, *others in (
            (X.clone().requires_grad_(), weight, 2.0),
            (X, weight.clone().requires_grad_(), 2.0),
            (X, weight, "mean"),
            (X, None, 2.0),
            (torch.rand(2, 3, 4), weight, 2.0),
        ):
            functions = [getattr(one, "medians", None) or one.Model().medians for one in (old, new)]
            functions.append(torch.compile(functions[1]))
            results = []
            for function in functions:
                leaves = [one for one in (x, others[0]) if one is not None and one.requires_grad]
                result = function(x, *others)
                grads = torch.autograd.grad(result.sum(), leaves) if leaves else ()
                results.append((result.detach(), *grads))
            torch.testing.assert_close(results[1], results[0])
            torch.testing.assert_close(results[2], results[0])


ROWS = "    return torch.tensor([max(range(3), key=row.__getitem__) for row in {}.tolist()])\n"


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (
            block("""
                def best(x):
                    return x"""),
            "`best` is bound again in line 12",
        ),
        ("best = torch.compile(best)", "`best` is bound again in line 12"),
        (
            block("""
                try:
                    from fast import best
                except ImportError:
                    pass"""),
            "bound again in line 12",
        ),
        (
            block("""
                def swap():
                    global best
                    best = torch.compile(best)"""),
            "bound again in line 12",
        ),
    ],
)
def test_the_name_of_the_function_is_bound_again(after, reason):
    calls = CALLS.replace("best", "first")
    function = f"def best(x):\n{ROWS.format('x')}\n\nfirst = best\n\n\n{after}\n"
    assert reason in refusals(f"{HEAD}{function}\n\n{calls}")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (f"def best(best):\n{ROWS.format('best')}", "would hide `best`"),
        (f"def best(x):\n    import torch\n\n{ROWS.format('x')}", "`best` has a variable `torch`"),
    ],
)
def test_names_inside_the_function_hide_others(function, reason):
    assert reason in refusals(f"{HEAD}{function}\n\n{CALLS}")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("super().extra_repr()\n    ", "`super()` means something else outside of its class"),
        ("n = Model.__COUNT\n    ", "`Model.__COUNT` means something else outside of its class"),
    ],
)
def test_names_of_a_class_stay_in_it(body, reason):
    source = module(f"{body}    {ROWS.format('x').strip()}").replace("self.COUNT", "self.__COUNT")
    source = source.replace("    def __init__", "    __COUNT = 2\n\n    def __init__")
    assert reason in refusals(source)
    static = module(ROWS.format("x").strip()).replace("best", "__best")
    static = static.replace("def __best(self, x)", "@staticmethod\n    def __best(x)")
    assert "`__best` has another name outside of its class" in refusals(static)


def test_scripted_code_runs_the_function():
    function = f"def best(x):\n{ROWS.format('x')}\n\n"
    source = rewritten(
        f"{HEAD}{function}SCRIPTED = torch.jit.is_scripting()\n\n\n{CALLS}", X
    ).source
    tests = "not torch.jit.is_scripting() and torch.compiler.is_dynamo_compiling() and x.dim() == 2"
    assert f"if ( {tests} ): return _best_op(x) return torch" in " ".join(source.split())


def test_many_conditions_are_indented_as_black_does():
    names = ("weighted_positions", "interesting_positions", "other_positions")
    parameters = ", ".join(f"{name}=None" for name in names)
    body = f"rows = {', '.join(names)}\n        return torch.tensor([max(r) for r in x.tolist()])"
    source = module(body, "self.best(x, x, x, x).sum()")
    source = source.replace("def best(self, x", f"@staticmethod\n    def best(x, {parameters}")
    tests = "".join(
        f"            and {name} is not None\n            and not {name}.requires_grad\n"
        for name in names
    )
    condition = (
        "        if (\n            torch.compiler.is_dynamo_compiling()\n"
        f"            and x.dim() == 2\n{tests}        ):\n"
    )
    assert condition in rewritten(source, X).source


@pytest.mark.parametrize(("line", "returned"), [("x = x + 1", "x"), ("y = x + 1", "x.clone()")])
def test_only_what_is_returned_as_it_came_is_copied(line, returned):
    source = (
        f"{HEAD}def ranks(x):\n    order = sorted(range(len(x)), key=x.tolist().__getitem__)\n"
        f"    {line}\n    return x, torch.tensor(order)\n\n\n"
        "def f(x):\n    y, order = ranks(x[0])\n    return y[order] * 2\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert f"    return {returned}, torch.tensor(order)\n" in outcome.source
    assert ("is_dynamo_compiling" in outcome.source) is (returned == "x")
    outcome.check((X * 5,), exact=True)


def test_an_operator_without_tensors_is_refused():
    source = (
        f"{HEAD}def pick(sizes):\n    return sizes[int(torch.rand(()).item() * len(sizes))]\n\n\n"
        "def f(x):\n    return x * pick([1, 2, 3])\n"
    )
    assert "Inductor runs no operator without tensors" in refusals(source)


def test_statements_of_forward():
    source = (
        f"{HEAD}def f(x):\n    h = x * 2\n    # smooth\n    y = np.unwrap(h.numpy(), axis=0)\n"
        "    return torch.from_numpy(y).diff(dim=0) + 1\n"
    )
    outcome = rewritten(source, X)
    assert outcome.rules == ["FG904"], outcome.refusals
    assert re.sub(r"rewritten_\d+", "", outcome.source).endswith(
        block("""
            def _unwrap_impl(h: torch.Tensor) -> torch.Tensor:
                y = np.unwrap(h.numpy(), axis=0)
                return torch.from_numpy(y)


            _unwrap_op = torch.library.custom_op(
                "::unwrap", _unwrap_impl, mutates_args=()
            )


            @_unwrap_op.register_fake
            def _unwrap_fake(h):
                return torch.empty_like(h)


            def f(x):
                h = x * 2
                # smooth
                if torch.compiler.is_compiling() and not h.requires_grad:
                    y = _unwrap_op(h)
                else:
                    y = _unwrap_impl(h)
                return y.diff(dim=0) + 1
        """)
    )
    outcome.check((X * 5,), exact=True)


@pytest.mark.compiles
def test_fix_proves_it_under_inductor_after_edits_of_the_code():
    source = (
        f"{HEAD}def ranks(x):\n    order = sorted(range(len(x)), key=x.tolist().__getitem__)\n"
        "    return torch.tensor(order)\n\n\n"
        "def f(x):\n    print('on')\n    return x[ranks(x[:, 0])] * 2\n"
    )
    f = imported(source).f
    fixes = fix(f, (X,))
    assert [made.rule for made in fixes.suggestions if made.accepted] == ["FG113", "FG111", "FG904"]
    assert fixes.whole.check.ok and fixes.whole.edits == "unsafe", fixes
    assert torch.equal(fixes.patched(unsafe=True)(X), f(X))


UNSEEN = """import torch
from typing import Optional, overload
from torch import Tensor


@overload
def kept(index: Tensor, weight: Tensor):
    pass


def kept(index, weight: Optional[Tensor] = None):
    size = None
    layout = None
    value: Optional[Tensor] = None
    if index.is_sparse:
        layout, index, value = index.layout, index.indices(), index.values()
    mask = torch.tensor([a != b for a, b in zip(*index.tolist())])
    index = index[:, mask]
    assert size is None or weight is None
    if layout is not None:
        return index, value[mask]
    if weight is None:
        return index, None
    else:
        return index, weight[mask]


def f(index, weight):
    index, weight = kept(index, weight)
    return index.sum() + weight.sum()
"""


@pytest.mark.compiles
def test_a_tensor_of_which_nothing_is_known_is_asked_for_its_dtype():
    index, weight = torch.tensor([[0, 1, 2], [0, 2, 1]]), torch.tensor([1.0, 2.0, 3.0])
    outcome = rewritten(UNSEEN, index, weight)
    assert "and weight.dim() == 1\n        and weight.dtype == torch.float32\n" in outcome.source
    f, g = (imported(source).f for source in (outcome.original, outcome.source))
    compiled = torch.compile(g, backend="aot_eager")
    for other in (weight, weight.double(), weight.long(), weight[:, None].expand(3, 2)):
        assert torch.equal(compiled(index, other), f(index, other))


@pytest.mark.compiles
def test_a_result_whose_dtype_a_tensor_may_decide_asks_for_its_dtype():
    """The points come from numbers and from `ratios`, and the operator's device from `shapes`."""
    module, inputs = detector_reference_points.build()
    fixes = fix(module, inputs, select=["FG904"], inductor=False)
    assert "+            and ratios.dtype == torch.float32\n" in fixes.diff(unsafe=True)

import re

import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
NAN = torch.tensor([1.0, float("nan")])
BRANCH = "data-dependent branch"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("try:\n        if x.isnan().any():\n            raise ValueError\n"
         "    except ValueError:\n        x = x * 0", "try"),
        (block("""
            if (x + torch.rand(4)).isnan().any():
                    raise ValueError"""), "random"),
        (block("""
            if x.add_(1).isnan().any():
                    raise ValueError"""), "changes"),
        ("n = object()\n    if x.isnan().any():\n        raise ValueError(n)", "`n` cannot"),
    ],
)  # fmt: skip
def test_left_alone(body, reason):
    source = f"{HEAD}def f(x):\n    {body}\n    return x * 2\n"
    test = body[body.index("if ") + 3 :].partition(":\n")[0]
    text, rewrites, refusals = offered(source, test, BRANCH, torch.ones(4))
    assert not [one for one in rewrites if "operator" in one.why], text
    assert any(reason in one for one in refusals), refusals


@pytest.mark.parametrize(
    ("raised", "arguments"),
    [
        ("ValueError('%s %s' % (x.shape, x))", "x"),
        ("ValueError('{} {}'.format(x.shape, x))", "x"),
        ("ValueError(f'{x.mean()} {x.max():.2f} {x.sum().item()}')", "x.detach()"),
        ("ValueError(f'{x - 1}')", "x"),
        ("ValueError(f'{x.max()!r}')", "x"),
        ("ValueError(f'{(x - x.mean()).abs().max()}')", "x.detach()"),
        (
            "ValueError(str(torch.stack(xs).max().item()))",
            "x.detach(), [tensor.detach() for tensor in xs]",
        ),
        (
            "ValueError(f'{max(len(t) for t in xs)}')",
            "x.detach(), [tensor.detach() for tensor in xs]",
        ),
        ("ValueError(xs)", "x.detach(), xs"),
        (
            "ValueError('' if m is None else m.max().item())",
            "x.detach(), m.detach() if m is not None else None",
        ),
    ],
)
def test_tensors_are_detached_unless_the_message_shows_them(raised, arguments):
    x = torch.ones(3)
    for early in ("", f"error = {raised}\n        "):
        last = "error" if early else raised
        body = f"xs, m\n    if x.isnan().any():\n        {early}raise {last}"
        source = f"{HEAD}def f(x, xs, m=None):\n    {body}\n    return x\n"
        text, _, _ = offered(source, "x.isnan().any()", BRANCH, x, [x], x, rule="FG101")
        assert f"    _check_x({arguments})\n" in text


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        (
            block("""
                if is_bad(x):
                        raise ValueError"""),
            "x",
        ),
        (
            block("""
                if x.isnan().any():
                        raise ValueError(f'{x.max()} of {len(x)}')"""),
            "x.detach()",
        ),
        (
            block("""
                if x.isnan().any():
                        raise ValueError(x)"""),
            "x",
        ),
        (
            block("""
                if x.isnan().any() and x.requires_grad:
                        raise ValueError"""),
            "x",
        ),
    ],
)
def test_the_check_runs_under_a_function_transform(body, argument):
    source = f"{HEAD}def f(x):\n    {body}\n    return (x * x).sum()\n"
    source += "\n\ndef is_bad(x):\n    return bool(x.isnan().any())\n"
    test = body[3:].partition(":")[0]
    text, _, _ = offered(source, test, BRANCH, torch.ones(3), rule="FG101")
    assert f"    _check_x({argument})\n" in text
    if "detach" in argument:
        new = torch.func.grad(imported(text).f)
        assert torch.equal(new(torch.ones(3)), 2 * torch.ones(3))
        with pytest.raises(ValueError, match="nan of 2"):
            new(NAN)


def test_a_buffer_is_not_detached():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.top = torch.nn.Buffer(torch.ones(()))\n\n    def forward(self, x):\n"
        "        if (x > self.top).any():\n            raise ValueError\n        return x\n"
    )
    text, _, _ = offered(source, "(x > self.top).any()", BRANCH, torch.ones(3), rule="FG101")
    assert "        _check_x(x.detach(), self.top)\n" in text


def test_what_it_raises_is_handled_by_a_caller():
    source = (
        f"{HEAD}def checked(x):\n    if x.isnan().any():\n        raise ValueError\n"
        "    return x\n\n\n"
        "def f(x):\n    try:\n        x = checked(x)\n    except ValueError:\n        x = x * 0\n"
        "    return x\n"
    )
    _, rewrites, refusals = offered(source, "x.isnan().any()", BRANCH)
    assert not rewrites and all("try" in one for one in refusals[:1])


@pytest.mark.parametrize(
    "body",
    [
        "if x.isnan().any():\n        raise ValueError\n    x = x + 1",
        block("""
            if x.isnan().any():
                    return x"""),
        "y = x.sum() > 0",
    ],
)
def test_none_of_its_business(body):
    source = f"{HEAD}def f(x):\n    {body}\n    return x\n"
    expression = "x.isnan().any()" if "isnan" in body else "x.sum() > 0"
    found = offered(source.replace("raise ValueError", "x = -x"), expression, BRANCH)[1]
    assert not [one for one in found if "operator" in one.why]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "operator"),
    [
        (
            "assert not torch.isnan(x).any()  # never",
            "(x: torch.Tensor) -> None:\n    assert not torch.isnan(x).any()  # never\n",
        ),
        (
            'assert ( ~x.isnan() ).all(), f"NaN in {x}"',
            '(x: torch.Tensor) -> None:\n    assert ( ~x.isnan() ).all(), f"NaN in {x}"\n',
        ),
        (
            block("""
                if torch.isnan(x).any() or (x > n).any():  # odd
                        raise  ValueError(f"{x.max().item():.1f} > {n}")"""),
            "(x: torch.Tensor, n: torch.types.Number) -> None:\n"
            "    if torch.isnan(x).any() or (x > n).any():  # odd\n"
            '        raise  ValueError(f"{x.max().item():.1f} > {n}")\n',
        ),
        (
            "if not x.isnan().any(): pass\n    else: raise KeyError(tuple(x.shape))",
            "(x: torch.Tensor) -> None:\n    if not x.isnan().any(): pass\n"
            "    else: raise KeyError(tuple(x.shape))\n",
        ),
    ],
)
def test_same_exception(before, operator):
    source = f"{HEAD}def f(x, n=7):\n    # as it should be\n    {before}\n    return x * 2\n"
    outcome = rewritten(source, torch.ones(2))
    assert outcome.source.count("mutates_args=())\ndef _check_x" + operator) == 1, outcome.source
    assert "    # as it should be\n    _check_x(x" in outcome.source
    assert outcome.rules == ["FG101"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)
    expected = _raised(imported(source).f)
    assert expected
    for backend in ("eager", "inductor"):
        compiled = torch.compile(imported(outcome.source).f, backend=backend)
        compiled(torch.ones(2))
        assert _raised(compiled) == expected


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("first", "kept"),
    [
        (
            block("""
                if n == 2:
                        return y
            """),
            True,
        ),
        (
            block("""
                if n == 2:
                        y = y + 1
            """),
            True,
        ),
        (
            block("""
                if x.dim() != 1:
                        raise ValueError("one dimension")
            """),
            True,
        ),
        (
            block("""
                if x.isnan().any():
                        raise ValueError(x)
            """),
            False,
        ),
        ("n = int(x.sum())\n    if n > 99:\n        raise ValueError(n)\n", False),
    ],
)
def test_a_check_under_elif(first, kept):
    check = "elif (x < 0).any():\n        raise ValueError(f'{x.min()}')\n"
    source = f"{HEAD}def f(x, n=3):\n    y = x * 2\n    {first}    {check}    return y\n"
    outcome = rewritten(source, torch.ones(2))
    assert outcome.rules == ["FG101"] and outcome.applicability == [Applicability.SAFE]
    assert (f"    {first}    else:\n        _check_x(" in outcome.source) is kept
    outcome.check((torch.ones(2), 2), exact=True)
    f, new = imported(source).f, torch.compile(imported(outcome.source).f)
    for args in ((-torch.ones(2),), (-torch.ones(2), 2), (torch.ones(2, 2),)):
        results = []
        for function in (f, new):
            try:
                results.append(str(function(*args)))
            except ValueError as error:
                results.append(str(error))
        assert results[0] == results[1]


@pytest.mark.compiles
def test_guards_of_several_methods_at_once():
    source = block("""
        import torch
        from torch import nn


        class Model(nn.Module):
            def __init__(self, limit: int = 3):
                super().__init__()
                self.limit = limit
                self.lin = nn.Linear(4, 4)

            def check(self, x, name):
                if x.isnan().any():
                    raise ValueError(f"{type(self).__name__}: NaN in {name}, {self.limit}")

            def forward(self, x):
                self.check(x, "x")
                assert not (x > self.limit).any()
                return self.lin(x)
    """)
    outcome = rewritten(source, torch.ones(3, 4))
    outcome.check()
    assert set(outcome.applicability) == {Applicability.SAFE}, outcome.assumes
    names = re.findall(r'custom_op\("\w+::(\w+)"', outcome.source)
    assert sorted(names) == ["check_x", "check_x_isnan"]
    model = torch.compile(imported(outcome.source).Model())
    with pytest.raises(ValueError, match="Model: NaN in x, 3"):
        model(torch.full((3, 4), float("nan")))


def test_optional_tensors_stay_optional():
    source = (
        f"{HEAD}def f(x, mask=None):\n"
        "    if mask is None and (x < 0).any():\n        raise IndexError(str(x))\n"
        "    if (x < 9).any() and mask is not None and (mask < 0).any():\n"
        "        raise IndexError(str(mask))\n"
        "    return x * 2\n"
    )
    outcome = rewritten(source, torch.ones(2), torch.ones(2))
    assert "(x: torch.Tensor, mask: torch.Tensor | None)" in outcome.source
    outcome.check((torch.ones(3),))


@pytest.mark.compiles
def test_what_dynamo_decides_stays_outside_of_the_operator():
    source = (
        f"{HEAD}class Config:\n    size = 7\n\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.config, self.strict = Config(), True\n\n"
        "    def forward(self, x, labels=None):\n        # in range\n"
        "        if labels is not None and labels.max() >= self.config.size:\n"
        '            raise ValueError(f"{labels.max()} of {self.config.size}")\n'
        "        if (\n            self.strict and isinstance(x, torch.Tensor)\n"
        "            and x.isnan().any()\n            and not (\n                x < 0\n"
        "            ).any()\n        ):\n            raise KeyError\n        return x * 2\n"
    )
    x, labels = torch.ones(2), torch.tensor([1, 6])
    outcome = rewritten(source, x, labels)
    assert set(outcome.rules) == {"FG101"} and set(outcome.applicability) == {Applicability.SAFE}
    assert (
        "(labels: torch.Tensor, size: torch.types.Number) -> None:\n    if labels.max() >= size:\n"
    ) in outcome.source
    assert (
        "        # in range\n        if labels is not None:\n"
        "            _check_labels(labels, self.config.size)\n"
        "        if self.strict and isinstance(x, torch.Tensor):\n"
        "            _check_strict(x.detach())\n        return"
    ) in outcome.source
    outcome.check((x, None), (x - 2, labels), exact=True)
    model = imported(outcome.source).Model()
    for run in (model, torch.compile(model, fullgraph=True)):
        with pytest.raises(ValueError, match="7 of 7"):
            run(x, labels + 1)
        with pytest.raises(KeyError):
            run(NAN)
    model.strict = False
    assert "check" not in str(torch.export.export(model, (x,)).graph)


def test_a_flag_that_the_function_computes_goes_into_the_operator():
    source = (
        f"{HEAD}def f(x, strict=True):\n    strict = bool((x > 0).all())\n"
        "    if strict and x.isnan().any():\n        raise ValueError\n    return x * 2\n"
    )
    outcome = rewritten(source, torch.ones(2))
    assert "    strict = bool((x > 0).all())\n    if strict and x.isnan()" in outcome.source
    outcome.check((torch.ones(3) - 2,))


@pytest.mark.compiles
def test_a_number_that_only_the_check_reads_is_computed_in_the_operator():
    source = (
        f"{HEAD}def f(x, most: int = 3, eps=1e-6):\n"
        "    # not too many\n"
        "    bad = int((x.isnan() | (x < eps)).sum())\n"
        '    if bad > most:\n        raise ValueError(f"{bad} of {most}")\n'
        "    return x * 2\n"
    )
    outcome = rewritten(source, torch.ones(2))
    assert (
        "def _check_bad(x: torch.Tensor, eps: float, most: int) -> None:\n"
        "    bad = int((x.isnan() | (x < eps)).sum())\n    if bad > most:\n"
    ) in outcome.source
    assert "    # not too many\n    _check_bad(x.detach(), eps, most)\n    return" in outcome.source
    assert outcome.rules == ["FG101"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)
    with pytest.raises(ValueError, match="4 of 3"):
        torch.compile(imported(outcome.source).f, backend="eager")(torch.zeros(4))


def test_a_number_that_other_code_reads_stays_outside():
    source = (
        f"{HEAD}def f(x):\n    bad = int(x.isnan().sum())\n"
        "    if bad > 1:\n        raise ValueError(bad)\n    return x * bad\n"
    )
    text, _, _ = offered(source, "bad > 1", BRANCH, torch.ones(2))
    assert "(bad: int) -> None:\n    if bad > 1:\n" in text


@pytest.mark.parametrize(
    ("body", "assumption"),
    [
        (
            block("""
                if is_bad(x):
                        raise ValueError"""),
            "`is_bad` changes nothing",
        ),
        ('assert (x > 0).all(), f"{x}"', "`x` may be shown without its `grad_fn=`"),
        ('assert (x > 0).all(), "%s %s" % (x.shape, x)', "shown without its `grad_fn=`"),
        ("assert not (x.requires_grad and (x < 0).any())", "`x.requires_grad` may be that of a"),
        ("state.n = 1\n    assert not (x < 0).any()", "nobody uses what was changed"),
    ],
)
def test_unsafe(body, assumption):
    helper = block("""
        class state:
            n = 0


        def is_bad(x):
            return bool(x.isnan().any())


    """)
    source = f"{HEAD}{helper}def f(x):\n    {body}\n    return x * 2\n"
    outcome = rewritten(source, torch.ones(2, requires_grad=True))
    assert outcome.applicability == [Applicability.UNSAFE]
    assert assumption in outcome.assumes[0]
    outcome.check(exact=True)


@pytest.mark.compiles
def test_the_check_raises_in_its_turn():
    source = (
        f"{HEAD}def f(x):\n"
        '    if x.isnan().any():\n        raise ValueError("first")\n'
        '    if x.isnan().all():\n        raise KeyError("second")\n'
        "    return x * 2\n"
    )
    outcome = rewritten(source, torch.ones(2))
    outcome.check(exact=True)
    for backend in ("eager", "aot_eager", "inductor"):
        compiled = torch.compile(imported(outcome.source).f, backend=backend)
        with pytest.raises(ValueError, match="first"):
            compiled(torch.full((2,), float("nan")))


def _raised(function):
    try:
        function(NAN.clone())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.compiles
@pytest.mark.parametrize("ends", ["sys.exit(3)", "exit(3)", "quit(3)"])
def test_a_check_may_end_the_program(ends):
    body = f"    if not x.sum().isfinite():\n        print('stop:', x.max())\n        {ends}\n"
    source = f"import sys\n\n{HEAD}def f(x):\n    y = x * 2\n{body}    return y\n"
    outcome = rewritten(source, torch.ones(2))
    assert outcome.rules == ["FG101"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)
    new = imported(outcome.source).f
    for f in (new, torch.compile(new, fullgraph=True)):
        with pytest.raises(SystemExit) as ended:
            f(NAN)
        assert ended.value.code == 3


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("def exit(text):\n    pass\n\n\ndef f(x):\n", "exit"),
        ("def f(x, exit=print):\n", "exit"),
        ("from operator import neg as quit\n\n\ndef f(x):\n", "quit"),
        ("import os\n\n\ndef f(x):\n", "os._exit"),
    ],
)
def test_another_function_named_exit_does_not_end_the_program(head, call):
    body = f"    if not x.sum().isfinite():\n        {call}(3)\n    return x * 2\n"
    source = f"{HEAD}{head}{body}"
    for rule in ("FG101", "FG102"):
        text, _, _ = offered(
            source, "x.sum().isfinite()", "data-dependent branch", torch.ones(2), rule=rule
        )
        assert not text

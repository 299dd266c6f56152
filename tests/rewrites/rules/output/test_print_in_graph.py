import contextlib
import io

import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten

HEAD = "import torch\n\n\n"
X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        "print()",
        "print(x.shape)",
        'print(x, end="")',
        "print([x])",
        "print(*[x])",
        'print("{}", x)',
        'print("%s" % x)',
        'print(f"{x.sum():{n}}")',
    ],
)
def test_none_of_its_business(call):
    source = f"{HEAD}def f(x, n='.1f'):\n    {call}\n    return x * 2\n"
    text, rewrites, _ = offered(source, call, "print / logging", X)
    assert "higher_order" not in text
    assert not [one for one in rewrites if "graph prints" in one.why]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('print("a", x)  # see', '"a {x}", x=x)  # see'),
        ("print(  x.sum() )", '"{sum!s}", sum=x.sum())'),
        ('print(f"{x.sum()}", n, sep = ": ")', '"{sum}: {n}", sum=x.sum(), n=n)'),
        ('print(f"{x.mean().item():.3f} {x!r}")', '"{mean:.3f} {x!r}", mean=x.mean(), x=x)'),
        ("print('it\\'s', x[0], x[1])", '"it\'s {value} {value_2}", value=x[0], value_2=x[1])'),
        (
            "print(\"say 'a'\\n\", flag, None)",
            "\"say 'a'\\n {flag} None\", flag=flag)",
        ),
    ],
)
def test_fixed(before, after):
    source = f"{HEAD}def f(x, n=3, flag=True):\n    x = x + 1\n    {before}\n    return x.mul_(2)\n"
    outcome = rewritten(source, X)
    assert f"    torch._higher_order_ops.print({after}\n" in outcome.source, outcome.source
    assert outcome.rules == ["FG111"] and outcome.applicability == [Applicability.SAFE]
    outcome.check(exact=True)
    expected = _printed(imported(source).f)
    assert expected == _printed(imported(outcome.source).f)
    for backend in ("eager", "inductor"):
        assert expected == _printed(torch.compile(imported(outcome.source).f, backend=backend))


@pytest.mark.compiles
def test_a_loop_with_values_that_are_changed_later():
    source = (
        f"{HEAD}def f(x):\n    for i in range(3):\n        x = x + i\n"
        '        print("step", i, x)\n        x.mul_(2)\n    return x\n'
    )
    outcome = rewritten(source, X)
    outcome.check(exact=True)
    compiled = torch.compile(imported(outcome.source).f, backend="inductor")
    assert _printed(imported(source).f) == _printed(compiled)


def test_unsafe_where_a_gradient_shows():
    outcome = rewritten(
        f"{HEAD}def f(x):\n    print(x * 2)\n    return x * 2\n", X.clone().requires_grad_()
    )
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "grad_fn" in outcome.assumes[0]
    outcome.check(exact=True)


def _printed(function):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        function(X.clone())
        function(X.clone() + 1)
    return text.getvalue()

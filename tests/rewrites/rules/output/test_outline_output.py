import contextlib
import io
import logging
import re
import warnings

import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = """import logging
import sys
import warnings

import torch

logger = logging.getLogger("rewritten")


"""
X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('warnings.warn("a", stacklevel=2)', "stacklevel"),
        ("print(x.add_(1))", "changes an object"),
        ("logger.info(torch.rand(2))", "random"),
        ("logger.info(Holder())", ""),
        ("n = object()\n    print(n)", "`n` cannot"),
    ],
)
def test_left_alone(body, reason):
    helper = block("""
        class Holder:
            pass


    """)
    source = f"{HEAD}{helper}def f(x):\n    {body}\n    return x * 2\n"
    call = body.rpartition("\n")[2].strip()
    _, rewrites, refusals = offered(source, call, "print / logging", X)
    if reason:
        assert any(reason in one for one in refusals), refusals
    safe = [one for one in rewrites if one.applicability is Applicability.SAFE]
    assert not safe


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "operator"),
    [
        (
            'logger.warning("x %s",  x)  # loud',
            'x: torch.Tensor) -> None:\n    logger.warning("x %s",  x)  # loud\n',
        ),
        ('logger.debug("quiet")', ') -> None:\n    logger.debug("quiet")\n'),
        (
            'warnings.warn(f"{x.max()}")',
            'x: torch.Tensor) -> None:\n    warnings.warn(f"{x.max()}")\n',
        ),
        (
            "print(x.shape, s)",
            "x: torch.Tensor, s: list[int]) -> None:\n    print(x.shape, torch.Size(s))\n",
        ),
        (
            'sys.stdout.write("%.2f\\n" % x.sum().item())',
            'x: torch.Tensor) -> None:\n    sys.stdout.write("%.2f\\n" % x.sum().item())\n',
        ),
        (
            'logging.warning("{}".format([x, n]))',
            "x: torch.Tensor, n: torch.types.Number) -> None:\n",
        ),
        (
            "if (x > 2).any():\n        # many\n"
            '        print("large", end=" ")\n        logger.error("%d", n)\n'
            "    else:\n        message = str(x)\n        print(message)",
            "x: torch.Tensor, n: torch.types.Number) -> None:\n    if (x > 2).any():\n"
            "        # many\n",
        ),
    ],
)  # fmt: skip
def test_same_text(before, operator):
    body = f"    x = x + 1\n    s = x.shape\n    {before}\n    return x.mul_(2)\n"
    source = f"{HEAD}def f(x, n=3):\n{body}"
    outcome = rewritten(source, X)
    name = "_report_x" if before.startswith("if") else "_report_f"
    assert f"mutates_args=())\ndef {name}({operator}" in outcome.source, outcome.source
    assert outcome.rules == ["FG112"] and outcome.applicability == [Applicability.SAFE]
    outcome.check((X - 9,), exact=True)
    expected = written(imported(source).f)
    assert expected == written(imported(outcome.source).f)
    for backend in ("eager", "inductor"):
        assert expected == written(torch.compile(imported(outcome.source).f, backend=backend))


SECTIONS = """from contextlib import contextmanager


@contextmanager
def section(name):
    logger.debug("enter %s", name)
    yield
    logger.debug("leave %s", name)


class Model(torch.nn.Module):
    debug = True

    def forward(self, x):
        with section("body"):
            x = x * 2
        for i in range(3):
            x = x + i
            logger.info("layer %d: %s", i, tuple(x.shape))
        if self.debug:
            logger.warning("%s", x)
        print(x.shape, x.sum())
        return x
"""


@pytest.mark.compiles
def test_eager_code_keeps_what_names_its_place():
    outcome = rewritten(HEAD + SECTIONS, X)
    assert set(outcome.rules) == {"FG112"}, outcome.refusals
    assert set(outcome.applicability) == {Applicability.SAFE}
    for kept in (
        '    if torch.compiler.is_compiling():\n        NAME("enter %s", name)\n'
        '    else:\n        logger.debug("enter %s", name)\n    yield\n',
        "            if torch.compiler.is_compiling():\n"
        "                NAME(i, x.detach())\n            else:\n"
        '                logger.info("layer %d: %s", i, tuple(x.shape))\n',
        "        if self.debug:\n            if torch.compiler.is_compiling():\n"
        "                NAME(x)\n            else:\n"
        '                logger.warning("%s", x)\n        NAME(x)\n        return',
    ):
        assert kept in re.sub(r"\b_report_\w+(?=\(.*\)\n)", "NAME", outcome.source)
    outcome.check((X + 9,), exact=True)
    logging.getLogger("rewritten").setLevel("DEBUG")
    expected = written(imported(outcome.original).Model())
    assert expected == written(imported(outcome.source).Model())
    assert expected[0].count("leave body") == 2
    for backend in ("eager", "inductor"):
        assert expected == written(torch.compile(imported(outcome.source).Model(), backend=backend))
    logging.getLogger("rewritten").setLevel("NOTSET")


@pytest.mark.compiles
def test_a_record_of_eager_code_names_the_function_that_logs():
    body = (
        '    if x.max() > 3:\n        logger.warning("large %d", int(x.max()))\n    return x * 2\n'
    )
    outcome = rewritten(f"{HEAD}def f(x):\n{body}", X)
    assert "    elif x.max() > 3:\n        logger.warning(" in outcome.source
    assert set(outcome.applicability) == {Applicability.SAFE}
    named = []
    handler = logging.Handler()
    handler.emit = lambda record: named.append((record.funcName, record.getMessage()))
    logging.getLogger("rewritten").addHandler(handler)
    edited = imported(outcome.source).f
    edited(X)
    torch.compile(edited, backend="eager", fullgraph=True)(X)
    logging.getLogger("rewritten").removeHandler(handler)
    assert named == [("f", "large 5"), ("_report_x", "large 5")]


@pytest.mark.compiles
def test_lines_that_differ_in_their_text_share_one_operator():
    body = (
        '    if x.dim() == 2:\n        logger.warning("a %s", n)\n'
        '    logger.warning("b %s", n)\n    logger.warning("c %s", x.sum().item())\n'
        '    logger.warning("d %s", n)\n    logger.error("b %s", n)\n    return x * 2\n'
    )
    outcome = rewritten(f"{HEAD}def f(x, n: int = 3):\n{body}", X)
    shared = re.findall(r"(_report_\w+)\(\"[abd] %s\", n\)\n", outcome.source)
    assert len(shared) == 3 and len(set(shared)) == 1, outcome.source
    operators = re.findall(r"custom_op.*\ndef (\w+)", outcome.source)
    assert len(set(operators)) == len(operators) == 3
    outcome.check((X + 9,), exact=True)
    expected = written(imported(outcome.original).f)
    assert expected == written(imported(outcome.source).f)
    for backend in ("eager", "inductor"):
        assert expected == written(torch.compile(imported(outcome.source).f, backend=backend))


@pytest.mark.compiles
def test_order_is_kept_also_when_something_raises():
    source = (
        f"{HEAD}def f(x):\n"
        '    print("first", x)\n'
        '    logger.warning("second %s", x.shape)\n'
        "    x = x + 1\n"
        '    if x.sum() > 30:\n        raise ValueError(f"third {x.sum().item()}")\n'
        '    logger.warning("fourth")\n'
        "    x.mul_(0)\n"
        '    print("fifth", x)\n'
        "    return x\n"
    )
    outcome = rewritten(source, X)
    assert set(outcome.applicability) == {Applicability.SAFE}
    outcome.check(exact=True)
    expected = written(imported(source).f)
    assert "ValueError" in expected[0] and "fifth" in expected[0]
    for backend in ("eager", "aot_eager", "inductor"):
        assert expected == written(torch.compile(imported(outcome.source).f, backend=backend))


def test_unsafe_where_a_gradient_shows():
    source = f'{HEAD}def f(x):\n    logger.warning("%s", x)\n    return x * 2\n'
    outcome = rewritten(source, X.clone().requires_grad_())
    assert outcome.applicability == [Applicability.UNSAFE]
    assert "grad_fn" in outcome.assumes[0]
    outcome.check(exact=True)


@pytest.mark.compiles
def test_equal_calls_are_kept():
    source = (
        f"{HEAD}def f(x):\n"
        + "".join(f'    logger.warning("{i % 2}")\n    x = x + 1\n' for i in range(4))
        + "    return x\n"
    )
    outcome = rewritten(source, X)
    outcome.check(exact=True)
    expected = written(imported(source).f)
    assert expected == written(torch.compile(imported(outcome.source).f))


def written(function):
    """What is printed, logged and warned of in two calls, and how the second ends."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    root.addHandler(handler)
    with contextlib.redirect_stdout(text), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            function(X.clone())
            function(X.clone() + 9)
        except ValueError as error:
            print(f"ValueError: {error}")
        finally:
            root.removeHandler(handler)
    return text.getvalue(), [str(one.message) for one in warned if "rewritten" in one.filename]

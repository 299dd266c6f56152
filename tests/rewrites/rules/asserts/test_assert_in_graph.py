import pytest
import torch

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x, n=7):\n"
END = "        return x * 2\n"
X = torch.ones(2)
NAN = torch.tensor([1.0, float("nan")])
BRANCH = "data-dependent branch"


@pytest.mark.parametrize(
    "body",
    [
        block("""
            if x.isnan().any():
                        print(x)
                        raise ValueError(self)"""),
        "assert self is not None and not x.isnan().any(), self",
        block("""
            if self.training and x.isnan().any():
                        raise ValueError(self)"""),
        "bad = x.sum().item()\n        if bad < 0:\n            raise ValueError(str(bad))",
        "bad = int(x.mean())\n        if bad < 0:\n            raise ValueError(self)",
    ],
)
def test_left_alone(body):
    outcome = rewritten(f"{HEAD}        {body}\n{END}", X)
    assert "FG102" not in outcome.rules and outcome.refusals


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'assert not torch.isnan(x).any(), f"{self}: NaN in {x}"  # never',
            "if torch.compiler.is_compiling():\n"
            '            assert ~torch.isnan(x).any(), "NaN in ..."\n'
            "        else:\n"
            '            assert not torch.isnan(x).any(), f"{self}: NaN in {x}"  # never',
        ),
        (
            block("""
                if torch.isnan(x).any():  # never
                            raise  ValueError("NaN", self)"""),
            "if torch.compiler.is_compiling():\n"
            '            assert ~torch.isnan(x).any(), "NaN"\n'
            "        elif torch.isnan(x).any():  # never\n"
            '            raise  ValueError("NaN", self)',
        ),
        (
            "bad = int(x.isnan().sum())\n"
            "        if bad > 0:\n"
            "            where = x.isnan().nonzero().tolist()\n"
            '            raise ValueError(f"{self}: {bad} NaN at {where}")',
            "bad = x.isnan().sum()\n"
            "        if torch.compiler.is_compiling():\n"
            '            assert bad <= 0, "... NaN at ..."\n'
            "        elif bad > 0:\n"
            "            where = x.isnan().nonzero().tolist()\n"
            '            raise ValueError(f"{self}: {bad} NaN at {where}")',
        ),
        (
            block("""
                if not torch.equal(x, x):
                            raise ValueError(self)"""),
            "if torch.compiler.is_compiling():\n"
            '            assert ~x.isnan().any(), "ValueError"\n'
            "        elif not torch.equal(x, x):\n            raise ValueError(self)",
        ),
        (
            block("""
                if x.isnan().any():
                            exit(f"{self}: found NaN")"""),
            "if torch.compiler.is_compiling():\n"
            '            assert ~x.isnan().any(), "found NaN"\n'
            '        elif x.isnan().any():\n            exit(f"{self}: found NaN")',
        ),
        (
            "if not (x.isnan().any() or x.sum().item()<0):\n            pass\n"
            "        else:\n            raise KeyError(self)",
            None,
        ),
        (
            block("""
                if x.isnan().any() or x.sum().item()<0:
                            raise KeyError(self)"""),
            "if torch.compiler.is_compiling():\n"
            '            assert ~(x.isnan().any() | (x.sum()<0)), "KeyError"\n'
            "        elif x.isnan().any() or x.sum().item()<0:\n            raise KeyError(self)",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}        {before}\n{END}", X)
    if after is None:
        assert not outcome.rules
        return
    assert outcome.source == f"{HEAD}        {after}\n{END}"
    assert outcome.rules == ["FG102"] and outcome.applicability == [Applicability.UNSAFE]
    assert "RuntimeError" in outcome.assumes[0]
    outcome.check(exact=True)
    original, new = imported(outcome.original).Model(), imported(outcome.source).Model()
    with pytest.raises(BaseException) as expected:
        original(NAN)
    with pytest.raises(type(expected.value)):
        new(NAN)
    with pytest.raises(RuntimeError):
        torch.compile(new, backend="eager")(NAN)


ELIF = """import torch


def f(x, n=3):
    y = x * 2
    if n == 2:
        y = y + 1
    # signs
    elif (x < 0).any():
        raise ValueError("negative")
"""


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (
            "",
            "    # signs\n    elif torch.compiler.is_compiling():\n"
            '        assert ~(x < 0).any(), "negative"\n'
            '    elif (x < 0).any():\n        raise ValueError("negative")\n',
        ),
        (
            "    # odd\n    elif n % 2:\n        y = y + 2\n    else:\n        y = y + 3\n",
            "    # signs\n    else:\n        if torch.compiler.is_compiling():\n"
            '            assert ~(x < 0).any(), "negative"\n'
            '        elif (x < 0).any():\n            raise ValueError("negative")\n'
            "        # odd\n        if n % 2:\n            y = y + 2\n"
            "        else:\n            y = y + 3\n",
        ),
        (
            "    else:\n        # more\n        y = y + 2\n",
            "    # signs\n    else:\n        if torch.compiler.is_compiling():\n"
            '            assert ~(x < 0).any(), "negative"\n'
            '        elif (x < 0).any():\n            raise ValueError("negative")\n'
            "        # more\n        y = y + 2\n",
        ),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_check_under_elif(after, lines, first):
    source, before = f"{ELIF}{after}    return y\n", ELIF.partition("    # signs")[0]
    wanted = f"{before}{lines}    return y\n"
    if first:  # the check comes first, and all else follows it
        shorter = "    if n == 2:\n        y = y + 1\n    # signs\n    elif"
        source = source.replace(shorter, "    # signs\n    if")
        wanted = None
    new, _, _ = offered(source, "(x < 0).any()", BRANCH, X, rule="FG102")
    assert wanted in (new, None), new
    f, eager = imported(source).f, imported(new).f
    compiled = torch.compile(eager, backend="eager", fullgraph=True)
    for n in (2, 3, 4):
        assert torch.equal(eager(X, n), f(X, n)) and torch.equal(compiled(X, n), f(X, n))
        if n == 2 and not first:
            assert torch.equal(compiled(-X, n), f(-X, n))
            continue
        with pytest.raises(ValueError, match="negative"):
            eager(-X, n)
        with pytest.raises(RuntimeError, match="negative"):
            compiled(-X, n)


@pytest.mark.compiles
@pytest.mark.parametrize("message", ["", ', "NaN in hidden state"'])
@pytest.mark.parametrize(
    ("test", "after"),
    [
        ("not torch.isnan(x).any()", "~torch.isnan(x).any()"),
        ("not (x < 0).any()", "~(x < 0).any()"),
        ("not x.min() < 0", "~(x.min() < 0)"),
        ("not (x < 0).any() and x.min() >= 0", "(~(x < 0).any()) & (x.min() >= 0)"),
        ("(x >= 0).all()", None),
        ("x.min() >= 0", None),
        ("torch.isfinite(x).all()", None),
    ],
)
def test_an_assertion_on_a_reduction_is_one_line(test, after, message):
    source = f"{HEAD}        assert {test}{message}\n{END}"
    new = source
    if after is not None:
        new, (rewrite,), _ = offered(source, test, BRANCH, X, rule="FG102")
        assert new == f"{HEAD}        assert {after}{message}\n{END}"
        assert rewrite.applicability is Applicability.UNSAFE
        assert "raises RuntimeError" in rewrite.assumes[0]
    model, bad = imported(new).Model(), torch.tensor([-1.0, float("nan")])
    with pytest.raises(AssertionError):
        model(torch.tensor([-1.0, float("inf")]) if "nan" not in test else bad)
    text = "NaN in hidden state" if message else "assertion error"
    for fullgraph in (True, False):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="eager", fullgraph=fullgraph)
        assert torch.equal(compiled(X), X * 2)
        with pytest.raises(RuntimeError, match=text):
            compiled(torch.tensor([-1.0, float("inf")]) if "nan" not in test else bad)


@pytest.mark.compiles
def test_the_assertion_leads_the_operator():
    source = f'{HEAD}        assert not torch.isnan(x).any(), "NaN"\n{END}'
    fixes = fix(imported(source).Model(), (X,), inductor=False)
    accepted = [(made.rule, made.replaced_by) for made in fixes.suggestions if made.accepted]
    assert accepted == [("FG102", ""), ("FG101", "FG102")], fixes
    assert "+        assert ~torch.isnan(x).any()" in fixes.diff(unsafe=True)
    assert "custom_op" not in fixes.diff(unsafe=True)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ('"block %d: %s diverged (100%%)" % (n, x)', "block ...: ... diverged (100%)"),
        ('"{:.2f} of {n} {{x}}".format(x.max(), n=n)', "... of ... {x}"),
        ('"NaN in " + str(x) + "!"', "NaN in ...!"),
        ('"NaN in "\n                f"{x}\\tof {n} {{x}}"', "NaN in ...\tof ... {x}"),
        ("message", "NaN in ..."),
        ('f"x must be finite: norm {x.norm()}, max {x.max()}"', "x must be finite"),
        ('f"x must be finite (norm {x.norm()})"', "x must be finite"),
        ("x", "ArithmeticError"),
    ],
)
@pytest.mark.parametrize("raise_line", ["raise ArithmeticError({})", "error = ArithmeticError({})"])
def test_what_is_constant_in_the_message_is_kept(raise_line, raised, text):
    lines = raise_line.format(raised)
    if "error" in lines:
        lines += "\n            raise error"
    guard = f'message = f"NaN in {{x}}"\n        if x.isnan().any():\n            {lines}'
    source = f"{HEAD}        {guard}\n{END}"
    new, (rewrite,), _ = offered(source, "x.isnan().any()", BRANCH, X, rule="FG102")
    compiled = torch.compile(imported(new).Model(), backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError) as raised_error:
        compiled(NAN)
    assert str(raised_error.value) == text
    clause = "no caller needs the ArithmeticError: compiled, a check that fails raises RuntimeError"
    assert rewrite.assumes[0].startswith(f"{clause} with the text ")


NESTED = """import torch


def f(x):
    # signs
    if (x < 0).any():
        if (x <= 0).all():
            sign = -1.0
        else:
            raise ValueError("both signs")
    else:
        sign = 1.0
    return x * sign
"""


@pytest.mark.compiles
def test_a_check_inside_a_branch_goes_above_it():
    outcome = rewritten(NESTED, torch.tensor([-1.0, 0.0]))
    assert outcome.rules == ["FG102", "FG301"]
    assert outcome.source == (
        block("""
            import torch


            def f(x):
                # signs
                if torch.compiler.is_compiling():
                    assert ~(x < 0).any() | (x <= 0).all(), "both signs"
                elif (x < 0).any() and not (x <= 0).all():
                    raise ValueError("both signs")
                sign = torch.where((x < 0).any(), -1.0, 1.0)
                return x * sign
        """)
    )
    outcome.check((torch.tensor([1.0, 2.0]),))
    with pytest.raises(ValueError, match="both signs"):
        imported(outcome.source).f(torch.tensor([-1.0, 1.0]))
    with pytest.raises(RuntimeError, match="both signs"):
        torch.compile(imported(outcome.source).f, backend="eager")(torch.tensor([-1.0, 1.0]))


def test_a_check_that_is_all_of_a_branch():
    alone = '    if x.sum() > 0:\n        if x[0] == 5:\n            raise ValueError("five")\n'
    source = f"import torch\n\n\ndef f(x):\n{alone}    return x * 2\n"
    text, _, _ = offered(source, "x[0] == 5", "data-dependent branch", X, rule="FG102")
    assert 'assert ~((x.sum() > 0) & (x[0] == 5)), "five"\n    elif x.sum() > 0 and x[0]' in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        if (x <= 0)", "        x = x + 1\n        if (x <= 0)"),
        ("if (x < 0).any():\n", "if len(x) > 1:\n"),
    ],
)
def test_a_check_that_stays_inside_its_branch(old, new):
    source = NESTED.replace(old, new)
    text, _, _ = offered(
        source, "(x <= 0).all()", "data-dependent branch", torch.ones(3), rule="FG102"
    )
    assert not text


def test_comments_move_with_a_check():
    source = NESTED.replace(
        "        if (x <= 0).all():\n", "        # one sign\n        if (x <= 0).all():  # all\n"
    ).replace("        else:\n            raise", "        else:  # mixed\n            raise")
    outcome = rewritten(source, torch.tensor([-1.0, 0.0]))
    above = "    # signs\n    # one sign\n    # mixed\n    if torch.compiler.is_compiling():\n"
    assert above in outcome.source
    assert "    elif (x < 0).any() and not (x <= 0).all():  # all\n" in outcome.source


@pytest.mark.parametrize(
    "inner",
    [
        "if x[0] == 5: x = x + 1\n        else:\n            raise ValueError(x)\n",
        "if x[0] != 5:\n            raise ValueError(x)\n        else: x = x + 1\n",
    ],
)
def test_a_branch_on_one_line_is_not_lost(inner):
    source = f"import torch\n\n\ndef f(x):\n    if x.sum() > 0:\n        {inner}    return x * 2\n"
    test = "x[0] == 5" if "==" in inner else "x[0] != 5"
    text, _, _ = offered(source, test, BRANCH, 5 * X, rule="FG102")
    assert not text


TRIED = """import torch


def f(x):
    try:
        if (x < 0).any():
            if (x <= 0).all():
                y = x + 1
            else:
                raise ValueError("both signs")
        else:
            y = x
    except ValueError:
        y = x * 0
    return y
"""


def test_a_check_inside_a_branch_whose_exception_is_handled():
    text, _, refusals = offered(
        TRIED, "(x <= 0).all()", BRANCH, torch.tensor([-1.0, 0.0]), rule="FG102"
    )
    assert not text and "handled by a `try`" in str(refusals)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise", "it raises what it handles"),
        ("raise ValueError(n)\n        else: n = 5", "its `else` is on one line"),
    ],
)
def test_the_reason_of_a_refusal(body, reason):
    source = f"{HEAD}        if x.isnan().any():\n            {body}\n{END}"
    text, _, refusals = offered(source, "x.isnan().any()", BRANCH, X, rule="FG102")
    assert not text and refusals == [reason]

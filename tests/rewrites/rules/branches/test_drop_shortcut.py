import pytest
import torch

from fullgraph import fix
from tests.rewrites.harness import imported, offered
from tests.text import block

COMPILED = "torch.compiler.is_compiling()"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])


def _function(body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"import torch\n\n\ndef f(x, mask=None):\n{lines}"


def _offer(body):
    """Return the body after the rule, or its refusal."""
    found = offered(_function(body), "(x > 0).all()", "data-dependent branch", X, rule="FG307")
    text, _, refusals = found
    if text:
        return text.partition("):\n")[2].replace("    ", "", 1).replace("\n    ", "\n").strip()
    return next(iter(refusals), "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            block("""
                if (x > 0).all():
                    raise ValueError
                return x"""),
            "raises",
        ),
        (
            block("""
                if (x > 0).all():
                    print(1)
                    sys.exit(1)
                return x"""),
            "raises",
        ),
        (
            block("""
                if (x > 0).all():
                    y = x
                elif mask:
                    y = -x
                return x"""),
            "neither branch",
        ),
        (
            block("""
                while (x > 0).all():
                    x = x - 1
                return x"""),
            "",
        ),
        ("return [y for y in x if (x > 0).all()]", "how many elements"),
    ],
)
def test_left_alone(body, reason):
    assert reason in _offer(body)
    assert "return" not in _offer(body)


@pytest.mark.parametrize(
    ("body", "fixed"),
    [
        (
            block("""
                if (x > 0).all():
                    return x
                return x.relu()"""),
            "if EAGER and (x > 0).all():",
        ),
        (
            block("""
                if not (x > 0).all():
                    x = x.relu()
                return x"""),
            "if COMPILED or not (x > 0).all():",
        ),
        (
            block("""
                if mask is None or (x > 0).all():
                    return x
                return x * mask"""),
            "if mask is None or (EAGER and (x > 0).all()):",
        ),
        (
            block("""
                if mask is None and not (x > 0).all():
                    x = x.relu()
                return x"""),
            "if mask is None and (COMPILED or not (x > 0).all()):",
        ),
        (
            block("""
                if mask:
                    return x
                elif (x > 0).all():
                    return -x
                return x"""),
            "elif EAGER and (x > 0).all():",
        ),
        (
            block("""
                if (x > 0).all():
                    y = x
                else:
                    y = x.relu()
                return y"""),
            "if EAGER and (x > 0).all():",
        ),
        (
            block("""
                y = None if (x > 0).all() else x
                return y"""),
            "y = None if EAGER and (x > 0).all() else x",
        ),
    ],
)
def test_fixed(body, fixed):
    new = fixed.replace("EAGER", f"not {COMPILED}").replace("COMPILED", COMPILED)
    (old,) = [line for line in body.split("\n") if "(x > 0).all()" in line]
    assert _offer(body) == body.replace(old, new)


@pytest.mark.parametrize(
    ("condition", "guard"),
    [
        ("len(x[x > 0]) > 0", f"{COMPILED} or"),
        ("not (x > 0).any()", f"not {COMPILED} and"),
        ("(x > 0).sum() == 0", f"not {COMPILED} and"),
    ],
)
def test_of_two_blocks_compiled_code_takes_the_one_with_elements(condition, guard):
    body = f"if {condition}:\n    y = x.relu()\nelse:\n    y = x\nreturn y"
    operand = condition.removeprefix("not ")
    text, *_ = offered(_function(body), operand, "data-dependent branch", X, rule="FG307")
    assert f"    if {guard} {condition}:" in text


def _fixed(source, *args):
    module = imported(source)
    return fix(getattr(module, "Model", lambda: module.f)(), args, select=["FG307"], inductor=False)


@pytest.mark.compiles
def test_only_a_condition_without_effect_is_left_to_eager_code():
    useless = _fixed(
        _function(
            block("""
                if (x > 0).all():
                    return x
                return x.relu()""")
        ),
        X,
    )
    assert useless.after_unsafe.default.ok and f"if not {COMPILED} and" in useless.diff(unsafe=True)
    needed = _fixed(
        _function(
            block("""
                if (x > 0).all():
                    return -x
                return x.relu()""")
        ),
        X,
    )
    assert not needed.diff(unsafe=True) and "outputs" in needed.unfixed[0].reason


@pytest.mark.compiles
def test_an_edit_after_which_as_many_breaks_are_left_is_not_made():
    body = block("""
        if (x > 0).all():
            return x.relu()
        torch._dynamo.graph_break()
        return x.relu()""")
    fixes = _fixed(_function(body), X.abs())
    assert fixes.before.default.breaks == 1
    assert not fixes.diff(unsafe=True)
    assert "as often as before" in fixes.unfixed[0].reason


@pytest.mark.compiles
def test_what_a_branch_writes_is_left_to_eager_code():
    branch = "print('negative', x.min())\n    x = torch.where(x < 0, -x, x)"
    body = f"if (x < 0).any():\n    {branch}\nreturn x + 1"
    fixes = _fixed(_function(body), X)
    assert fixes.after_unsafe.default.ok, fixes
    text = fixes.diff(unsafe=True)
    assert f"+    if {COMPILED} or (x < 0).any():\n+        if not {COMPILED}:\n" in text
    assert "+            print('negative', x.min())\n" in text and "higher_order" not in text


COUNTER = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("usage", torch.ones(4))

    def forward(self, x):
        if (self.usage < LIMIT).any():
            self.usage.clamp_(min=LIMIT)
        return x * self.usage
"""


@pytest.mark.compiles
def test_a_branch_that_only_other_state_takes_is_seen():
    fixes = _fixed(COUNTER.replace("LIMIT", "0.5"), X)
    assert fixes.after_unsafe.default.ok, fixes
    never = _fixed(COUNTER.replace("LIMIT", "-1e9"), X)
    assert "was false on every input tried" in never.unfixed[0].reason

"""What comes between a tensor and its use: other names, functions, loops. Edits must see it."""

import pytest
import torch

from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = "import torch\n\n\n"
X = torch.tensor([0.9, -0.2, 0.7, 0.1])
CHANGE = block("""
    def change(t):
        t.add_(1)


""")


def _leaf(x):
    return x.clone().requires_grad_()


def _function(body, *names):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}{CHANGE}def f({', '.join(names or ('x',))}):\n{lines}"


@pytest.mark.parametrize(
    "change",
    [
        "buf[0] = x.sum()",
        "buf.copy_(x)",
        block("""
            part = buf[:1]
            part.copy_(x.sum())"""),
        block("""
            for one in (buf,):
                one += x"""),
        "torch.mul(x, 2, out=buf) if not x.requires_grad else buf.add_(x)",
    ],
)
def test_a_new_tensor_that_learned_stays_detached(change):
    body = f"buf = torch.zeros(4)\n{change}\nn = buf.sum().item()\nreturn x * n"
    outcome = rewritten(_function(body), _leaf(X))
    assert "n = buf.sum().detach()" in outcome.source
    outcome.check()


def test_a_buffer_that_the_class_changes_stays_detached():
    source = (
        f"{HEAD}class Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        '        self.register_buffer("mean", torch.zeros(()))\n\n'
        "    def forward(self, x):\n        self.mean = (x * 2).sum()\n"
        "        n = self.mean.item()\n        return x * n\n"
    )
    text = rewritten(source, _leaf(X)).source
    assert ".detach()" in text or "self.mean.item()" in text


@pytest.mark.parametrize(
    "body",
    [
        block("""
            y = x * 1
            z = x * 2
            if x.sum() > 0:
                z = y = z - y
            return y, z"""),
        block("""
            y = x * 1
            z = x * 2
            if x.sum() > 0:
                z = x
            else:
                z = y = z - y
            return y, z"""),
    ],
)
def test_a_value_that_reads_what_it_is_assigned_to_is_computed_once(body):
    outcome = rewritten(_function(body), X)
    outcome.check((-X,))


@pytest.mark.parametrize(
    "between",
    [
        "change(x)",
        "torch.mul(x, 3, out=x)",
        block("""
            other = x
            other += 1"""),
    ],
)
def test_a_clone_of_what_is_changed_stays(between):
    body = f"y = x.clone()\n{between}\ny[m] = y[m] * 2\nreturn y"
    outcome = rewritten(_function(body, "x", "m"), X, X > 0)
    assert "y = x.clone()" in outcome.source
    outcome.check((X, X > 9))


def test_a_count_of_a_mask_that_another_name_changes_decides():
    body = block("""
        n = m.sum()
        part = m[:1]
        part.fill_(True)
        total = torch.zeros(())
        if n > 0:
            total = torch.where(m, x, 0).sum() / n
        return total""")
    outcome = rewritten(_function(body, "x", "m"), X, X > 0)
    outcome.check((X, X > 9))


@pytest.mark.parametrize("note", ["row index or none", " int", "Annotated[int, 'row']"])
def test_an_annotation_is_any_text(note):
    source = f'{HEAD}def f(t, n: "{note}"):\n    y = t[n] if n >= 0 else t[0]\n    return y\n'
    outcome = rewritten(source, X, torch.tensor(1))
    assert ("as_tensor" in outcome.source) is ("int" in note)
    outcome.check((X, torch.tensor(-1)), *(((X, 2),) if "int" in note else ()))


def test_a_search_is_not_made_where_nothing_may_be_found():
    body = block("""
        if (x > 0).any():
            x = x + x[(x > 0).nonzero()[0, 0]]
        return x""")
    _, _, refusals = offered(_function(body), "(x > 0).any()", "data-dependent branch", X)
    assert any("`(x > 0).nonzero()[0, 0]` may raise" in one for one in refusals)


def test_definitions_come_before_code_that_calls_them():
    loop = block("""
        def f(x):
            while x.norm() > 1:
                x = x / 2
            return x
    """)
    source = f"import torch as t\n\n\n{loop}\n\nZ = f(t.ones(3))\nimport math  # late\n"
    outcome = rewritten(source, X * 5)
    assert outcome.source.startswith("import torch as t\n\n\ndef _while_loop(")
    outcome.check((X,))

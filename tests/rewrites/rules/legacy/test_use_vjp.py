import pytest
import torch
from torch.testing import assert_close

from fullgraph import fix
from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered, rewritten
from tests.text import block

HEAD = """import torch
from torch import autograd
from torch.autograd import Variable


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        )

    def forward(self, x):
"""
X = torch.tensor([[0.9, -0.2, 0.7, 0.1], [0.3, 0.8, -0.6, 0.95]])


def _source(body):
    return HEAD + "".join(f"        {line}\n" if line else "\n" for line in body.split("\n"))


@pytest.mark.parametrize(
    ("body", "call", "reason"),
    [
        (
            block("""
                y = x.detach().requires_grad_()
                s = self.net(y)
                g = autograd.grad([s.sum(), s.mean()], y)
                return g[0]"""),
            "autograd.grad([s.sum(), s.mean()], y)",
            "several inputs or outputs",
        ),
        (
            block("""
                y = x.detach().requires_grad_()
                s = self.net(y)
                g = autograd.grad(s.sum(), y, allow_unused=True)
                return g[0]"""),
            "autograd.grad(s.sum(), y, allow_unused=True)",
            "it takes `allow_unused`",
        ),
        (
            block("""
                y = x.detach().requires_grad_()
                h = y.sin()
                s = self.net(h)
                g = autograd.grad(s.sum(), y)[0]
                return g + h"""),
            "autograd.grad(s.sum(), y)",
            "`h` is needed, too",
        ),
        (
            block("""
                y = x.detach().requires_grad_()
                self.last = s = self.net(y)
                g = autograd.grad(s.sum(), y)[0]
                return g"""),
            "autograd.grad(s.sum(), y)",
            "`self.last` changes on the way",
        ),
        (
            block("""
                y = x.data
                y.requires_grad_(True)
                s = self.net(y)
                g, = torch.autograd.grad(s.sum(), [y])
                return self.net(x + g.sign()) + s"""),
            "torch.autograd.grad(s.sum(), [y])",
            "`s` is needed, too",
        ),
        (
            block("""
                k = 1.0
                y = x.detach().requires_grad_()
                s = self.net(y) * k
                k = 2.0
                g = autograd.grad(s.sum(), y)[0]
                return g * k"""),
            "autograd.grad(s.sum(), y)",
            "`k` changes meanwhile",
        ),
    ],
)
def test_left_alone(body, call, reason):
    text, _, refusals = offered(_source(body), call, "autograd call", X)
    assert not text
    assert any(reason in one for one in refusals), refusals


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            """\
y = Variable(x, requires_grad=True)  # a leaf
s = self.net(y)
g = autograd.grad(outputs=s, inputs=y, grad_outputs=torch.ones(s.size()), create_graph=True)[0]
return ((g.norm(2, dim=1) - 1) ** 2).mean()""",
            """\
y = x.detach()  # a leaf

def s_of(y):
    return self.net(y)

s, pullback = torch.func.vjp(s_of, y)
g = pullback(torch.ones(s.size()))[0]
return ((g.norm(2, dim=1) - 1) ** 2).mean()""",
        ),
        (
            """\
y = x.detach().requires_grad_()
s = self.net(y).sum()
g, = torch.autograd.grad(s, [y])
return self.net(x + 0.1 * g.sign())""",
            """\
y = x.detach()

def s_of(y):
    return self.net(y).sum()

s, pullback = torch.func.vjp(s_of, y)
g = pullback(torch.ones_like(s))[0].detach()
return self.net(x + 0.1 * g.sign())""",
        ),
        (
            """\
u = self.net(x)
du = torch.autograd.grad(u, x, grad_outputs=torch.ones_like(u), create_graph=True)
return u + du[0]""",
            """\

def u_of(x):
    return self.net(x)

u, pullback = torch.func.vjp(u_of, x)
du = (pullback(torch.ones_like(u))[0],)
return u + du[0]""",
        ),
        (
            """\
s = self.net(x).sum()
(g,) = torch.autograd.grad(s, x, create_graph=self.training)
return s, -g""",
            """\

def s_of(x):
    return self.net(x).sum()

s, pullback = torch.func.vjp(s_of, x)
gradient = pullback(torch.ones_like(s))[0]
g = gradient if self.training else gradient.detach()
return s, -g""",
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(_source(before), X.clone().requires_grad_())
    assert outcome.source == _source(after)
    assert outcome.applicability == [Applicability.SAFE]
    outcome.check(((-X).requires_grad_(),))


def test_an_input_that_is_used_later_is_unsafe():
    source = _source(
        block("""
            y = x.detach().requires_grad_()
            s = self.net(y).sum()
            g = autograd.grad(s, y)[0]
            return (y + g.sign()).detach()""")
    )
    outcome = rewritten(source, X)
    assert outcome.assumes == ["`y` need not ask for a gradient afterwards"]
    outcome.check(exact=True)


@pytest.mark.compiles
def test_a_penalty_is_proved_with_the_gradients_of_the_parameters():
    source = _source(
        block("""
            y = Variable(x, requires_grad=True)
            s = self.net(y)
            g = autograd.grad(s, y, torch.ones_like(s), create_graph=True)[0]
            return (g.norm(2, dim=1) - 1).square().mean()""")
    )
    model = imported(source).Model()
    fixes = fix(model, X, inductor=False)
    assert fixes.after.default.ok and fixes.after.fullgraph.ok, fixes
    gradients = []
    for one in (model, fixes.model):
        model.zero_grad()
        one(X).backward()
        gradients.append([p.grad for p in model.parameters()])
    assert_close(*gradients)

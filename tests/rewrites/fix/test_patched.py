"""The copy of a program that runs edited text."""

import sys

import pytest
import torch

from fullgraph.rewrites.fix import patched
from tests.text import block

WRAPPER = """\
import functools
import torch

def doubled(function):
    @functools.wraps(function)
    def call(*args):
        return 2 * function(*args)
    return call

torch.nn.Module.hung_there = lambda self: 0
"""
NET = """\
import torch
from wrapper import doubled

class Base(torch.nn.Module):
    def inner(self, x):
        return x + 1

class Net(Base):
    def __init__(self):
        super().__init__()
        self.child = torch.nn.Linear(1, 1)

    @doubled
    def forward(self, x):
        return self.inner(x)

    def inner(self, x):
        return super().inner(x)
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    import net

    yield net.Net()
    del sys.modules["net"], sys.modules["wrapper"], torch.nn.Module.hung_there


def test_a_wrapper_of_another_file_is_edited(net, tmp_path):
    copy = patched(net, {str(tmp_path / "wrapper.py"): WRAPPER.replace("2 *", "3 *")})
    x = torch.ones(1)
    assert (net(x), copy(x)) == (torch.tensor([4.0]), torch.tensor([6.0]))
    assert type(copy.child) is torch.nn.Linear and copy.child.weight is net.child.weight
    assert isinstance(copy, torch.nn.Module) and list(copy.parameters()) == list(net.parameters())


def test_a_decorated_method_that_calls_super_is_copied_with_its_class(tmp_path, monkeypatch):
    text = NET.replace("return self.inner(x)", "return super().inner(x)")
    (tmp_path / "wrapper.py").write_text(WRAPPER)
    (tmp_path / "supernet.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import supernet

    model = supernet.Net()
    copy = patched(model, {str(tmp_path / "supernet.py"): text.replace("x + 1", "x + 2")})
    x = torch.ones(1)
    assert (model(x), copy(x)) == (torch.tensor([4.0]), torch.tensor([6.0]))
    del sys.modules["supernet"], sys.modules["wrapper"], torch.nn.Module.hung_there


HOLDER = """\
import torch

class Scale(torch.nn.Module):
    def forward(self, x):
        return x * 2

class Helper:
    def __init__(self, scale):
        self.scale = scale

    def run(self, x):
        return self.scale(x)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.plain, self.by_name = [Scale()], {"one": Scale()}
        self.helper, self.bound = Helper(Scale()), Scale().forward
        self.log = []

    def forward(self, x):
        x = self.by_name["one"](self.plain[0](x))
        return self.bound(self.helper.run(x))
"""


def test_modules_in_containers_and_helper_objects_are_edited(tmp_path, monkeypatch):
    file = tmp_path / "holder.py"
    file.write_text(HOLDER)
    monkeypatch.syspath_prepend(tmp_path)
    import holder

    net = holder.Net()
    net.plain.append(net.plain)
    copy = patched(net, {str(file): HOLDER.replace("x * 2", "x * 3")})
    x = torch.ones(1)
    assert (float(net(x)), float(copy(x))) == (16, 81)
    assert copy.log is net.log and list(copy.state_dict()) == list(net.state_dict())
    del sys.modules["holder"]


OPERATOR = """\
import torch
import math

def shift():
    return math.pi

@torch.library.custom_op("patched_net::inner", mutates_args=())
def inner_op(x: torch.Tensor) -> torch.Tensor:
    return x + shift()
"""


def test_a_new_operator_finds_the_names_that_are_new_with_it(net, tmp_path):
    edited = NET.replace("import torch\n", OPERATOR, 1).replace(
        "return x + 1", "return inner_op(x)"
    )
    copy = patched(net, {str(tmp_path / "net.py"): edited})
    x = torch.ones(1)
    assert copy(x).item() == pytest.approx(2 * (1 + torch.pi)) and net(x).item() == 4
    assert not hasattr(sys.modules["net"], "inner_op")


HELPERS = """\
import enum
import functools
import torch

class Kind(enum.Enum):
    LOW = 1

    def half(self):
        return self.value / 2

class Slotted:
    __slots__ = ("value",)

    def get(self):
        return match(torch.ones(1))

def match(x):
    return best(x)

def best(x):
    return x * sum(x.tolist())

class Scale:
    by = 1

    def __call__(self, x):
        return x * self.by

scale = Scale()

@torch.no_grad()
def top(x):
    return x.max()

def unused(x):
    return x
"""
USER = """\
import functools
import torch
import helpers
from helpers import Slotted, match

TABLE = {"match": match, "x": torch.ones(1)}

def own(x):
    return TABLE["match"](x) + 1

def apart(x):
    return x

class Net(torch.nn.Module):
    @functools.cached_property
    def first(self):
        return Slotted().get()

    def forward(self, x):
        return own(x) + helpers.scale(helpers.top(x)) + self.first

def call(x):
    return own(x) + helpers.scale(helpers.top(x)) + Slotted().get()
"""
NEW = """\
@torch.library.custom_op("patched_helpers::best", mutates_args=())
def _best_op(x: torch.Tensor) -> torch.Tensor:
    return x * sum(x.tolist()) * 10

@_best_op.register_fake
def _best_fake(x):
    return x.new_empty(x.shape)

def best(x):
    return _best_op(x)
"""


@pytest.fixture
def user(tmp_path, monkeypatch):
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "user.py").write_text(USER)
    monkeypatch.syspath_prepend(tmp_path)
    import user

    yield user
    del sys.modules["user"], sys.modules["helpers"]


@pytest.mark.compiles
@pytest.mark.parametrize("kind", ["module", "function", "nested", "method"])
def test_files_that_use_an_edited_one_run_the_edit_also_compiled(user, tmp_path, kind):
    text = HELPERS.replace(
        block("""
            def best(x):
                return x * sum(x.tolist())
        """),
        NEW,
    )
    text = text.replace("return x.max()", "return x.max() * 10").replace("self.by", "10")
    net = user.Net()
    nested = torch.nn.Sequential(net)
    subject = {"function": user.call, "nested": nested, "method": net.forward}.get(kind, net)
    copy = patched(subject, {str(tmp_path / "helpers.py"): text})
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(copy, backend=backend, fullgraph=True)
    for x in (torch.tensor([2.0]), torch.tensor([3.0])):
        expected = 10 * x * x + 1 + 100 * x + 10
        assert torch.equal(copy(x), expected) and torch.equal(compiled(x), expected)
        assert torch.equal(subject(x), x * x + 1 + x + 1)
    assert len(graphs) == 1
    torch.compile(subject, backend=backend)(x)  # by the same backend
    assert torch.equal(compiled(x), expected) and graphs[1:]


def test_what_an_edit_does_not_reach_is_shared(user, tmp_path):
    text = HELPERS.replace("return x.max()", "return x.max() * 100")
    space = patched(user.call, {str(tmp_path / "helpers.py"): text}).__globals__
    assert space["helpers"].top is not user.helpers.top
    assert space["helpers"].scale is user.helpers.scale and space["own"] is user.own
    assert space["helpers"].Kind is user.helpers.Kind

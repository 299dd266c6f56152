"""The copy of a program that runs edited text."""

import sys

import pytest
import torch

from fullgraph.rewrites.fix import patched

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

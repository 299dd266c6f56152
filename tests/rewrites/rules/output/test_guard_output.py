import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered, rewritten
from tests.text import block

HEAD = """import logging
import warnings

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.logger = logging.getLogger("rewritten")
        self.seen, self.warned, self.debug = [], False, True

    def forward(self, x):
"""
X = torch.ones(3)


@pytest.mark.parametrize(
    "body",
    [
        "self.logger.info(x.add_(1))",
        "print(torch.rand(2), self)",
        "print(self.names.pop())",
        "self.total = x.sum()",
        "x = x + len(self.seen); self.seen.append(x.sum().item())",
    ],
)
def test_left_alone(body):
    source = f"{HEAD}        {body}\n        return x * 2\n"
    text, rewrites, _ = offered(source, body.partition(" = ")[2] or body, "print / logging")
    assert not rewrites, text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'self.logger.warning("x %s",  x)  # loud',
            block("""
                if not torch.compiler.is_compiling():
                            self.logger.warning("x %s",  x)  # loud"""),
        ),
        (
            block("""
                if x.isnan().any() or x.sum()<0:
                            # bad
                            print("bad", self)"""),
            block("""
                if not torch.compiler.is_compiling() and (x.isnan().any() or x.sum()<0):
                            # bad
                            print("bad", self)"""),
        ),
        (
            block("""
                if self.debug:
                            print(self)"""),
            block("""
                if self.debug and not torch.compiler.is_compiling():
                            print(self)"""),
        ),
        (
            "self.seen.append(float(x.max()))",
            block("""
                if not torch.compiler.is_compiling():
                            self.seen.append(float(x.max()))"""),
        ),
        (
            block("""
                if x.max() > 0.5 and not self.warned:
                            print("large", self)
                            self.warned = True"""),
            block("""
                if not torch.compiler.is_compiling() and x.max() > 0.5 and not self.warned:
                            print("large", self)
                            self.warned = True"""),
        ),
        (
            'warnings.warn( "old" , stacklevel=2)',
            block("""
                if not torch.compiler.is_compiling():
                            warnings.warn( "old" , stacklevel=2)"""),
        ),
    ],
)
def test_fixed(before, after):
    outcome = rewritten(f"{HEAD}        # note\n        {before}\n        return x * 2\n", X)
    assert outcome.source == f"{HEAD}        # note\n        {after}\n        return x * 2\n"
    assert outcome.rules == ["FG113"] and outcome.applicability == [Applicability.UNSAFE]
    outcome.check(exact=True)

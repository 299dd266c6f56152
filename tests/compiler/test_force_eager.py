import pytest
import torch

from fullgraph.compiler.private import force_eager


@pytest.mark.compiles
def test_cond_gives_the_gradients_that_it_gives_in_eager():
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    cond = torch.cond
    with force_eager():
        torch.cond(x.sum() > 0, lambda: x * w, lambda: x.clone()).sum().backward()
    assert w.grad.tolist() == [1, 1, 1]
    assert torch.cond is cond


def test_what_is_compiled_runs_uncompiled():
    seen = []
    compiled = torch.compile(lambda x: seen.append(torch.compiler.is_compiling()) or x)
    with force_eager():
        compiled(torch.ones(2))
    assert seen == [False]

"""What the abstract interpreter knows: first what it must stay silent about."""

import pytest

from tests.rewrites.check.programs import found
from tests.text import block

SILENT = {
    "metadata": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                if x.shape[0] > 2 and x.dtype == torch.float32 and x.dim() == 2 and len(x):
                    return x
                return x + 1
    """,
    "training": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                return F.dropout(x) if self.training else x
    """,
    "none": """
        class Net(nn.Module):
            def forward(self, x: Tensor, mask: Tensor | None = None):
                if mask is not None:
                    x = x * mask
                return x
    """,
    "tensor of numbers": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                return x.reshape(x.size(0), torch.div(x.size(1), 2), 2)
    """,
    "isinstance": """
        class Net(nn.Module):
            def forward(self, x):
                if isinstance(x, (list, tuple)):
                    x = x[0]
                return x + 1
    """,
    "eager only": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                if not torch.compiler.is_compiling() and x.sum() > 0:
                    print(x)
                if not torch.compiler.is_compiling():
                    print(x.sum().item())
                if torch.compiler.is_compiling() or x.sum() > 0:
                    x = x + 1
                return x if not torch.compiler.is_compiling() and not x.any() else -x
    """,
    "not compiled": """
        def train(model, x: Tensor):
            loss = model(x).sum()
            if loss > 0:
                print(loss.item())

        if __name__ == "__main__":
            train(None, torch.ones(3))
    """,
    "constructor": """
        class Net(nn.Module):
            def __init__(self, x: Tensor):
                super().__init__()
                if x.sum() > 0:
                    self.scale = x.sum().item()
                print(x)
            def forward(self, x: Tensor):
                return x * self.scale
    """,
    "unknown": """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.config, self.helper = config, config.make()
            def forward(self, x: Tensor):
                if self.config.scale > 1 or self.helper(x):
                    return x
                return x[self.helper.mask]
    """,
    "index": """
        class Net(nn.Module):
            def forward(self, x: Tensor, index: torch.LongTensor):
                return x[index] + x[:, 0] + x[None, 1:]
    """,
    "torch's own loops": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
            def forward(self, x: Tensor):
                for layer in self.layers:
                    x = layer(x)
                for row in x:
                    x = x + row
                return torch.where(x > 0, x, -x), x.max(dim=0)
    """,
    "scalars of the configuration": """
        class Net(nn.Module):
            def __init__(self, p: float = 0.1):
                super().__init__()
                self.p, self.n = p, int(p * 10)
            def forward(self, x: Tensor):
                n = max(int(x.shape[0] * self.p), self.n)
                return x[:n] if n > 1 else x
    """,
}
BREAKS = {
    "size of what a mask selects": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor, keep: torch.BoolTensor):
                x = x[keep]
                if x.size(1) > 2 or x.shape[1] > 2:
                    return x
                return x if len(x) > 2 else -x
    """,
        [("boolean mask", "x[keep]"), ("data-dependent guard", "len(x) > 2")],
    ),
    "a branch": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                if x.sum() > 0:
                    return x
                return -x
        """,
        [("data-dependent branch", "x.sum() > 0")],
    ),
    "an unannotated parameter, by its uses": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                h = self.fc(x)
                return h if h.mean() > 0 else -h
        """,
        [("data-dependent branch", "h.mean() > 0")],
    ),
    "a helper in another file": (
        """
        from helper import norm
        class Net(nn.Module):
            def forward(self, x: Tensor):
                return x / norm(x)
        """,
        [],
    ),
    "a buffer": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("ready", torch.zeros(1))
            def forward(self, x: Tensor):
                if not self.ready:
                    self.ready.fill_(1)
                return x
        """,
        [("data-dependent branch", "self.ready")],
    ),
    "a scalar": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                return x / x.abs().max().item()
        """,
        [("scalar extraction", "x.abs().max().item()")],
    ),
    "a mask": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor, target: Tensor):
                valid = target != -100
                return x[valid].mean()
        """,
        [("boolean mask", "x[valid]")],
    ),
    "a narrowed optional": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor, mask: Tensor | None = None):
                if mask is None or mask.bool().all():
                    return x
                return x * mask
        """,
        [("data-dependent branch", "mask.bool().all()")],
    ),
    "a submodule of the tree": (
        """
        class Inner(nn.Module):
            def forward(self, x):
                return x + 1
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
            def forward(self, x: Tensor):
                y = self.inner(x)
                while y.norm() > 1:
                    y = y / 2
                return y
        """,
        [("data-dependent branch", "y.norm() > 1")],
    ),
    "a compiled function": (
        """
        @torch.compile
        def step(x: Tensor):
            return helper(x)

        def helper(t):
            return t.tolist()
        """,
        [("scalar extraction", "t.tolist()")],
    ),
    "an attribute that a method called in the constructor sets": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.build()
            def build(self):
                self.scale = torch.ones(3)
                self.limit = self.scale * 2
                self.scale = self.limit + 1
            def forward(self, x: Tensor):
                return x if self.limit.sum() > 0 else -x
        """,
        [("data-dependent branch", "self.limit.sum() > 0")],
    ),
    "what the iteration before assigned": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                last = None
                for row in x:
                    if last is not None:
                        row = row * int(last.sum())
                    last = row
                return last
        """,
        [("scalar extraction", "int(last.sum())")],
    ),
    "a loop that makes a tensor of a number": (
        """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                total = 0
                for row in x:
                    if total > 3:
                        break
                    total = total + row.sum()
                return total
        """,
        [],
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name):
    assert found(SILENT[name]) == []


@pytest.mark.parametrize("name", BREAKS)
def test_breaks(name):
    body, expected = BREAKS[name]
    assert found(body) == expected


def test_a_call_is_followed_into_another_file():
    result = found(
        block("""
            from helper import check
            class Net(nn.Module):
                def forward(self, x: Tensor):
                    check(x)
                    return x
        """),
        helper=block("""
            def check(x):
                if x.isnan().any():
                    raise ValueError
        """),
    )
    assert [category for category, _ in result] == ["data-dependent branch"]


def test_what_is_likely_is_shown_on_request():
    body = """
        class Net(nn.Module):
            def forward(self, x):
                y = x * 2
                return y if y > 0 else -y
    """
    assert found(body) == []
    assert found(body, strict=True) == [("data-dependent branch", "y > 0")]

"""State that changes from call to call; first what must stay silent."""

import pytest

from tests.rewrites.check.programs import found

SILENT = {
    "set in each call": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen, self.last = [], 0
            def forward(self, x: Tensor):
                self.seen = []
                self.seen.append(x.mean())
                self.last = x.shape[0]
                return x
    """,
    "a tensor": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(()))
            def forward(self, x: Tensor):
                self.count += 1
                return x * self.count
    """,
    "outside of the compiled code": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0
                self.count += 1
            def step(self):
                self.count += 1
            def forward(self, x: Tensor):
                return x
    """,
    "pushed and popped": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stack = []
            def forward(self, x: Tensor):
                self.stack.append(x.shape)
                x = x * 2
                self.stack.pop()
                return x
    """,
    "popped in another method": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stack = []
            def leave(self):
                del self.stack[-1]
            def forward(self, x: Tensor):
                self.stack.append(x.shape)
                return x
    """,
    "a constant key": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.last, self.names = {}, set()
            def forward(self, x: Tensor):
                self.last["x"] = x
                self.last.setdefault("n", 0)
                self.names.add("x")
                return x
    """,
    "a local list": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                seen = []
                for row in x:
                    seen.append(row)
                return torch.stack(seen)
    """,
    "assigned and never read": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.aux_loss, self.ready = None, False
            def forward(self, x: Tensor):
                self.aux_loss = x.mean()
                self.ready = True
                return x
    """,
    "None that no operator may read": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.grid = None
            def forward(self, x: Tensor):
                if x.shape[0] > 3:
                    self.grid = torch.ones(x.shape)
                return x + self.grid
    """,
    "assigned first by a method": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = []
            def start(self):
                self.seen = []
            def forward(self, x: Tensor):
                self.start()
                self.seen.append(x)
                return x
    """,
    "an object that the call makes": """
        class Output:
            def __init__(self):
                self.rows, self.count = [], 0
            def add(self, row):
                self.rows.append(row)
                self.count += 1
        class Net(nn.Module):
            def forward(self, x: Tensor):
                output = Output()
                output.add(x)
                return output.rows[0]
    """,
    "the constant with which it began": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.mode = "whole"
            def forward(self, x: Tensor):
                x = x + len(self.mode)
                self.mode = "whole"
                return x
    """,
    "a tensor of fixed length": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("frames", torch.zeros(4, 4))
            def forward(self, x: Tensor):
                self.frames = torch.cat((self.frames[1:], x[None]))
                return self.frames
    """,
    "a dict with all its keys": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = {"up": 1.0}
            def forward(self, x: Tensor):
                self.scale["up"] = 2.0 / len(self.scale)
                return x * self.scale["up"]
    """,
}
CHANGES = {
    "a counter": (
        "self.n = 0",
        "self.n += 1",
        [("recompile: number attribute", "self.n")],
    ),
    "a rate": (
        "self.n = 1.0",
        "self.n = self.n * 0.9",
        [("recompile: number attribute", "self.n")],
    ),
    "None, then a value": (
        "self.n = None",
        "self.n = x if self.n is None else self.n",
        [("recompile: None or value", "self.n")],
    ),
    "a list": (
        "self.n = []",
        "self.n.append(x)",
        [("recompile: length", "self.n.append(x)")],
    ),
    "a list in a dict": (
        "self.n = collections.defaultdict(list)",
        "self.n['loss'].append(x)",
        [("recompile: length", "self.n['loss'].append(x)")],
    ),
    "a dict": ("self.n = {}", "self.n[x.shape] = x", [("recompile: length", "self.n[x.shape]")]),
    "a number in a dict": (
        "self.n = {'calls': 0}",
        "self.n['calls'] += 1",
        [("recompile: number attribute", "self.n['calls']")],
    ),
    "a number through variables": (
        "self.n = 0",
        """
                start = self.n
                end = start + x.shape[0]
                x = x[start:end]
                self.n = end""",
        [("recompile: number attribute", "self.n")],
    ),
    "a size that is compared": (
        "self.n = 0",
        """
                if x.shape[0] > self.n:
                    self.n = x.shape[0]""",
        [("recompile: number attribute", "self.n")],
    ),
    "a flag": (
        "self.n = False",
        """
                if not self.n:
                    self.n = True""",
        [("recompile: flag", "self.n")],
    ),
    "a name": (
        "self.n = 'a'",
        "self.n = 'b' if self.n == 'a' else 'a'",
        [("recompile: other value", "self.n")],
    ),
    "an attribute that is missing": (
        "pass",
        """
                if not hasattr(self, 'n'):
                    self.n = x""",
        [("recompile: None or value", "self.n")],
    ),
    "a function": (
        "self.n = torch.neg",
        """
                x = self.n(x)
                scale = x.shape[0]
                self.n = lambda t: t * scale""",
        [("recompile: other object", "self.n")],
    ),
    "a tensor that gets longer": (
        "self.register_buffer('n', torch.zeros(1, 4))",
        "self.n = torch.cat([self.n, x])",
        [("recompile: size", "self.n")],
    ),
    "one of two targets": (
        "self.m, self.n = None, 0",
        "self.m, self.n = x, self.n + 1",
        [("recompile: number attribute", "self.n")],
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name):
    assert found(SILENT[name]) == []


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    first, update, expected = CHANGES[name]
    body = f"""
        import collections
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                {first}
            def forward(self, x: Tensor):
                {update}
                return x
    """
    assert found(body) == expected


def test_a_counter_of_an_object_and_a_global():
    body = """
        CALLS = 0
        class Scheduler:
            def __init__(self):
                self.step_number = 0
            def step(self, x):
                self.step_number += 1
                return x
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scheduler = Scheduler()
            def forward(self, x: Tensor):
                global CALLS
                CALLS += 1
                return self.scheduler.step(x)
    """
    assert found(body) == [
        ("recompile: number attribute", "self.step_number"),
        ("recompile: global", "CALLS"),
    ]


def test_globals():
    body = """
        CALLS = 0
        TABLE = None
        FLAGS = {"fast": False}
        SEEN = []
        FIXED = 3
        @torch.compile
        def step(x: Tensor):
            global CALLS, TABLE
            CALLS = CALLS + FIXED
            if TABLE is None:
                TABLE = torch.arange(4)
            FLAGS["fast"] = not FLAGS["fast"]
            SEEN.append(x.shape)
            return x + TABLE
    """
    assert found(body) == [
        ("recompile: global", "CALLS"),
        ("recompile: global", "TABLE"),
        ("recompile: global", 'FLAGS["fast"]'),
        ("recompile: global", "SEEN.append(x.shape)"),
    ]


def test_a_counter_on_the_class():
    body = """
        class Net(nn.Module):
            calls = 0
            def forward(self, x: Tensor):
                type(self).calls += 1
                return x
    """
    assert found(body) == [("recompile: number attribute", "type(self).calls")]


ARGUMENTS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.pool = 1.0, "mean"
        def set_scale(self, scale: float):
            self.scale = scale
        def set_pool(self, pool: str):
            self.pool = pool
        def forward(self, x: Tensor, step: int, dim: int, layers: int = 2):
            for t in range(x.shape[1]):
                x = repeat(x, 3)
            return (x.sum(dim) if self.pool == "sum" else x.mean(dim)) * step * self.scale
    def repeat(x: Tensor, times: int):
        for _ in range(times):
            x = x + 1
        return x
    @torch.compile
    def run(x: Tensor, times: int, rate: float):
        for _ in range(times):
            x = x * rate
        return x
"""


def test_an_argument_that_unrolls_a_compiled_function():
    assert found(ARGUMENTS) == [("recompile: number argument", "times: int")]


def test_arguments_that_likely_change():
    assert found(ARGUMENTS, strict=True) == [
        ("recompile: number argument", "step: int"),
        ("recompile: size", "x.shape[1]"),
        ("recompile: number attribute", "self.scale"),
        ("recompile: number argument", "times: int"),
        ("recompile: number argument", "rate: float"),
    ]


CALLS = """
    class Net(nn.Module):
        def forward(self, x, scale=1.0):
            return x * scale
    @torch.compile
    def unroll(x: Tensor, times, unused=0):
        for _ in range(times):
            x = x + 1
        return x
    def damp(x: Tensor, rate, steps):
        return x * rate / steps
    fast = torch.compile(damp)
    def train(loader, net: Net, times: int):
        model = torch.compile(Net())
        rate = 1.0
        for epoch in range(3):
            rate *= 0.9
            for number, x in enumerate(loader):
                x = {call}
        return net(x, times)
"""


@pytest.mark.parametrize(
    ("call", "changing"),
    [
        ("unroll(x, times)", []),
        ("unroll(x, 3, epoch)", []),
        ("unroll(x, torch.tensor(epoch))", []),
        ("net(x, rate)", []),
        ("unroll(x, number + 1)", ["number + 1"]),
        ("fast(x, rate=rate, steps=epoch)", ["rate", "epoch"]),
        ("model(x, 0.1 * epoch)", ["0.1 * epoch"]),
    ],
)
def test_arguments_in_a_loop(call, changing):
    expected = [("recompile: number argument", text) for text in changing]
    assert found(CALLS.replace("{call}", call)) == expected

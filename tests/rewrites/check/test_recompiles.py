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
    "a local list": """
        class Net(nn.Module):
            def forward(self, x: Tensor):
                seen = []
                for row in x:
                    seen.append(row)
                return torch.stack(seen)
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
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name):
    assert found(SILENT[name]) == []


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name):
    first, update, expected = CHANGES[name]
    body = f"""
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

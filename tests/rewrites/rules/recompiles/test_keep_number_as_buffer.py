import pytest
import torch

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import imported, offered

KIND = "recompile: number attribute"
MODEL = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        {init}

    def forward(self, x):
        {body}
        return x * self.step
"""


def ask(init, body):
    source = MODEL.format(init=init, body=body)
    expression = f"{body.partition('self.step')[0]}self.step"
    line = source[: source.index(body)].count("\n")
    assert source.split("\n")[line].strip() == body
    source = source.replace("class Model", f"# {line}\nclass Model")
    return source, *offered(source, expression, KIND, rule="FG852")


@pytest.mark.parametrize(
    ("init", "body"),
    [
        ("super().__init__()\n        self.step = None", "self.step += 1"),
        ("self.step = 0\n        super().__init__()", "self.step += 1"),
        ("super().__init__()\n        self.step = 0", "self.step, y = 1, 2"),
        ("super().__init__()", "self.step += 1"),
    ],
)
def test_left_alone(init, body):
    _, text, rewrites, refusals = ask(init, body)
    assert not rewrites and refusals, text


COUNTED = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        self.step += 1
        {body}
        return x * self.step

    def __init__(self):
        super().__init__()
        self.step = 0
"""


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("x = x * min(1.0, self.step / 10)", "x = x * (self.step / 10).clamp(max=1.0)"),
        ("self.step = min(self.step + 1, 9)", "self.step = (self.step + 1).clamp(max=9)"),
        ("self.step = 3", "self.step.fill_(3)"),
        ("x = x if self.step > 9 else 2 * x", ""),
        ("x = x[: int(self.step)]", ""),
    ],
)
def test_what_python_computes_from_the_number(body, after):
    source = COUNTED.format(body=body)
    text, rewrites, refusals = offered(source, "self.step", KIND, torch.ones(2), rule="FG852")
    assert after in text
    assert bool(after) == bool(rewrites) != bool(refusals), text


@pytest.mark.parametrize(
    ("init", "body", "new_init", "new_body"),
    [
        (
            "super().__init__()\n        self.step = 0  # calls",
            "self.step += 1",
            'super().__init__()\n        self.register_buffer("step", torch.tensor(0), '
            "persistent=False)  # calls",
            "self.step = self.step + 1",
        ),
        (
            "super().__init__()\n        self.step: float = 1.0",
            "self.step = self.step * 0.5",
            'super().__init__()\n        self.register_buffer("step", '
            "torch.tensor(1.0, dtype=torch.float64), persistent=False)",
            "self.step = self.step * 0.5",
        ),
        (
            "super().__init__()\n        self.net, self.step = torch.nn.ReLU(), 0",
            "self.step += 1",
            "super().__init__()\n        self.net = torch.nn.ReLU()\n"
            '        self.register_buffer("step", torch.tensor(0), persistent=False)',
            "self.step = self.step + 1",
        ),
    ],
)
def test_fixed(init, body, new_init, new_body):
    source, text, rewrites, _ = ask(init, body)
    assert text == source.replace(init, new_init).replace(body, new_body)
    assert rewrites[0].applicability is Applicability.UNSAFE and rewrites[0].numbers


def test_the_backward_takes_the_number_of_its_own_call():
    _, text, _, _ = ask("super().__init__()\n        self.step = 0", "self.step += 1")
    eager, other = imported(text).Model(), imported(text).Model()
    compiled = torch.compile(other, backend="aot_eager")
    for _ in range(2):
        slopes = []
        for run in (eager, compiled):
            x = torch.ones(3, requires_grad=True)
            (run(x) * x).sum().backward()
            slopes.append(x.grad)
        torch.testing.assert_close(*slopes)

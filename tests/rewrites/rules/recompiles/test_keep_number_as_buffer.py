import pytest

from fullgraph.rewrites.rule import Applicability
from tests.rewrites.harness import offered

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


@pytest.mark.parametrize(
    ("init", "body", "new_init", "new_body"),
    [
        (
            "super().__init__()\n        self.step = 0  # calls",
            "self.step += 1",
            'super().__init__()\n        self.register_buffer("step", torch.tensor(0), '
            "persistent=False)  # calls",
            "self.step += 1",
        ),
        (
            "super().__init__()\n        self.step: float = 1.0",
            "self.step = self.step * 0.5",
            'super().__init__()\n        self.register_buffer("step", '
            "torch.tensor(1.0, dtype=torch.float64), persistent=False)",
            "self.step.fill_(self.step * 0.5)",
        ),
        (
            "super().__init__()\n        self.net, self.step = torch.nn.ReLU(), 0",
            "self.step += 1",
            "super().__init__()\n        self.net = torch.nn.ReLU()\n"
            '        self.register_buffer("step", torch.tensor(0), persistent=False)',
            "self.step += 1",
        ),
    ],
)
def test_fixed(init, body, new_init, new_body):
    source, text, rewrites, _ = ask(init, body)
    assert text == source.replace(init, new_init).replace(body, new_body)
    assert rewrites[0].applicability is Applicability.UNSAFE and rewrites[0].numbers

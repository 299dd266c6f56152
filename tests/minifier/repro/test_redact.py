"""Redacting: what the author would not tell is gone, what the failure needs stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fullgraph.minifier.repro.redact import redact

SECRET = '''\
# torch 2.13.0+cpu
import torch
import torch.nn.functional as F


class AcmeLayer(torch.nn.Module):
    """What Acme sells."""

    def __init__(self, acme_width=4):
        super().__init__()
        self.acme_linear = torch.nn.Linear(acme_width, 4)
        self.acme_table = {"acme": 0.73219}  # from Bob

    def acme_step(self, acme_x, acme_scale=1.0):
        return self.acme_linear(acme_x) * self.acme_table["acme"] * acme_scale

    def forward(self, acme_x, dim=0):
        return F.softmax(self.acme_step(acme_x, acme_scale=2.0), dim=dim).to("cpu")


acme_x = torch.tensor([[1.2345, 2.7, 3.1, 4.0], [1.5, 2.5, 3.5, 4.5]])
model = AcmeLayer(acme_width=4)
assert model(acme_x).shape == (2, 4)
'''


def runs(text: str) -> bool:
    exec(compile(text, "<script>", "exec"), {})
    return True


class Asked:
    """An oracle that counts."""

    def __init__(self, answer: Callable[[str], bool]) -> None:
        self.answer = answer
        self.times = 0

    def __call__(self, text: str) -> bool:
        self.times += 1
        try:
            return self.answer(text)
        except Exception:
            return False


def test_names_strings_numbers_and_comments_go() -> None:
    asked = Asked(runs)
    text = redact(SECRET, asked)
    assert "acme" not in text.lower() and "Bob" not in text and "1.2345" not in text
    assert "0.73219" not in text and "torch.arange(8.0).reshape(2, 4)" in text
    assert text.startswith("# torch 2.13.0+cpu\n")
    assert runs(text)
    assert asked.times == 4


def test_torchs_own_words_stay() -> None:
    text = redact(SECRET, Asked(runs))
    assert "F.softmax(" in text and "dim=dim" in text and '.to("cpu")' in text
    assert "def forward(self" in text


@pytest.mark.parametrize("needed", ["acme_linear", "AcmeLayer", '"acme"', "1.2345"])
def test_what_the_failure_needs_stays(needed: str) -> None:
    text = redact(SECRET, Asked(lambda text: needed in text and runs(text)))
    assert needed in text
    assert text.lower().count("acme") < SECRET.lower().count("acme") / 2


def test_nothing_is_lost_where_everything_is_needed() -> None:
    assert redact(SECRET, lambda text: text == SECRET) == SECRET

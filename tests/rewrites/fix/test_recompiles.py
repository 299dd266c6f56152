"""Recompiles in miniature: the root, then an edit, a setting or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch

from fullgraph.rewrites.fix import fix
from tests.rewrites.fix import recompiling as r

pytestmark = pytest.mark.compiles

X = torch.tensor([1.0, 2.0, 3.0, 4.0])


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


@dataclass
class Case:
    """A program with its calls, and what is expected of it."""

    make: Callable[[], Callable[..., object]]
    calls: list
    root: str
    kind: str
    line: str
    """Text of the line at which the root is read."""
    before: int
    answer: str = ""
    """Code of a rule or of a setting; "" for a refusal."""
    after: int = 0
    reason: str = ""


CASES = {
    "counter": Case(
        r.Counter, [X] * 4, "self.count", "number attribute", "self.count += 1", 3, "FG851"
    ),
    "counter that is read": Case(
        r.WarmUp, [X] * 4, "self.step", "number attribute", "self.step += 1", 3, "FG852"
    ),
    "optimizer step": Case(
        r.Momentum,
        [X] * 4,
        "self.optimizer_steps",
        "number attribute",
        "self.optimizer_steps += 1",
        3,
        "FG852",
    ),
    "global counter": Case(lambda: r.counted, [X] * 4, "TALLY", "global", "TALLY += 1", 3, "FG851"),
    "global counter that is read": Case(
        lambda: r.weighted, [X] * 4, "CALLS", "global", "    CALLS += 1", 3, "FG853"
    ),
    "growing list": Case(
        r.History, [X] * 4, "self.seen", "length", "self.seen.append(y.detach())", 3, "FG851"
    ),
    "lengths": Case(
        lambda: r.lengths,
        [ones(n, 3) for n in (4, 5, 6)],
        "x.shape[0]",
        "size",
        "return x.cumsum(0) * x.shape[0]",
        1,
        "torch._dynamo.mark_dynamic(x, 0)",
    ),
    "last batch": Case(
        lambda: r.last_batch,
        [ones(8, 3), ones(8, 3), ones(5, 3)],
        "x.shape[0]",
        "size",
        "return x.softmax(-1)",
        1,
        "torch._dynamo.mark_dynamic(x, 0)",
    ),
    "image sizes": Case(
        lambda: r.images,
        [ones(1, 3, *size) for size in ((8, 8), (8, 12), (10, 6))],
        "x.shape[3]",
        "size",
        "return nn.functional.avg_pool2d(x, 2).mean((2, 3))",
        2,
        "torch._dynamo.mark_dynamic(x, 2); torch._dynamo.mark_dynamic(x, 3)",
    ),
    "rates": Case(
        lambda: r.scaled,
        [(X, 0.1), (X, 0.2), (X, 0.3)],
        "rate",
        "number argument",
        "return x * rate",
        1,
        "rate = torch.tensor(rate)",
    ),
    "layer numbers": Case(
        r.Layers,
        [(X, n) for n in range(3)],
        "which",
        "number argument",
        "return self.layers[which](x)",
        2,
        reason="accept one graph for each value",
    ),
    "None, then a function": Case(
        r.Late,
        [X] * 3,
        "self.activate",
        "None or value",
        "if self.activate is None:",
        1,
        reason="make the value before the first compiled call",
    ),
    "dict keys": Case(
        lambda: r.keyed,
        [(dict.fromkeys(keys, X),) for keys in ("ab", "abc", "abcd")],
        "parts",
        "length",
        "return sum(parts.values())",
        2,
        reason="keep a tensor of fixed size",
    ),
    "global flag": Case(
        lambda: r.flag_turned,
        [X] * 2,
        "FAST",
        "global",
        "return x.sin() if FAST else x.cos()",
        1,
        reason="accept one graph for each value",
    ),
    "closure": Case(
        lambda: r.refined,
        [(X, r.scale_by(float(n))) for n in range(1, 4)],
        "correct.__closure__[0].cell_contents",
        "closure",
        "return lambda x: x * factor",
        1,
        "torch.compile(model, dynamic=True)",
    ),
    "KV-cache length": Case(
        r.Cache,
        [X] * 4,
        "self.size",
        "number attribute",
        "self.keys[self.size] = x",
        3,
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True; "
        "torch.compile(model, dynamic=True)",
    ),
    "dtype under autocast": Case(
        lambda: r.squared,
        [ones(2, 2), ones(2, 2, dtype=torch.bfloat16)],
        "y",
        "kind of tensor",
        "return y * y",
        1,
        reason="give the tensor one dtype",
    ),
    "value after a graph break": Case(
        lambda: r.autocast,
        [ones(2, 2)] * 2,
        "___stack1",
        "value after a graph break",
        "return y * y",
        1,
        reason="remove the graph break",
    ),
    "train and eval": Case(
        lambda: r.evaluated,
        [(X, r.Modes()), (X, r.Modes().eval())],
        "net.dropout.training",
        "train or eval",
        "def evaluated(x, net):",
        1,
        reason="one graph for training and one for evaluation",
    ),
    "grad mode": Case(
        lambda: r.mode_turned,
        [X] * 2,
        "",
        "global state",
        "def mode_turned(x):",
        2,
        reason="set it once before the first call",
    ),
}
UNDER_INDUCTOR = {"rates", "counter that is read"}


@pytest.mark.parametrize("name", CASES)
def test_recompiles(name):
    case = CASES[name]
    inputs, *calls = case.calls
    fixes = fix(case.make(), inputs, calls=calls, inductor=name in UNDER_INDUCTOR)
    entry = fixes.before.recompiles[0]
    assert (entry.root, entry.category) == (case.root, f"recompile: {case.kind}")
    assert sum(one.count for one in fixes.before.recompiles) == case.before
    text = Path(r.__file__).read_text(encoding="utf-8").splitlines()
    assert entry.where.file == r.__file__ and case.line.strip() in text[entry.where.line - 1]

    counts = fixes.to_dict()["recompiles"]
    assert counts["before"] == case.before
    assert f"{case.before} recompile" in fixes.verdict and "nothing to fix" not in fixes.verdict
    if case.answer.startswith("FG"):
        (made,) = [one for one in fixes.suggestions if one.accepted]
        assert made.rule == case.answer and made.proof.holds
        assert counts["after_unsafe"] == case.after and not fixes.unfixed
        assert f"→ {case.after} with 1 unsafe edit" in fixes.verdict
    elif case.answer:
        found = fixes.call_setting
        assert (str(found.setting), found.before, found.after) == (case.answer, case.before, 0)
    else:
        assert any(case.reason in cause.reason for cause in fixes.unfixed)


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.arange(4.0)

    @cached_property
    def scale(self):
        return float(self.table.max())

    def forward(self, x):
        return x * self.scale


WARM = "model(*inputs); model = torch.compile(model)"


def test_a_first_call_in_eager_makes_what_is_made_late():
    fixes = fix(Cached(), X, inductor=False)
    assert fixes.before.causes and not fixes.unfixed
    assert str(fixes.call_setting.setting) == WARM and fixes.call_setting.rank == (0, 0)
    assert f"`{WARM}`:" in str(fixes) and "with a setting causes 0" in fixes.verdict

    fixes = fix(r.Table(), X, calls=[X] * 2, inductor=False)
    assert str(fixes.call_setting.setting) == WARM and fixes.call_setting.rank == (0, 0)


def test_a_function_is_a_frame_of_its_own_because_of_a_break():
    fixes = fix(r.Scaled(), X, dynamic=False, inductor=False, select=["FG512"])
    reasons = [one.reason for one in fixes.unfixed if one.category == "recompile: number argument"]
    assert reasons and all("remove the graph break at `torch._dyn" in one for one in reasons)


def test_a_first_call_that_changes_later_results_is_no_setting():
    fixes = fix(r.Late(), X, calls=[X] * 2, inductor=False)
    found = fixes.call_setting
    assert str(found.setting) == WARM and not found.check.ok
    assert "eager behaves differently" in found.check.detail and fixes.unfixed

"""Module trees made small by plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from fullgraph.compiler.isolation import run_isolated, state_digest
from fullgraph.minifier.oracle.candidate import Verdict
from fullgraph.minifier.oracle.problem import Problem
from fullgraph.minifier.reduce.modules import (
    ModulePlan,
    ModuleRecording,
    StubKind,
    apply_plan,
    record_modules,
    reduce_modules,
)
from tests.minifier.fake_oracle import judged

RECORDED = StubKind.RECORDED


@contextmanager
def apply(module: nn.Module, plan: ModulePlan, recorded: ModuleRecording) -> Iterator[None]:
    """What `put` does, undone on exit."""
    undo = apply_plan(module, plan, recorded)
    try:
        yield
    finally:
        undo()


class Block(nn.Module):
    def __init__(self, width: int, odd: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.odd = odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(self.up(self.norm(x)).relu())
        if self.odd and x.sum() > 0:
            y = y + 1
        return x + y


class Model(nn.Module):
    def __init__(self, odd: int = 3, blocks: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block(8, odd=i == odd) for i in range(blocks))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Sequential(nn.LayerNorm(8), nn.BatchNorm1d(5), nn.Linear(8, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.drop(x))


IDS = torch.arange(10).view(2, 5)


def problem(
    model: nn.Module, recorded: ModuleRecording, fails: Callable[[], bool]
) -> Problem[ModulePlan]:
    def judge(plan: ModulePlan) -> Verdict:
        def job(say: Callable[[object], None]) -> bool:
            with apply(model, plan, recorded):
                return fails()

        failed = run_isolated(job, seconds=60).value
        return Verdict.SAME if failed else Verdict.PASSES

    return judged(ModulePlan(), judge)


def test_recording_leaves_the_model_alone() -> None:
    model = Model()
    before = state_digest([model])
    recorded = record_modules(model, lambda: model(IDS))
    assert state_digest([model]) == before
    assert "blocks" not in recorded.outputs
    assert recorded.outputs["embed"].argument is None
    assert recorded.outputs["blocks.0"].argument == 0
    assert recorded.outputs["blocks.0"].weight > recorded.outputs["blocks.0.norm"].weight > 0


def test_a_plan_is_applied_and_undone() -> None:
    model = Model().eval()
    recorded = record_modules(model, lambda: model(IDS))
    plan = ModulePlan((("blocks", 2), ("blocks.0", StubKind.IDENTITY), ("head", StubKind.RECORDED)))
    expected = model(IDS)
    structure = str(model)
    with apply(model, plan, recorded):
        assert len(model.blocks) == 2
        assert torch.equal(model(IDS), recorded.outputs["head"].values[0])
    assert str(model) == structure
    assert torch.equal(model(IDS), expected)


def test_what_an_outer_replacement_took_away_is_passed_over() -> None:
    model = Model().eval()
    recorded = record_modules(model, lambda: model(IDS))
    plan = ModulePlan((("blocks", 1), ("blocks.4", StubKind.IDENTITY)))
    with apply(model, plan, recorded):
        model(IDS)


def test_a_module_that_was_not_recorded_is_refused() -> None:
    model = Model()
    with (
        pytest.raises(KeyError),
        apply(model, ModulePlan((("drop", StubKind.IDENTITY),)), ModuleRecording()),
    ):
        pass
    assert isinstance(model.drop, nn.Dropout)


@pytest.mark.compiles
def test_the_block_that_breaks_is_left() -> None:
    model = Model(odd=3).eval()
    recorded = record_modules(model, lambda: model(IDS))

    def breaks() -> bool:
        model(IDS)
        try:
            torch.compile(model, backend="eager", fullgraph=True)(IDS)
        except torch._dynamo.exc.Unsupported as error:
            return "Data-dependent branching" in str(error)
        return False

    found = problem(model, recorded, breaks)
    reduce_modules(found, model, recorded)
    plan = found.current
    assert found.oracle.counts.candidates <= 40
    assert not plan.touches("blocks.3")
    for path in ("embed", "blocks.2", "blocks.4", "blocks.5", "blocks.3.up", "head", "drop"):
        assert plan.touches(path), str(plan)


def test_a_module_that_is_called_twice_gives_both_outputs() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x) - self.lin(x + 1)

    model = Twice()
    x = torch.ones(1, 4)
    recorded = record_modules(model, lambda: model(x))
    expected = model(x)
    with apply(model, ModulePlan((("lin", StubKind.RECORDED),)), recorded):
        assert torch.equal(model(x), expected)
        assert torch.equal(model(x), expected)


def test_keyword_arguments_pass_too() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(scale=3, x=x)

    class Inner(nn.Module):
        def forward(self, scale: int, x: torch.Tensor) -> torch.Tensor:
            return x * scale

    model = Named()
    x = torch.ones(2)
    recorded = record_modules(model, lambda: model(x))
    with apply(model, ModulePlan((("inner", StubKind.IDENTITY),)), recorded):
        assert torch.equal(model(x), x)


class Transformed(nn.Module):
    """Calls a module inside transforms of torch.func, and another outside."""

    def __init__(self, transform: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.inner, self.outer = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 4)
        self.transform = transform

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.transform(self.inner, x))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: torch.func.grad(lambda v: f(v).sum())(x),
        lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
        lambda f, x: torch.func.vmap(f)(x),
        lambda f, x: torch.func.vjp(f, x)[1](x)[0],
        lambda f, x: f(x) + torch.func.vmap(torch.func.grad(lambda v: f(v).sum()))(x),
    ],
)
def test_modules_inside_transforms_are_recorded_without_their_outputs(
    transform: Callable[..., torch.Tensor],
) -> None:
    model, x = Transformed(transform), torch.randn(3, 4)
    expected = model(x)
    recorded = record_modules(model, lambda: model(x))
    assert set(recorded.outputs) == {"inner", "inner.0", "inner.1", "outer"}
    assert recorded.outputs["inner"].argument == 0 and not recorded.outputs["inner"].values
    for path in ("inner", "outer"):
        with apply(model, ModulePlan(((path, StubKind.IDENTITY),)), recorded):
            assert model(x).shape == expected.shape
    with pytest.raises(KeyError), apply(model, ModulePlan((("inner", RECORDED),)), recorded):
        pass
    with apply(model, ModulePlan((("outer", RECORDED),)), recorded):
        assert torch.equal(model(x), expected)

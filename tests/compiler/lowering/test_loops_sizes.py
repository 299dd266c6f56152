"""Dynamic sizes, numbers computed from them, and strides of results in the backend `loops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend

from . import CODEGEN

pytestmark = pytest.mark.compiles
Calls = list[tuple[torch.Tensor, ...]]


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernels"))


def check(function: Callable[..., Any], calls: Calls, **options: Any) -> None:
    """Compare values, gradients and strides with eager, call by call."""
    torch.compiler.reset()
    compiled = torch.compile(
        function, backend="loops", fullgraph=True, options={"codegen": CODEGEN}, **options
    )
    for inputs in calls:
        results = []
        for run in (function, compiled):
            leaves = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
            outputs = run(*leaves)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            ends = [one for one in outputs if one.requires_grad]
            gradients = []
            if ends and any(x.requires_grad for x in leaves):
                sum((one * weights_like(one)).sum() for one in ends).backward()  # type: ignore[union-attr]
                gradients = [x.grad for x in leaves]
            results.append(([one.detach() for one in outputs], gradients))
        torch.testing.assert_close(results[1], results[0], check_stride=True)


def weights_like(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(0.5, 1.5, x.numel()).view(x.shape)


def test_gradients_with_dynamic_sizes() -> None:
    weight = torch.randn(6, 3, 3, 3)

    def detect(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.conv2d(x, weight, stride=2, padding=1).flatten(2).mT
        box, scores = y[..., :4].sigmoid(), y[..., 4]  # saved as eager has it: not contiguous
        values, places = scores.topk(3)
        return box.gather(1, places[..., None].expand(-1, -1, 4)), values

    images = [torch.randn(n, 3, size, size, requires_grad=True) for n, size in ((2, 8), (3, 12))]
    check(detect, [(x,) for x in images], dynamic=True)


def test_a_shorter_last_batch_trains() -> None:
    torch.compiler.reset()
    norm = nn.BatchNorm1d(3)
    compiled = torch.compile(norm, backend="loops", options={"codegen": CODEGEN})
    for rows in (8, 8, 5):
        x, gradients = torch.randn(rows, 3), []
        for run in (norm, compiled):
            norm.zero_grad()
            norm.reset_running_stats()
            (run(x) * weights_like(x)).sum().backward()
            gradients.append([*(one.grad for one in norm.parameters()), norm.running_mean])
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x.shape[2] / 2) + 1 / x.shape[2],
        lambda x: x.double() / x.shape[2] ** 0.5,
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.interpolate(x, size=(2 * x.shape[2], 7), mode="bilinear"),
        lambda x: x[:, :, : int(x.shape[2] * 0.7)].exp(),
        lambda x: x.new_full((x.shape[2] // 2 + 1, 3), x.shape[2] / 4),
        lambda x: torch.full((3,), x.shape[2] / 40, dtype=torch.bool),
    ],
)
def test_numbers_computed_from_sizes(function: Callable[..., Any]) -> None:
    calls = [(torch.randn(1, 2, size, 4, requires_grad=True),) for size in (5, 6, 11)]
    check(function, calls, dynamic=True)


def test_sizes_and_numbers_that_depend_on_data() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        number = x.sum().item()
        torch._check(number > 0.5)
        return x * number + x.nonzero().shape[0] + x[x < 0.5].shape[0]

    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(settings):
        check(function, [(torch.tensor([0.0, 0.25, 3.0]),)])


def test_a_size_is_not_rounded_to_bfloat16() -> None:
    x = torch.ones(1001, 2).bfloat16()
    check(lambda x: x * 0.01 * x.shape[0], [(x,), (x[:515],)], dynamic=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.pad(x, (1, 2))[..., :-1].exp()[..., 1:],
        lambda x: x.sum(1, keepdim=True) * 2,
        lambda x: (x + 1).expand(2, *x.shape),
        lambda x: (x[:, :2] + 1).permute(1, 0, 3, 2),
        lambda x: (x * 2)[..., ::2],
    ],
)
def test_results_have_the_strides_of_eager(function: Callable[..., Any]) -> None:
    x = torch.randn(2, 4, 6, 6)
    calls = [(x,), (x.contiguous(memory_format=torch.channels_last).requires_grad_(),)]
    check(function, [*calls, (x.transpose(0, 3),)])


def test_memory_without_elements_and_with_gaps() -> None:
    check(lambda x: F.batch_norm(x, None, None, training=True), [(torch.randn(2, 3, 0, 4),)])
    rows = torch.randn(4, 6)[:, ::2]
    check(lambda x: x.as_strided((2, 2), (6, 2)) + 1, [(rows,)])

"""Subgraphs, options, and graphs that the backend `loops` leaves to eager."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._higher_order_ops import associative_scan, while_loop
from torch.nn.attention.flex_attention import flex_attention

import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
from fullgraph.compiler.lowering.runtime import Program

from . import CODEGEN

pytestmark = pytest.mark.compiles


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()


@pytest.mark.parametrize("dynamic", [False, True])
def test_branches_of_cond_are_compiled_and_train(dynamic: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def double(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x @ y.sin(), x.sum(0) * x.shape[0]

        def halve(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return (x @ y) / 2, x.prod(0)

        result: tuple[torch.Tensor, ...] = torch.cond(x.sum() > 0, double, halve, (x, y))
        return result

    programs: list[Program] = []
    options = {"codegen": CODEGEN, "on_program": programs.append}
    compiled = torch.compile(
        function, backend="loops", fullgraph=True, dynamic=dynamic, options=options
    )
    for scale in (1, -1):
        results = []
        for run in (function, compiled):
            x = (torch.linspace(0.1, 1, 16).view(4, 4) * scale).requires_grad_()
            y = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()
            outputs = run(x, y)
            (outputs[0].sum() + outputs[1].prod()).backward()
            results.append((outputs, x.grad, y.grad))
        torch.testing.assert_close(*results)
    assert all(program.code.subgraphs for program in programs[:2])


def test_a_while_loop_runs_a_compiled_body() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result: tuple[torch.Tensor, ...] = while_loop(
            lambda i, _: i < 4, lambda i, x: (i + 1, x * 2 + x.sum(0)), (torch.tensor(0), x)
        )
        return result

    x = torch.randn(3, 5)
    compiled = torch.compile(function, backend="loops", options={"codegen": CODEGEN})
    torch.testing.assert_close(compiled(x), function(x))


def test_operators_that_map_a_subgraph() -> None:
    def function(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        attention = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))
        assert isinstance(attention, torch.Tensor)
        product = associative_scan(lambda a, b: a * b, q, 2, combine_mode="generic")
        return attention, product

    q = torch.randn(1, 2, 16, 8)
    compiled = torch.compile(function, backend="loops", fullgraph=True)
    torch.testing.assert_close(compiled(q), function(q))


def test_a_mode_warns_and_an_unknown_option_is_refused() -> None:
    x = torch.ones(3)
    with pytest.warns(UserWarning, match="no modes: 'reduce-overhead' is ignored"):
        torch.compile(lambda x: x + 1, backend="loops", mode="reduce-overhead")(x)
    for options, text in (({"speed": 9}, "no option 'speed'"), ({"codegen": "rust"}, "not 'rust'")):
        torch.compiler.reset()
        with pytest.raises(Exception, match=text):
            torch.compile(lambda x: x + 2, backend="loops", options=options)(x)


def test_a_graph_with_an_unsupported_operator_falls_back() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).float() * 2

    x = torch.randn(9)
    with pytest.raises(Exception, match=r"has the dtype torch.float8_e4m3fn.*test_loops_control"):
        torch.compile(function, backend="loops")(x)
    torch.compiler.reset()
    with pytest.warns(UserWarning, match="the graph runs in eager"):
        compiled = torch.compile(function, backend="loops", options={"fallback": "aot_eager"})
        torch.testing.assert_close(compiled(x), function(x))

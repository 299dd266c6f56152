"""Operators that the backend `loops` generates, against eager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import fullgraph.compiler.lowering.backend  # noqa: F401  # registers the backend
from fullgraph.compiler.lowering.runtime import Program

from . import CODEGEN

pytestmark = pytest.mark.compiles
in_cpp = pytest.mark.skipif(CODEGEN != "cpp", reason="kernels in C++ alone have these operators")


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("FULLGRAPH_CACHE_DIR", str(folder))
    return folder


def check(function: Callable[..., object], *inputs: object) -> list[Program]:
    """Compare a function with eager; return the programs that ran."""
    torch.compiler.reset()
    programs: list[Program] = []
    expected = function(*inputs)
    options = {"on_program": programs.append, "codegen": CODEGEN}
    actual = torch.compile(function, backend="loops", options=options, fullgraph=True)(*inputs)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    return programs


def test_pointwise_operators() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        p = x.abs() + 0.5
        return [
            x + y, x - 2 * y, x * y, x / y, x**2, x**3, p**1.7, p**y, 2 - x,
            torch.exp(x), torch.expm1(x), p.log(), p.log2(), p.log1p(), p.sqrt(), p.rsqrt(),
            x.sin(), x.cos(), x.tan(), x.atan(), x.tanh(), x.sinh(), torch.erf(x), x.sigmoid(),
            x.floor(), x.ceil(), x.round(), x.trunc(), x.sign(), x.frac(), p.lgamma(),
            torch.maximum(x, y), x.clamp(-0.5, 0.5), x.clamp(min=y), torch.where(x > y, x, 1.0),
            torch.fmod(x, y), torch.remainder(x, y), torch.div(x, y, rounding_mode="floor"),
            torch.atan2(x, y), torch.copysign(x, y), torch.hypot(x, y), x.isnan(), (x / 0).isinf(),
            F.gelu(y), F.gelu(y, approximate="tanh"), F.silu(x), F.mish(x), F.elu(x),
            F.softplus(x), F.leaky_relu(x), F.hardswish(x), F.relu6(x), F.logsigmoid(x),
        ]  # fmt: skip

    x, y = torch.randn(3, 37), torch.randn(37)
    x[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    [program] = check(function, x, y)
    assert not program.externs


def test_integers_and_bools() -> None:
    def function(i: torch.Tensor, j: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            i + j, i * j, i / j, i // j, i % j, torch.fmod(i, j), -i, i.abs(), i**2, i & j, i | j,
            i ^ j, ~i, i << 2, i >> 1, i > j, b & (i > 0), ~b, b | b, b.logical_xor(i > 1), b + i,
            i.clamp(0, 5), torch.where(b, i, j), i * 1.5, i.to(torch.int8), i.float(), b.int(),
            i.sum(), b.sum(), b.any(0), b.all(1), i.amax(1), i.argmin(1), i.prod(1), i.bool(),
            torch.div(i, j, rounding_mode="trunc"), i.to(torch.uint8), i.float().mean(0),
        ]  # fmt: skip

    i = torch.randint(-9, 9, (5, 7))
    j = torch.randint(1, 4, (5, 7))
    check(function, i, j, i > 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_floats(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x * y + 1, x.softmax(-1), (x + y).sum(0), x.float() @ y.float().t(), x.amax(1)]

    check(function, torch.randn(6, 40, dtype=dtype), torch.randn(6, 40, dtype=dtype))


def test_reductions() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.transpose(0, 2)
        return [
            x.sum(), x.sum(0), x.sum((0, 2)), x.mean(1, keepdim=True), x.amax(2), x.amin((0, 1)),
            x.prod(2), x.argmax(), x.argmax(1), x.argmin(0), x.max(1).values, x.max(2).indices,
            x.var(1), x.std((0, 2)), *torch.var_mean(x, 2), x.softmax(1), x.log_softmax(2),
            x.logsumexp(0), x.norm(dim=1), y.sum(0), y.softmax(2), F.layer_norm(x, (9,)),
            F.group_norm(x, 2), (x > 1).any(1), x - x.mean(), x / x.norm(), y.var(0),
            x[:, :0].sum(1),
        ]  # fmt: skip

    check(function, torch.randn(5, 4, 9))
    with_nan = torch.randn(4, 70)
    with_nan[1, 50] = torch.nan
    check(lambda x: (x.amax(1), x.amin(0), x.argmax(1), x.sum()), with_nan)
    y = with_nan.flip(1)
    check(lambda x, y: (x.maximum(y), y.minimum(x), x.relu(), x.clamp(-1, 1)), with_nan, y)
    check(lambda x: (x.softmax(1), x.argmax(1), x.var(1), x.amax(1)), torch.randn(2, 9000))


def test_views_and_indexing() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        y = (x * 2).reshape(4, 3, 10)
        return [
            y.permute(2, 0, 1) + 1, y.flatten(1)[:, 3:20:2] * 2, y[1] + y[-1], y[..., None] * 1,
            y.unfold(2, 3, 2) + 1, y.view(12, 2, 5).transpose(0, 1).reshape(-1) * 3,
            torch.cat([y, y[:, :1], -y], 1), torch.stack([y, y + 1], -1), y.expand(2, 4, 3, 10) + 1,
            F.pad(y, (1, 2, 0, 1), value=3.0), y.flip(0, 2), y.roll(3, 2), y.repeat(2, 1, 1),
            y.diagonal(0, 1, 2) + 1, y.tril(1), y.triu(), x[index], x[:, index], x[index, index],
            F.embedding(index, x), x.gather(1, index.expand(12, -1)), x.index_select(1, index),
            torch.arange(3, 30, 4) + x[0, 0], torch.linspace(0, 1, 7), torch.eye(4) * x[0, 1],
            *y.split([1, 4, 5], 2), *y.chunk(2), y.unbind(1)[2] * 2,
            x.as_strided((3, 4), (1, 5), 2) + 1, F.interpolate(y[None], scale_factor=2),
            F.avg_pool2d(y[None], 2), F.avg_pool2d(y[None], 3, 2, 1, count_include_pad=False),
        ]  # fmt: skip

    check(function, torch.randn(12, 10), torch.tensor([0, 5, -1 % 10, 3]))


@in_cpp
def test_scans() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> list[torch.Tensor]:
        y = (x * 2).transpose(0, 2)
        return [
            x.cumsum(0), x.cumsum(1) + 1, y.cumsum(2), x.cumprod(2), x.logcumsumexp(1), i.cumsum(0),
            *x.cummax(0), *y.cummin(1), *(i > 0).cummax(1), i.cumsum(1, dtype=torch.float64),
            torch.complex(y, y).cumsum(1), x[0, 0, 0].cumsum(0), *x[:, :1].cummax(1),
            x.half().cumsum(1), i.cumprod(0),
        ]  # fmt: skip

    x, i = torch.randn(5, 4, 70), torch.randint(-3, 4, (6, 7))
    x[0, 1, 3:5], x[2, :, 9] = torch.nan, -torch.inf
    [program] = check(function, x, i)
    assert not program.externs


@in_cpp
def test_special_functions() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        s, p = torch.special, x.abs()
        return [
            x.digamma(), x.erfinv(), s.ndtri(p), s.erfcx(x), s.i0(x), s.i0e(x), s.i1(x), s.i1e(x),
            s.bessel_j0(x), s.bessel_j1(x), s.bessel_y0(p), s.bessel_y1(p), s.airy_ai(p),
            s.modified_bessel_i0(x), s.modified_bessel_i1(x), s.modified_bessel_k0(p),
            s.modified_bessel_k1(p), s.scaled_modified_bessel_k0(p), s.scaled_modified_bessel_k1(p),
            s.spherical_bessel_j0(x), *torch.frexp(x), x.polygamma(0), x.polygamma(1),
            x.polygamma(3), s.zeta(p + 1, p), torch.igamma(p, y.abs()), torch.igammac(p, y.abs()),
            torch.nextafter(x, y), torch.gcd(n, n + 3), torch.lcm(n, n - 2), torch.fmax(x, y),
            torch.fmin(x, y), torch.angle(x), s.chebyshev_polynomial_t(x, n),
            s.chebyshev_polynomial_u(x, n), s.chebyshev_polynomial_v(x, n),
            s.shifted_chebyshev_polynomial_w(x, n), s.hermite_polynomial_h(x, n),
            s.hermite_polynomial_he(x, 3), s.laguerre_polynomial_l(x, n),
            s.legendre_polynomial_p(x, n),
        ]  # fmt: skip

    x, y = torch.randn(3, 37, dtype=torch.float64), torch.randn(3, 37, dtype=torch.float64) * 9
    x[0, :9] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -1.0, 40.0, -3.0])
    y[1, :2] = torch.tensor([torch.nan, torch.inf])
    [program] = check(function, x, y, torch.arange(37) % 6)
    assert not program.externs


@in_cpp
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8, torch.float64])
def test_bits_as_another_dtype(dtype: torch.dtype) -> None:
    check(lambda x: (x * 2).view(dtype).view(torch.float32), torch.randn(3, 4))


def test_complex_numbers() -> None:
    def function(z: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        y = z * w + 2 - w / 3j.imag
        y[1:] *= 1 - 2j
        return [
            y, y.conj() * x.to(torch.complex64), y.abs(), y.angle(), y.real, y.imag.sin(), -y.t(),
            torch.cat([z, y], 1)[:, 2:7], y.sum(1), z @ w.t(), y.flip(0), torch.view_as_real(y) + 1,
            torch.complex(x, x * 2), torch.view_as_complex(torch.stack([x, -x], -1)),
            torch.fft.rfft(x.t(), dim=0).t(), torch.fft.ifft(y, dim=0), z[:, ::2],
            torch.polar(x, x),
        ]  # fmt: skip

    z, w = (torch.randn(4, 5, dtype=torch.complex64) for _ in range(2))
    check(function, z, w.conj(), torch.randn(4, 5))


def test_functions_of_complex_numbers() -> None:
    def function(z: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        y = z.clone()
        y[0] = 0
        return [
            z.exp(), z.log(), z.sqrt(), z.rsqrt(), z.reciprocal(), z / w, x / z, z / (2 + 1j),
            z.sin(), z.cos(), z.tanh(), z.sinh(), z.cosh(), z.sigmoid(), y.sgn(), z**2, z**1.5,
            z**w, z == z.conj(), z != w, z + x, x - z, z * x, torch.cat([z, x.to(z)]), y,
            torch.cat([x, z]), torch.where(x > 0, z, x), z.mean(1), z.log10(), z.log1p(),
        ]  # fmt: skip

    z, w = (torch.randn(4, 5, dtype=torch.complex64) for _ in range(2))
    check(function, z, w, torch.randn(4, 5))


def test_complex_functions_at_their_edges() -> None:
    def function(z: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [z.tanh(), z.log1p(), z.sin(), 2.0**z, y / 0j, z / y, y.exp(), y.conj_physical()]

    z = torch.tensor([1e-8, 1e-6j, 0.001 + 1.57j, 20 + 1j], dtype=torch.complex128)
    y = torch.tensor([1 + 1j, complex(torch.inf, 0), 100, -2j], dtype=torch.complex128)
    check(function, z, y)


def test_lists_of_tensors() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        pair = [a, b]
        scaled = torch._foreach_mul(pair, [2.0, 3.0])
        moved = torch._foreach_addcdiv(pair, scaled, [one.exp() for one in pair], 0.5)
        return [
            *torch._foreach_add(pair, 1), *torch._foreach_sub(pair, scaled, alpha=2), *moved,
            *torch._foreach_lerp(pair, scaled, 0.3), *torch._foreach_norm(pair),
            *torch._foreach_maximum(pair, 0.1), *torch._foreach_addcmul(pair, pair, scaled),
            *torch._foreach_sqrt(scaled), *torch._foreach_clamp_min([a.long()], 0.5),
        ]  # fmt: skip

    check(function, torch.rand(3, 4), torch.rand(5))


def test_resampling_and_renormalized_embeddings() -> None:
    def function(x: torch.Tensor, grid: torch.Tensor, image: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.grid_sample(x, grid, align_corners=False) * 2,
            F.interpolate(image, (4, 4), mode="bilinear", antialias=True) + 1,
            F.interpolate(image, 5, mode="bicubic", antialias=True) + 1,
        ]

    grid = torch.rand(1, 3, 3, 3, 3) * 2 - 1
    check(function, torch.randn(1, 2, 4, 5, 6), grid, torch.randn(1, 3, 9, 9))
    weight, rows = torch.randn(6, 3), torch.tensor([1, 4, 4])
    results = []
    for name in ("eager", "loops"):
        embedding = torch.nn.Embedding(6, 3, max_norm=0.5, _weight=weight.clone())
        torch.compiler.reset()
        results.append((torch.compile(embedding, backend=name)(rows), embedding.weight.detach()))
    torch.testing.assert_close(*results)


def test_updates_at_equal_positions_and_long_chains() -> None:
    def put(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        at = (torch.tensor([0]),)
        return x.index_put(at, v).index_put(at, v, accumulate=True)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for number in range(300):
            x = (x + number).sin() if number % 3 else x + x.mean(-1, keepdim=True)
        return x

    check(put, torch.randn(3, 2), torch.randn(1, 2))
    check(chain, torch.randn(2, 16))


@in_cpp
def test_least_common_multiple_of_small_integers() -> None:
    numbers = torch.tensor([4, -6, 0], dtype=torch.int8)
    check(torch.lcm, numbers, numbers.flip(0) + 3)


@in_cpp
@pytest.mark.parametrize(
    "function", [lambda x: x.sum(0), lambda x: x.sum(), lambda x: F.layer_norm(x.t(), (16000,))]
)
def test_sums_are_as_accurate_as_in_eager(function: Callable[..., torch.Tensor]) -> None:
    torch.compiler.reset()
    x = torch.rand(16000, 8) + 1
    exact, scale = function(x.double()), function(x.double()).abs().max()
    compiled = torch.compile(function, backend="loops")
    errors = [(one(x) - exact).abs().max() / scale for one in (function, compiled)]
    assert errors[1] <= 3 * errors[0] + 1e-7


def test_slice_assignment() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[1:3] = 0
        y[:, ::2] += x[:, 1::2]
        y[0, 0] = 7
        return y * 2

    check(function, torch.randn(4, 6))


def test_scatters() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        base, wide = x * 1, index.expand(12, -1)
        return [
            base.scatter(1, wide, 3.0), base.scatter(1, wide, x[:, 4:8] + 1),
            base.index_fill(0, index, 2), base.index_put((index,), x[:4] * 2),
            base.index_put((index, index), x[0, :4]),
            base.index_put((index[:, None], index), torch.tensor(0.5)) + 1,
            base.diagonal_scatter(x[0, :9], 1), base.masked_fill(x > 0, 0),
            base.as_strided_scatter(x[:2, :3], (2, 3), (1, 20), 5),
            (x[:1] * 1).as_strided_scatter(x[:2, :2], (2, 2), (1, 3), 2),
        ]  # fmt: skip

    check(function, torch.randn(12, 10), torch.tensor([0, 5, 9, 3]))
    logits, labels = torch.randn(6, 5, requires_grad=True), torch.tensor([1, 0, 4, 4, -100, 2])
    results = []
    for backend in ("eager", "loops"):
        torch.compiler.reset()
        logits.grad = None
        torch.compile(F.cross_entropy, backend=backend)(logits, labels).backward()
        results.append(logits.grad)
    torch.testing.assert_close(*results)


def test_index_out_of_range_raises() -> None:
    table, index = torch.randn(4, 3), torch.tensor([0, 9])
    options = {"codegen": CODEGEN}
    compiled = torch.compile(lambda t, i: t[i] * 2, backend="loops", options=options)
    with pytest.raises(IndexError, match="out of range"):
        compiled(table, index)

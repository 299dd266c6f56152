"""Decompositions of functions of complex numbers into functions of their parts."""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Number = int | float | complex
Operand = Tensor | Number


def complex_decompositions() -> Mapping[str, Callable[..., object]]:
    """Return decompositions by operator; of real numbers, they leave an operator as it is."""
    unary = {f"{name}.default": _of_complex(function) for name, function in _UNARY.items()}
    binary: dict[str, Callable[..., object]] = {
        "div.Tensor": _divide_unless_real,
        **{f"pow.{name}": _power for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")},
        **{f"eq.{name}": _equal for name in ("Tensor", "Scalar")},
        **{f"ne.{name}": lambda x, y: ~_equal(x, y) for name in ("Tensor", "Scalar")},
    }
    decompositions = unary | {name: _of_complex(one) for name, one in binary.items()}
    return decompositions | {"sgn.default": _sgn}


def _of_complex(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function with an operand that is complex; any other call is left as it is."""

    @functools.wraps(function)
    def decompose(*operands: Operand, **options: object) -> object:
        is_complex = any(isinstance(one, Tensor) and one.is_complex() for one in operands)
        return function(*operands, **options) if is_complex else NotImplemented

    return decompose


def _parts(x: Operand) -> tuple[Tensor | float, Tensor | float]:
    """Return the real and the imaginary part."""
    if isinstance(x, Tensor):
        x = x.resolve_conj() if x.is_complex() else x
        return (x.real, x.imag) if x.is_complex() else (x, 0.0)
    return complex(x).real, complex(x).imag


def _product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply; 0 times an infinity is 0, where a part of a complex number vanishes."""
    return torch.where((x == 0) | (y == 0), 0, x * y)


def _exp(x: Tensor) -> Tensor:
    size = x.real.exp()
    return torch.complex(_product(size, x.imag.cos()), _product(size, x.imag.sin()))


def _log(x: Tensor) -> Tensor:
    return torch.complex(torch.hypot(x.real, x.imag).log(), torch.atan2(x.imag, x.real))


def _sqrt(x: Tensor) -> Tensor:
    """Return the root with a real part that is not negative; no difference cancels."""
    a, b = x.real, x.imag
    larger = ((torch.hypot(a, b) + a.abs()) / 2).sqrt()
    smaller = torch.where(larger == 0, 0, b.abs() / (2 * larger))
    is_right = a >= 0
    imaginary = torch.where(is_right, smaller, larger)
    return torch.complex(torch.where(is_right, larger, smaller), torch.copysign(imaginary, b))


def _reciprocal(x: Tensor) -> Tensor:
    return _divide(1, x)


def _divide_unless_real(x: Operand, y: Operand) -> object:
    """Divide by a complex number; leave a division by a real one, which is one of both parts."""
    if isinstance(y, complex):
        assert isinstance(x, Tensor)
        y = torch.full([], y, dtype=torch.result_type(x, y), device=x.device)
    return _divide(x, y) if isinstance(y, Tensor) and y.is_complex() else NotImplemented


def _divide(x: Operand, y: Tensor) -> Tensor:
    """Divide by a number whose parts are scaled, so that no square is out of range."""
    (a, b), (c, d) = _parts(x), (y.real, y.imag)
    scale = torch.maximum(c.abs(), d.abs())
    scale = torch.where((scale == 0) | scale.isinf(), 1, scale)
    c, d = c / scale, d / scale
    square = c * c + d * d
    size = square * scale
    real, imaginary = (a * c + b * d) / size, (b * c - a * d) / size
    real, imaginary = (torch.where(square.isinf(), 0, one) for one in (real, imaginary))
    return torch.complex(
        torch.where(square == 0, a / square, real), torch.where(square == 0, b / square, imaginary)
    )


def _sin(x: Tensor) -> Tensor:
    a, b = x.real, x.imag
    return torch.complex(_product(a.sin(), b.cosh()), _product(a.cos(), b.sinh()))


def _cos(x: Tensor) -> Tensor:
    a, b = x.real, x.imag
    return torch.complex(_product(a.cos(), b.cosh()), _product(-a.sin(), b.sinh()))


def _sinh(x: Tensor) -> Tensor:
    a, b = x.real, x.imag
    return torch.complex(_product(a.sinh(), b.cos()), _product(a.cosh(), b.sin()))


def _cosh(x: Tensor) -> Tensor:
    a, b = x.real, x.imag
    return torch.complex(_product(a.cosh(), b.cos()), _product(a.sinh(), b.sin()))


def _tanh(x: Tensor) -> Tensor:
    """Return tanh by Kahan's formula, in which no difference cancels."""
    a, b = x.real, x.imag
    tangent, sine = b.tan(), a.clamp(-20, 20).sinh()
    scale, root = 1 + tangent * tangent, (1 + sine * sine).sqrt()
    size = 1 + scale * sine * sine
    return torch.complex(scale * root * sine / size, tangent / size)


def _log1p(x: Tensor) -> Tensor:
    a, b = x.real, x.imag
    return torch.complex(torch.log1p(a * (2 + a) + b * b) / 2, torch.atan2(b, 1 + a))


def _power(x: Operand, exponent: Operand) -> Tensor:
    """Return products for a small whole exponent, and exp(exponent · log x) for others."""
    if isinstance(exponent, Number) and exponent in (0, 1, 2, 3, -1, 0.5, -0.5):
        assert isinstance(x, Tensor)
        powers: dict[Number, Callable[[], Tensor]] = {
            0: lambda: torch.ones_like(x),
            1: x.clone,
            2: lambda: x * x,
            3: lambda: x * x * x,
            -1: lambda: _reciprocal(x),
            0.5: lambda: _sqrt(x),
            -0.5: lambda: _reciprocal(_sqrt(x)),
        }
        return powers[exponent]()
    if not isinstance(x, Tensor):
        assert isinstance(exponent, Tensor)
        if x == 0:
            return torch.where(exponent == 0, math.nan, 0.0).to(exponent.dtype)  # as in eager
        return _exp(exponent * cmath.log(x))
    dtype = torch.result_type(x, exponent)
    power = _exp(exponent * _log(x.to(dtype)))
    return torch.where(x == 0, torch.where(_is_zero(exponent, x), 1.0, 0.0).to(dtype), power)


def _is_zero(exponent: Operand, x: Tensor) -> Tensor:
    if isinstance(exponent, Tensor):
        return exponent == 0
    return torch.full_like(x.real, float(exponent == 0)).bool()


def _equal(x: Operand, y: Operand) -> Tensor:
    (a, b), (c, d) = _parts(x), _parts(y)
    return torch.as_tensor(a == c) & (b == d)


def _sgn(x: Tensor) -> Tensor:
    if not x.is_complex():
        return x.sign()
    size = x.abs()
    return torch.where(size == 0, 0, x / torch.where(size == 0, 1, size))


_UNARY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "exp": _exp,
    "log": _log,
    "log2": lambda x: _log(x) / math.log(2),
    "log10": lambda x: _log(x) / math.log(10),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": lambda x: _reciprocal(_sqrt(x)),
    "reciprocal": _reciprocal,
    "sin": _sin,
    "cos": _cos,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sigmoid": lambda x: _reciprocal(1 + _exp(-x)),
}

"""Functions that generated kernels call, and libdevice's, for which the interpreter has torch's.

Imported by generated kernels alone: it needs Triton.
"""

from __future__ import annotations

import triton
import triton.language as tl

from fullgraph.compiler.lowering.triton.interpreted import InterpretedLibrary, rounding_function

if triton.knobs.runtime.interpret:
    libdevice = InterpretedLibrary()
    to_bfloat16, to_float16 = (rounding_function(name) for name in ("bfloat16", "float16"))
else:
    from triton.language.extra import libdevice

    @triton.jit
    def to_bfloat16(a):
        return a.to(tl.bfloat16).to(tl.float32)

    @triton.jit
    def to_float16(a):
        return a.to(tl.float16).to(tl.float32)


@triton.jit
def maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def sign(a):
    return (a > 0).to(a.dtype) - (a < 0).to(a.dtype)


@triton.jit
def signbit(a):
    if a.dtype.is_floating():
        return libdevice.signbit(a) != 0
    return a < 0


@triton.jit
def truncdiv(a, b):
    divisor = tl.where(b == 0, 1, b)
    return tl.where(b == 0, 0, a // divisor)


@triton.jit
def floordiv(a, b):
    divisor = tl.where(b == 0, 1, b)
    rest = a % divisor
    is_above = (rest != 0) & ((rest < 0) != (divisor < 0))
    return tl.where(b == 0, 0, a // divisor - is_above.to(tl.int32))


@triton.jit
def remainder(a, b):
    divisor = tl.where(b == 0, 1, b)
    rest = a % divisor
    is_other = (rest != 0) & ((rest < 0) != (divisor < 0))
    return tl.where(b == 0, 0, tl.where(is_other, rest + divisor, rest))


@triton.jit
def integer_fmod(a, b):
    return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b))


@triton.jit
def integer_pow(base, exponent):
    one = base * 0 + 1
    result = one
    left = tl.where(exponent < 0, 0, exponent)
    factor = base + 0 * left
    for _ in tl.static_range(63):
        result = tl.where((left & 1) != 0, result * factor, result)
        factor = factor * factor
        left = left >> 1
    is_odd = (exponent & 1) != 0
    inverse = tl.where(base == 1, one, tl.where(base == -1, tl.where(is_odd, -one, one), 0))
    return tl.where(exponent < 0, inverse, result)


@triton.jit
def float_truncdiv(a, b):
    return libdevice.trunc(a / b)


@triton.jit
def float_remainder(a, b):
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


@triton.jit
def float_floordiv(a, b):
    rest = libdevice.fmod(a, b)
    quotient = (a - rest) / b
    quotient = tl.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - 1, quotient)
    whole = tl.floor(quotient)
    whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
    whole = tl.where(quotient == 0, libdevice.copysign(quotient * 0, a / b), whole)
    return tl.where(b == 0, a / b, whole)


@triton.jit
def shl(value, count):
    bits: tl.constexpr = value.dtype.primitive_bitwidth
    is_valid = (count >= 0) & (count < bits)
    return tl.where(is_valid, value << tl.where(is_valid, count, 0), 0)


@triton.jit
def shr(value, count):
    bits: tl.constexpr = value.dtype.primitive_bitwidth
    is_valid = (count >= 0) & (count < bits)
    return value >> tl.where(is_valid, count, bits - 1)


@triton.jit
def checked_position(position, size, error, is_active):
    """Return a position, a negative one counted from the end; 0 and a set flag if out of range."""
    position = tl.where(position < 0, position + size, position)
    is_bad = ((position < 0) | (position >= size)) & is_active
    tl.store(error + position * 0, tl.full([], 1, tl.int64), mask=is_bad)
    return tl.where(is_bad, 0, position)


@triton.jit
def log_add_exp(a, b):
    high, low = maximum(a, b), minimum(a, b)
    total = high + libdevice.log1p(tl.exp(low - high))
    return tl.where(high == low, high + 0.6931471805599453, total)


@triton.jit
def multiply(a, b):
    return a * b

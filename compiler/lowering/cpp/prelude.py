"""The beginning of each C++ file: types, conversions, and functions of the C library by name.

There is no `#include`: reading headers would take longer than compiling a kernel.
"""

from __future__ import annotations

import ctypes

from fullgraph.compiler.lowering.ir import FLOAT_UNARY

BINARY_FUNCTIONS = ("atan2", "hypot", "pow")
FUNCTIONS = (*sorted(FLOAT_UNARY - {"rsqrt", "sigmoid", "reciprocal"}), *BINARY_FUNCTIONS)

PRELUDE = """\
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef _Float16 float16;
struct bfloat16 { uint16_t bits; };
#define INLINE static inline __attribute__((always_inline))

INLINE float to_float(bfloat16 value) {
  uint32_t bits = (uint32_t)value.bits << 16;
  float result;
  __builtin_memcpy(&result, &bits, 4);
  return result;
}
INLINE bfloat16 to_bfloat16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return {(uint16_t)(value != value ? 0x7fc0 : rounded)};
}
template <typename To, typename From> INLINE To bits_of(From value) {
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}
// Two selections without a branch, which random elements would mispredict; NaN is kept.
template <typename T> INLINE T maximum(T a, T b) { a = b > a ? b : a; return b != b ? b : a; }
template <typename T> INLINE T minimum(T a, T b) { a = b < a ? b : a; return b != b ? b : a; }
template <typename T> INLINE T sign(T a) { return (T)((a > 0) - (a < 0)); }
INLINE int64_t floor_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? -a : a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
INLINE int64_t floor_mod(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
}
INLINE int64_t trunc_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
INLINE int64_t trunc_mod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
INLINE float trunc_mod(float a, float b) { return __builtin_fmodf(a, b); }
INLINE double trunc_mod(double a, double b) { return __builtin_fmod(a, b); }
template <typename T> INLINE T float_mod(T a, T b) {
  T rest = trunc_mod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
INLINE float floor_mod(float a, float b) { return float_mod(a, b); }
INLINE double floor_mod(double a, double b) { return float_mod(a, b); }
template <typename T> INLINE T float_floor_div(T a, T b) {
  if (b == 0) return a / b;
  T rest = trunc_mod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return __builtin_copysign((T)0, a / b);
  T whole = (T)__builtin_floor(quotient);
  return quotient - whole > (T)0.5 ? whole + 1 : whole;
}
INLINE float floor_div(float a, float b) { return float_floor_div(a, b); }
INLINE double floor_div(double a, double b) { return float_floor_div(a, b); }
INLINE float trunc_div(float a, float b) { return __builtin_truncf(a / b); }
INLINE double trunc_div(double a, double b) { return __builtin_trunc(a / b); }
INLINE int64_t integer_pow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base) if (exponent & 1) result *= base;
  return result;
}
INLINE int64_t checked_position(int64_t position, int64_t size, int64_t* error) {
  if (position < 0) position += size;
  if (position < 0 || position >= size) { *error = 1; return 0; }
  return position;
}
"""


def make_prelude() -> str:
    """Return the text, with the C library's vector functions where this one has them."""
    try:
        library: ctypes.CDLL | None = ctypes.CDLL("libmvec.so.1")
    except OSError:
        library = None
    lines = [PRELUDE, 'extern "C" {']
    for name in FUNCTIONS:
        for suffix, type_, lanes in (("f", "float", 4), ("", "double", 2)):
            arity = 2 if name in BINARY_FUNCTIONS else 1
            symbol = f"_ZGVbN{lanes}{'v' * arity}_{name}{suffix}"
            is_vector = library is not None and hasattr(library, symbol)
            simd = 'simd("notinbranch"), ' if is_vector else ""
            arguments = ", ".join([type_] * arity)
            lines.append(f"__attribute__(({simd}const)) {type_} {name}{suffix}({arguments});")
    return "\n".join([*lines, "}", ""])

"""Special functions that the C library lacks, as C++ text.

Kernels that call none are compiled without it. Except for recurrences, which are computed in the
operand's type as eager does, functions compute in double precision.
"""

from __future__ import annotations

SPECIAL_FUNCTIONS = """\
#define PI 3.14159265358979323846
#define NAN_ __builtin_nan("")
#define INF __builtin_inf()
extern "C" {
__attribute__((const)) double j0(double);
__attribute__((const)) double j1(double);
__attribute__((const)) double y0(double);
__attribute__((const)) double y1(double);
__attribute__((const)) double nextafter(double, double);
__attribute__((const)) float nextafterf(float, float);
double frexp(double, int*);
}
namespace special {
INLINE bool is_integer(double x) { return x == __builtin_floor(x); }

// Asymptotic series for x >= 10, after the recurrence; the reflection formula for x < 0.
static double digamma(double x) {
  if (x == 0) return __builtin_copysign(INF, -x);
  if (x < 0) {
    if (is_integer(x)) return NAN_;
    return digamma(1 - x) - PI / tan(PI * (x - __builtin_trunc(x)));
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  if (x == 10) return sum + 2.25175258906672110764;
  double y = 1 / (x * x);
  double tail = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240
      - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
  return sum + log(x) - 0.5 / x - tail;
}
template <typename T> T trigamma(T x) {
  T sign = 1, sum = 0;
  if (x < (T)0.5) {
    sign = -1;
    T root = (T)sin((T)PI * x);
    sum -= (T)PI * (T)PI / (root * root);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i, x += 1) sum += 1 / (x * x);
  T y = 1 / (x * x);
  sum += (1 + 1 / (2 * x) + y * ((T)1 / 6 - y * ((T)1 / 30 - y * ((T)1 / 42)))) / x;
  return sign * sum;
}
// Hurwitz's zeta function by the formula of Euler and Maclaurin.
static double zeta(double s, double q) {
  if (s == 1) return INF;
  if (s < 1 || s != s || q != q) return NAN_;
  if (q <= 0) {
    if (is_integer(q)) return INF;
    if (!is_integer(s)) return NAN_;
  }
  double sum = 0;
  for (int i = 0; i < 9 || q <= 9; ++i, q += 1) {
    double term = pow(q, -s);
    sum += term;
    if (i >= 9 && __builtin_fabs(term) < 1e-17 * __builtin_fabs(sum)) return sum;
  }
  static const double coefficients[] = {  // B(2k) / (2k)!
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160,
      -691.0 / 1307674368000, 1.0 / 74724249600, -3617.0 / 10670622842880000};
  double power = pow(q, -s);
  sum += power * q / (s - 1) + power / 2;
  double factor = s * power / q;
  for (int k = 0; k < 8; ++k) {
    sum += coefficients[k] * factor;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (q * q);
  }
  return sum;
}
template <typename T> T polygamma(T n, T x) {
  if (n == 0) return (T)digamma(x);
  if (n == 1) return trigamma(x);
  double sign = (int64_t)n % 2 ? 1 : -1;
  return (T)(sign * exp(lgamma((double)n + 1)) * zeta((double)n + 1, (double)x));
}

// The inverse of erfc by Halley's method, for 0 < y < 2.
static double erfc_inverse(double y) {
  if (y == 0) return INF;
  double tail = y < 1 ? y : 2 - y;
  double u = -log(tail * (2 - tail)), v = 2 / (PI * 0.147) - u / 2;
  double x = __builtin_sqrt(__builtin_sqrt(v * v + u / 0.147) - v);
  for (int i = 0; i < 4; ++i) {
    double error = (erfc(x) - tail) / (-2 / __builtin_sqrt(PI) * exp(-x * x));
    if (error != error) break;
    x -= error / (1 + x * error);
  }
  return y < 1 ? x : -x;
}
static double erfinv(double y) {
  double a = __builtin_fabs(y);
  if (!(a <= 1)) return NAN_;
  if (a > 0.5) return __builtin_copysign(erfc_inverse(1 - a), y);
  double x = y * __builtin_sqrt(PI) / 2 * (1 + a * a * PI / 12);
  for (int i = 0; i < 4; ++i) {
    double error = (erf(x) - y) / (2 / __builtin_sqrt(PI) * exp(-x * x));
    x -= error / (1 + x * error);
  }
  return x;
}
static double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return NAN_;
  if (p == 1) return INF;
  return p > 0.25 && p < 0.75 ? __builtin_sqrt(2.0) * erfinv(2 * p - 1)
                              : -__builtin_sqrt(2.0) * erfc_inverse(2 * p);
}
static double erfcx(double x) {
  if (x < 10) return exp(x * x) * erfc(x);
  double term = 1, sum = 1;
  for (int k = 1; k < 11; ++k) sum += term *= -(2 * k - 1) / (2 * x * x);
  return sum / (x * __builtin_sqrt(PI));
}

// exp(-|x|) I(n, x) for n = 0 and 1: a series, or for large x an asymptotic one.
static double scaled_i(int n, double x) {
  double a = __builtin_fabs(x), sum = 1, term = 1;
  if (a == INF) return 0;
  if (a <= 30) {
    for (int k = 1; term > 1e-18 * sum; ++k) sum += term *= a * a / 4 / (k * (double)(k + n));
    sum *= exp(-a) * (n ? a / 2 : 1);
  } else {
    for (int k = 1; k < 20; ++k) {
      sum += term *= ((2 * k - 1) * (2 * k - 1) - 4.0 * n * n) / (8.0 * k * a);
    }
    sum /= __builtin_sqrt(2 * PI * a);
  }
  return n && x < 0 ? -sum : sum;
}
static double i0e(double x) { return scaled_i(0, x); }
static double i1e(double x) { return scaled_i(1, x); }
static double i0(double x) { return x == 0 ? 1 : exp(__builtin_fabs(x)) * scaled_i(0, x); }
static double i1(double x) { return x == 0 ? x : exp(__builtin_fabs(x)) * scaled_i(1, x); }
// exp(x) K(n, x): the integral of exp(-x (cosh t - 1)) cosh(n t) by the trapezoidal rule.
static double scaled_k(double n, double x) {
  if (x == 0) return INF;
  if (!(x > 0)) return NAN_;
  if (x == INF) return 0;
  double step = x > 8 ? 0.7 / __builtin_sqrt(x) : 0.25, sum = 0.5;
  for (int k = 1;; ++k) {
    double t = k * step, s = sinh(t / 2), e = -2 * x * s * s;
    double term = (exp(e + n * t) + exp(e - n * t)) / 2;
    sum += term;
    if (e < -1 && term < 1e-17 * sum) return sum * step;
  }
}
static double scaled_modified_bessel_k0(double x) { return scaled_k(0, x); }
static double scaled_modified_bessel_k1(double x) { return scaled_k(1, x); }
static double modified_bessel_k0(double x) { return exp(-x) * scaled_k(0, x); }
static double modified_bessel_k1(double x) { return exp(-x) * scaled_k(1, x); }
static double spherical_bessel_j0(double x) {
  if (__builtin_fabs(x) == INF) return 0;
  double y = x * x;
  if (y < 0.25) return 1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72 * (1 - y / 110))));
  return sin(x) / x;
}
// By K(1/3, x) for x > 1, a power series, and for x < -8 an asymptotic series.
static double airy_ai(double x) {
  if (!(__builtin_fabs(x) < INF)) return NAN_;
  double z = 2.0 / 3 * __builtin_fabs(x) * __builtin_sqrt(__builtin_fabs(x));
  if (x > 1) return __builtin_sqrt(x / 3) / PI * exp(-z) * scaled_k(1.0 / 3, z);
  if (x >= -8) {
    double f = 0.355028053887817239260, g = -0.258819403792806798405 * x, sum = f + g;
    for (int k = 3; __builtin_fabs(f) + __builtin_fabs(g) > 1e-18; k += 3) {
      f *= x * x * x / (k * (k - 1.0));
      g *= x * x * x / (k * (k + 1.0));
      sum += f + g;
    }
    return sum;
  }
  double even = 1, odd = 0, term = 1;
  for (int k = 1; k < 20; ++k) {
    term *= (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216.0 * k * (2 * k - 1)) / z;
    (k % 2 ? odd : even) += k / 2 % 2 ? -term : term;
  }
  double angle = z - PI / 4, size = __builtin_sqrt(__builtin_sqrt(-x)) * __builtin_sqrt(PI);
  return (cos(angle) * even + sin(angle) * odd) / size;
}

// The regularized incomplete gamma functions: a series, or a continued fraction.
static double gamma_part(double a, double x, bool is_upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) return NAN_;
  double lower;
  if (a == 0 || (x == INF && a != INF)) lower = 1;
  else if (x == 0) lower = 0;
  else if (a == INF) lower = x == INF ? NAN_ : 0;
  else {
    double factor = exp(a * log(x) - x - lgamma(a)), tiny = 1e-300;
    if (x < a + 1) {
      double sum = 1 / a, term = sum;
      for (int k = 1; k < 10000 && term > 1e-17 * sum; ++k) sum += term *= x / (a + k);
      lower = sum * factor;
    } else {
      double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
      for (int k = 1; k < 10000; ++k) {
        double n = -k * (k - a);
        b += 2;
        d = 1 / (__builtin_fabs(n * d + b) < tiny ? tiny : n * d + b);
        c = __builtin_fabs(b + n / c) < tiny ? tiny : b + n / c;
        h *= d * c;
        if (__builtin_fabs(d * c - 1) < 1e-16) break;
      }
      return is_upper ? factor * h : 1 - factor * h;
    }
  }
  return is_upper ? 1 - lower : lower;
}
static double igamma(double a, double x) { return gamma_part(a, x, false); }
static double igammac(double a, double x) { return gamma_part(a, x, true); }

// Orthogonal polynomials by their recurrences: `next(k, p(k), p(k - 1))` is p(k + 1).
template <typename T, typename F> INLINE T recurrence(T degree, T first, F next) {
  int64_t n = (int64_t)degree;
  if (n < 0) return 0;
  T before = 1, p = first;
  for (int64_t k = 1; k < n && p == p; ++k) {
    T after = next(k, p, before);
    before = p;
    p = after;
  }
  return n == 0 ? 1 : p;
}
template <typename T> INLINE T chebyshev(T x, T n, T first) {
  return recurrence(n, first, [=](int64_t, T p, T before) { return (x + x) * p - before; });
}
template <typename T> T chebyshev_polynomial_t(T x, T n) { return chebyshev(x, n, x); }
template <typename T> T chebyshev_polynomial_u(T x, T n) { return chebyshev(x, n, x + x); }
template <typename T> T chebyshev_polynomial_v(T x, T n) { return chebyshev(x, n, x + x - 1); }
template <typename T> T chebyshev_polynomial_w(T x, T n) { return chebyshev(x, n, x + x + 1); }
template <typename T> INLINE T hermite(T x, T n, T scale) {
  if ((int64_t)n > (sizeof(T) == 4 ? 128 : 512)) return (T)NAN_;
  return recurrence(n, scale * x, [=](int64_t k, T p, T before) {
    return scale * (x * p - k * before);
  });
}
template <typename T> T hermite_polynomial_h(T x, T n) { return hermite(x, n, (T)2); }
template <typename T> T hermite_polynomial_he(T x, T n) { return hermite(x, n, (T)1); }
template <typename T> T laguerre_polynomial_l(T x, T n) {
  return recurrence(n, 1 - x, [=](int64_t k, T p, T before) {
    return (((k + k) + (T)1 - x) * p - k * before) / (k + 1);
  });
}
template <typename T> T legendre_polynomial_p(T x, T n) {
  return recurrence(n, x, [=](int64_t k, T p, T before) {
    return ((k + k + 1) * x * p - k * before) / (k + 1);
  });
}

INLINE int64_t gcd(int64_t a, int64_t b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (a) {
    int64_t rest = b % a;
    b = a;
    a = rest;
  }
  return b;
}
INLINE double nextafter(double a, double b) { return ::nextafter(a, b); }
INLINE float nextafter(float a, float b) { return nextafterf(a, b); }
INLINE double finite(double x) { return x - x == 0 ? x : NAN_; }
INLINE double bessel_j0(double x) { return ::j0(finite(x)); }
INLINE double bessel_j1(double x) { return ::j1(finite(x)); }
INLINE double bessel_y0(double x) { return ::y0(finite(x)); }
INLINE double bessel_y1(double x) { return ::y1(finite(x)); }
template <typename T> INLINE T log_add_exp(T a, T b) {
  T low = minimum(a, b), high = maximum(a, b);
  bool is_finite = low - low == 0;
  return low != high || is_finite ? (T)(log1p((double)exp((double)(low - high))) + high) : a;
}
INLINE double mantissa(double a) { int e; return frexp(a, &e); }
INLINE int32_t exponent(double a) { int e = 0; frexp(a, &e); return e; }
}  // namespace special
#undef PI
#undef NAN_
#undef INF
"""

//! Where do the normal, Student's t, beta, F and the hypergeometric distribution put their
//! probability?
//!
//! Used by every interval of [`crate::compare`]. Written here because the intervals are the product
//! and six functions are less to trust than a numerics library; the tests compare with published
//! tables and with values computed to 30 digits.
//!
//! Invariant: absolute error below 1e-10 for probabilities; quantiles give back their probability
//! to 1e-10. No function panics: an argument outside the domain gives NaN.

use std::f64::consts::{PI, SQRT_2};

/// Iterations after which a series or continued fraction is taken as it is; all converge far
/// earlier for the arguments that occur (degrees of freedom below a million).
const ITERATIONS_MAX: usize = 10_000;

/// `P(Z <= z)` for a standard normal `Z`.
pub fn normal_cdf(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    let tail = 0.5 * erfc(z.abs() / SQRT_2);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The `z` with `normal_cdf(z) = p`; infinite at 0 and 1.
///
/// Acklam's rational approximation (relative error 1e-9) and two Newton-Halley steps.
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p == 0.0 || p == 1.0 {
        return if p == 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    if p > 0.5 {
        return -normal_quantile_lower(1.0 - p);
    }
    normal_quantile_lower(p)
}

/// `P(T <= t)` for Student's t with `df` > 0 degrees of freedom (a fraction is allowed).
pub fn t_cdf(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df.is_infinite() {
        return normal_cdf(t);
    }
    let tail = t_upper_tail(t.abs(), df);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Two-sided p-value: `P(|T| >= |t|)`.
pub fn t_two_sided_p(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df.is_infinite() {
        return erfc(t.abs() / SQRT_2);
    }
    2.0 * t_upper_tail(t.abs(), df)
}

/// The `t` with `t_cdf(t, df) = p`; infinite at 0 and 1.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if p == 0.5 {
        return 0.0;
    }
    if p == 0.0 || p == 1.0 || df.is_infinite() {
        return normal_quantile(p);
    }
    let tail = p.min(1.0 - p);
    let size = t_upper_quantile(tail, df);
    if p < 0.5 { -size } else { size }
}

/// One-sided Fisher exact test: the probability of `hits` or more marked items in a draw of `drawn`
/// from `total` items of which `marked` are marked, when the draw is blind to the mark.
pub fn hypergeometric_upper_tail(hits: u64, drawn: u64, marked: u64, total: u64) -> f64 {
    if drawn > total || marked > total {
        return f64::NAN;
    }
    let ways = |n: u64, k: u64| {
        ln_gamma(n as f64 + 1.0) - ln_gamma(k as f64 + 1.0) - ln_gamma((n - k) as f64 + 1.0)
    };
    let fewest = (drawn + marked).saturating_sub(total);
    let most = drawn.min(marked);
    let all = ways(total, drawn);
    (hits.max(fewest)..=most)
        .map(|k| (ways(marked, k) + ways(total - marked, drawn - k) - all).exp())
        .sum::<f64>()
        .min(1.0)
}

/// The `x` with `P(X <= x) = p` for a beta distribution with shapes `a`, `b` > 0.
///
/// By bisection: its one use is the interval of a share, where robustness counts and time does not.
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let sound = (0.0..=1.0).contains(&p) && a > 0.0 && b > 0.0;
    if !sound || !a.is_finite() || !b.is_finite() {
        return f64::NAN;
    }
    let (mut low, mut high) = (0.0, 1.0);
    // 200 halvings reach the smallest numbers there are.
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if beta_regularized(middle, 1.0 - middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// `P(F > f)` for an F distribution with `df1`, `df2` > 0 degrees of freedom (fractions allowed).
pub fn f_upper_tail(f: f64, df1: f64, df2: f64) -> f64 {
    if f.is_nan() || !(df1 > 0.0 && df2 > 0.0) || df1.is_infinite() || df2.is_infinite() {
        return f64::NAN;
    }
    if f <= 0.0 {
        return 1.0;
    }
    let whole = df2 + df1 * f;
    beta_regularized(df2 / whole, df1 * f / whole, 0.5 * df2, 0.5 * df1)
}

/// `P(T > t)` for `t >= 0`.
fn t_upper_tail(t: f64, df: f64) -> f64 {
    let square = t * t;
    0.5 * beta_regularized(df / (df + square), square / (df + square), 0.5 * df, 0.5)
}

/// The `t > 0` with `P(T > t) = tail`, `tail` in (0, 0.5): Newton inside a bracket.
fn t_upper_quantile(tail: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_upper_tail(high, df) > tail {
        low = high;
        high *= 2.0;
        if high > 1e300 {
            return f64::INFINITY;
        }
    }
    let ln_scale = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln();
    let mut t = 0.5 * (low + high);
    for _ in 0..200 {
        let excess = t_upper_tail(t, df) - tail;
        if excess > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let density = (ln_scale - 0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        let newton = t + excess / density;
        let next = if newton > low && newton < high {
            newton
        } else {
            0.5 * (low + high)
        };
        if (next - t).abs() <= 1e-15 * t {
            return next;
        }
        t = next;
    }
    t
}

/// Acklam's approximation for `p <= 0.5`, refined to full precision.
fn normal_quantile_lower(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383_577_518_672_69e2,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] = [
        7.784695709041462e-03,
        3.224671290700398e-01,
        2.445134137142996e+00,
        3.754408661907416e+00,
        1.0,
    ];
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let mut z = if p < 0.02425 {
        let q = (-2.0 * p.ln()).sqrt();
        horner(&C, q) / horner(&D, q)
    } else {
        let q = p - 0.5;
        q * horner(&A, q * q) / horner(&B, q * q)
    };
    for _ in 0..2 {
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        if density == 0.0 {
            break;
        }
        let step = (0.5 * erfc(-z / SQRT_2) - p) / density;
        z -= step / (1.0 + 0.5 * z * step);
    }
    z
}

/// Complementary error function for any `x`.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let square = x * x;
    if x < 2.0 {
        // erf by its series with only positive terms: no cancellation.
        let mut term = x;
        let mut sum = x;
        let mut n = 0.0;
        while term > 1e-17 * sum {
            n += 1.0;
            term *= 2.0 * square / (2.0 * n + 1.0);
            sum += term;
        }
        return 1.0 - 2.0 / PI.sqrt() * (-square).exp() * sum;
    }
    // Lentz's continued fraction of the upper incomplete gamma function at 1/2.
    let mut b = square + 0.5;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..ITERATIONS_MAX {
        let a = -(i as f64) * (i as f64 - 0.5);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        let factor = c * d;
        h *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (-square).exp() * x * h / PI.sqrt()
}

/// Logarithm of the gamma function for `x > 0`: recurrence up to 15, then Stirling's series.
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 15.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse
        * (1.0 / 12.0
            - square
                * (1.0 / 360.0
                    - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0))));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - shift
}

/// Regularised incomplete beta function `I_x(a, b)` by its continued fraction.
///
/// `rest` is `1 - x`, which the caller knows without the cancellation of taking it here.
fn beta_regularized(x: f64, rest: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || rest <= 0.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let ln_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * rest.ln();
    if x < (a + 1.0) / (a + b + 2.0) {
        ln_front.exp() * beta_fraction(x, a, b) / a
    } else {
        1.0 - ln_front.exp() * beta_fraction(rest, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let guarded = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guarded(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for i in 1..ITERATIONS_MAX {
        let m = i as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guarded(1.0 + even * d);
        c = guarded(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guarded(1.0 + odd * d);
        c = guarded(1.0 + odd / c);
        let factor = d * c;
        h *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

#[cfg(test)]
mod tests;

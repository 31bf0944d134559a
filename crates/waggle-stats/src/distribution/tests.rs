//! Reference values computed to 30 digits with an arbitrary-precision library; the table values
//! (12.706, 4.303, 1.984, 1.960) are those of every printed table.

use super::*;

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-10,
        "found {found}, expected {expected}"
    );
}

#[test]
fn normal_cdf_agrees_to_ten_digits() {
    for (z, expected) in [
        (-8.0, 6.2209605742718e-16),
        (-5.0, 2.8665157187919e-7),
        (-2.5, 0.0062096653257761),
        (-1.9599639845401, 0.025),
        (-0.3, 0.38208857781105),
        (0.0, 0.5),
        (0.7, 0.75803634777693),
        (1.2815515655446, 0.9),
        (2.9, 0.99813418669962),
        (3.1, 0.99903239678678),
        (6.0, 0.99999999901341),
    ] {
        assert_close(normal_cdf(z), expected);
    }
    assert!((normal_cdf(-8.0) / 6.2209605742718e-16 - 1.0).abs() < 1e-10);
}

#[test]
fn normal_quantile_agrees_to_ten_digits() {
    for (p, expected) in [
        (1e-12, -7.0344838253011),
        (1e-6, -4.7534243088229),
        (0.001, -3.0902323061678),
        (0.02, -2.0537489106318),
        (0.025, -1.9599639845401),
        (0.2, -0.84162123357291),
        (0.5, 0.0),
        (0.8, 0.84162123357291),
        (0.975, 1.9599639845401),
        (0.9999, 3.7190164854557),
    ] {
        assert_close(normal_quantile(p), expected);
    }
}

#[test]
fn t_cdf_agrees_to_ten_digits() {
    for (t, df, expected) in [
        (1.0, 1.0, 0.75),
        (-2.5, 2.0, 0.064805860110755),
        (0.1, 3.7, 0.5372373662649),
        (2.228, 10.0, 0.97499411409144),
        (-4.0621, 9.0, 0.0014165039201951),
        (1.9719, 194.0, 0.97497885638687),
        (3.3333333, 99.0, 0.999395997847),
        (-1.3, 1000.0, 0.096950264207729),
        (0.5, 0.5, 0.62134096353528),
        (12.0, 4.0, 0.99986178572575),
        (-30.0, 7.0, 5.8942344403666e-9),
        (2.0, 250000.0, 0.97724932814113),
    ] {
        assert_close(t_cdf(t, df), expected);
    }
}

#[test]
fn t_quantile_agrees_to_ten_digits() {
    for (p, df, expected) in [
        (0.975, 1.0, 12.706204736175),
        (0.975, 2.0, 4.3026527297495),
        (0.995, 5.0, 4.0321429835552),
        (0.95, 7.3, 1.8829300179564),
        (0.8, 30.0, 0.8537672614713),
        (0.0001, 12.0, -5.263273007826),
        (0.975, 100.0, 1.9839715185236),
        (0.6, 3.0, 0.27667066233269),
        (0.975, 100000.0, 1.9599877075346),
    ] {
        assert_close(t_quantile(p, df), expected);
    }
}

#[test]
fn quantiles_give_back_their_probability() {
    for df in [0.7, 1.0, 2.5, 9.0, 40.0, 3_000.0] {
        for p in [1e-7, 0.004, 0.2, 0.49999, 0.5, 0.75, 0.975, 0.999_999] {
            assert_close(t_cdf(t_quantile(p, df), df), p);
            assert_close(normal_cdf(normal_quantile(p)), p);
        }
    }
}

#[test]
fn the_ends_and_the_outside_of_the_domain_are_named() {
    assert_eq!(t_quantile(1.0, 5.0), f64::INFINITY);
    assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    assert!(t_quantile(1.5, 5.0).is_nan());
    assert!(t_quantile(0.9, 0.0).is_nan());
    assert!(t_cdf(f64::NAN, 5.0).is_nan());
    assert!(normal_quantile(f64::NAN).is_nan());
    assert_close(t_cdf(1.3, f64::INFINITY), normal_cdf(1.3));
}

/// Fisher's lady tasting tea: 8 cups, 4 with milk first; all four found has probability 1/70, at
/// least three 17/70.
#[test]
fn hypergeometric_tail_tastes_tea() {
    assert_close(hypergeometric_upper_tail(4, 4, 4, 8), 1.0 / 70.0);
    assert_close(hypergeometric_upper_tail(3, 4, 4, 8), 17.0 / 70.0);
    assert_close(hypergeometric_upper_tail(0, 4, 4, 8), 1.0);
    assert!(hypergeometric_upper_tail(0, 9, 4, 8).is_nan());
}

/// A beta distribution with one shape of 1 is a power, and with both of 1/2 the arc sine law; the
/// quantiles of F are those of every printed table.
#[test]
fn beta_and_f_agree_where_they_have_a_closed_form_and_a_table() {
    for p in [0.001_f64, 0.025, 0.5, 0.975, 0.999] {
        assert_close(beta_quantile(p, 3.0, 1.0), p.powf(1.0 / 3.0));
        assert_close(beta_quantile(p, 1.0, 4.0), 1.0 - (1.0 - p).powf(0.25));
        assert_close(beta_quantile(p, 0.5, 0.5), (0.5 * PI * p).sin().powi(2));
    }
    assert!(beta_quantile(0.5, 0.0, 1.0).is_nan() && beta_quantile(1.5, 1.0, 1.0).is_nan());
    // Two degrees of freedom above: P(F > f) = (1 + 2 f / n)^(-n / 2).
    for (f, n) in [(0.5, 3.0), (3.0, 10.0), (7.0, 40.0)] {
        assert_close(f_upper_tail(f, 2.0, n), (1.0 + 2.0 * f / n).powf(-0.5 * n));
    }
    for (f, df1, df2) in [
        (4.9646, 1.0, 10.0),
        (2.5336, 5.0, 30.0),
        (3.1059, 5.0, 12.0),
    ] {
        let tail = f_upper_tail(f, df1, df2);
        assert!(
            (tail - 0.05).abs() < 5e-6,
            "F({df1}, {df2}) beyond {f}: {tail}"
        );
    }
    assert_close(f_upper_tail(0.0, 3.0, 5.0), 1.0);
    assert!(f_upper_tail(1.0, 0.0, 5.0).is_nan());
}

use super::*;
use crate::random::Random;
use crate::simulation::normal;
use crate::tally::Tally;

fn point(x: f64, value: f64, standard_error: f64) -> DosePoint {
    let cost = Estimate {
        value,
        standard_error,
        df: 39.0,
        n: 40,
    };
    DosePoint { x, cost }
}

/// NIST StRD, linear regression, Norris: y and x.
const NORRIS: [(f64, f64); 36] = [
    (0.1, 0.2),
    (338.8, 337.4),
    (118.1, 118.2),
    (888.0, 884.6),
    (9.2, 10.1),
    (228.1, 226.5),
    (668.5, 666.3),
    (998.5, 996.3),
    (449.1, 448.6),
    (778.9, 777.0),
    (559.2, 558.2),
    (0.3, 0.4),
    (0.1, 0.6),
    (778.1, 775.5),
    (668.8, 666.9),
    (339.3, 338.0),
    (448.9, 447.5),
    (10.8, 11.6),
    (557.7, 556.0),
    (228.3, 228.1),
    (998.0, 995.8),
    (888.8, 887.6),
    (119.6, 120.2),
    (0.3, 0.3),
    (0.6, 0.3),
    (557.6, 556.8),
    (339.3, 339.1),
    (888.0, 887.2),
    (998.5, 999.0),
    (778.9, 779.0),
    (10.2, 11.1),
    (117.6, 118.3),
    (228.9, 229.2),
    (668.4, 669.1),
    (449.2, 448.9),
    (0.2, 0.5),
];

/// The certified values: slope 1.00211681802045 with standard deviation 0.429796848199937E-03,
/// intercept -0.262323073774029, residual standard deviation 0.884796396144373. With equal errors
/// that are far too small all of the error is told from the scatter, as there.
#[test]
fn the_line_is_the_certified_one() {
    let points: Vec<DosePoint> = NORRIS.iter().map(|(y, x)| point(*x, *y, 0.01)).collect();
    let line = dose_line(&points).unwrap();
    assert!((line.slope.estimate - 1.00211681802045).abs() < 1e-12);
    assert!((line.slope_estimate.standard_error - 0.429796848199937e-3).abs() < 1e-13);
    assert!((line.at_zero.estimate + 0.262323073774029).abs() < 1e-9);
    assert_eq!(line.slope_estimate.df, 34.0);
    assert!(line.misfit && line.p_line < 1e-9);
    let points: Vec<DosePoint> = NORRIS
        .iter()
        .map(|(y, x)| point(*x, *y, 0.884796396144373))
        .collect();
    let line = dose_line(&points).unwrap();
    assert!((line.slope_estimate.standard_error - 0.429796848199937e-3).abs() < 1e-13);
    assert!(
        !line.misfit && (0.4..0.6).contains(&line.p_line),
        "{line:?}"
    );
}

/// Pearson's data with York's weights for y (D. York, Canadian Journal of Physics 44, 1966, 1079),
/// whose weighted line with errors in y alone has slope -0.611 and intercept 6.100.
#[test]
fn weights_are_the_inverse_of_variances() {
    let york = [
        (0.0, 5.9, 1.0),
        (0.9, 5.4, 1.8),
        (1.8, 4.4, 4.0),
        (2.6, 4.6, 8.0),
        (3.3, 3.5, 20.0),
        (4.4, 3.7, 20.0),
        (5.2, 2.8, 70.0),
        (6.1, 2.8, 70.0),
        (6.5, 2.4, 100.0),
        (7.4, 1.5, 500.0),
    ];
    let points: Vec<DosePoint> = york
        .iter()
        .map(|(x, y, weight)| point(*x, *y, 1.0 / f64::sqrt(*weight)))
        .collect();
    let line = dose_line(&points).unwrap();
    assert!((line.slope.estimate + 0.611).abs() < 5e-4, "{line:?}");
    assert!((line.at_zero.estimate - 6.100).abs() < 5e-4, "{line:?}");
}

/// A study of seven thread counts, each with 40 windows for its cost.
fn study(slope: f64, bend: f64, random: &mut Random) -> Vec<DosePoint> {
    (0..7)
        .map(|doubling| {
            let x = f64::from(doubling);
            // Intervals differ: busy cells are noisier.
            let noise = 0.1 * (1.0 + 0.3 * x);
            let values: Vec<f64> = (0..40)
                .map(|_| 1.4 + slope * x + bend * x * x + noise * normal(random))
                .collect();
            let cost = crate::compare::primary_estimate(&values, 1.0).unwrap().0;
            DosePoint { x, cost }
        })
        .collect()
}

#[test]
fn slopes_are_covered_and_flat_curves_are_flat() {
    for slope in [0.0, 0.05] {
        let mut random = Random::new(7);
        let (mut covered, mut zero, mut misfits) = <(Tally, Tally, Tally)>::default();
        for _ in 0..2_000 {
            let line = dose_line(&study(slope, 0.0, &mut random)).unwrap();
            covered.add(line.slope.contains(slope));
            zero.add(line.at_zero.contains(1.4));
            misfits.add(line.misfit);
        }
        println!("slope {slope}: {covered}; at zero {zero}; misfits {misfits}");
        assert!(covered.is_within(0.94, 0.985) && zero.is_within(0.94, 0.985));
        assert!(misfits.is_within(0.02, 0.08));
    }
}

#[test]
fn a_curve_is_no_line() {
    let mut random = Random::new(8);
    let misfits: Tally = (0..200)
        .map(|_| dose_line(&study(0.0, 0.03, &mut random)).unwrap().misfit)
        .collect();
    assert!(misfits.is_within(0.95, 1.0), "{misfits}");
    let bent = dose_line(&study(0.0, 0.03, &mut random)).unwrap();
    assert!(
        bent.slope_estimate.df <= 5.0,
        "the scatter of 7 points has 5: {bent:?}"
    );
}

#[test]
fn too_little_is_refused() {
    let same = [
        point(1.0, 1.0, 0.1),
        point(1.0, 1.1, 0.1),
        point(2.0, 1.2, 0.1),
    ];
    let error = dose_line(&same).unwrap_err().to_string();
    assert!(
        error.contains("different doses") && error.contains("2 can be used"),
        "{error}"
    );
    assert!(dose_line(&[]).is_err());
    let wild = [
        point(1.0, f64::NAN, 0.1),
        point(2.0, 1.0, 0.1),
        point(3.0, 1.0, 0.1),
    ];
    assert!(matches!(
        dose_line(&wild),
        Err(CompareError::NotFinite { .. })
    ));
    let exact = [
        point(1.0, 2.0, 0.0),
        point(2.0, 4.0, 0.0),
        point(4.0, 8.0, 0.0),
    ];
    let line = dose_line(&exact).unwrap();
    assert!((line.slope.estimate - 2.0).abs() < 1e-12 && line.slope.half_width() < 1e-9);
    assert!(!line.misfit, "{line:?}");
}

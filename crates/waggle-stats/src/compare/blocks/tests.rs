use super::*;

#[test]
fn two_levels_are_told_apart() {
    // Block means 1, 3, 5; within each block a spread of 2 about its mean.
    let blocks = [vec![0.0, 2.0], vec![2.0, 4.0], vec![4.0, 6.0]];
    let found = two_level(&blocks).unwrap();
    assert!((found.estimate.value - 3.0).abs() < 1e-12);
    assert_eq!(found.estimate.df, 2.0);
    assert!((found.estimate.standard_error - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    assert!((found.within_sd - 2.0_f64.sqrt()).abs() < 1e-12);
    // Variance of the means 4, of which 2 / 2 is explained by the windows.
    assert!((found.between_sd - 3.0_f64.sqrt()).abs() < 1e-12);
}

#[test]
fn a_block_without_values_does_not_count() {
    assert!(two_level(&[vec![1.0, 2.0], vec![]]).is_err());
    assert!(two_level(&[vec![1.0], vec![f64::NAN]]).is_err());
}

#[test]
fn equal_ratios_have_no_width_and_wild_ones_no_bound() {
    let exact = ratio_of_means(&[(10.0, 11.0), (12.0, 13.2), (9.0, 9.9)], 0.95).unwrap();
    assert!((exact.estimate - 1.1).abs() < 1e-12);
    assert!(exact.half_width() < 1e-6, "{exact:?}");
    let totals = ratio_of_means(&[(1.0, 2.0), (9.0, 9.0)], 0.95).unwrap_err();
    assert!(
        matches!(totals, CompareError::TooFew { .. }),
        "two wild pairs bound no ratio"
    );
}

/// For a precise base Fieller's interval is that of the delta method.
#[test]
fn fieller_meets_the_delta_method() {
    let mut random = crate::random::Random::new(5);
    let pairs: Vec<(f64, f64)> = (0..40)
        .map(|_| {
            let base = 17.5 + 0.2 * crate::simulation::normal(&mut random);
            (
                base,
                1.08 * base + 0.2 * crate::simulation::normal(&mut random),
            )
        })
        .collect();
    let fieller = ratio_of_means(&pairs, 0.95).unwrap();
    let base = pairs.iter().map(|pair| pair.0).sum::<f64>() / 40.0;
    let rest: Vec<f64> = pairs
        .iter()
        .map(|(b, a)| a - fieller.estimate * b)
        .collect();
    let delta = crate::compare::sample::mean(&rest)
        .unwrap()
        .interval(0.95)
        .half_width()
        / base;
    assert!((fieller.half_width() / delta - 1.0).abs() < 0.01);
    assert!(fieller.contains(1.08), "{fieller:?}");
}

/// Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 25: the hormone patches,
/// eight subjects, ratio -0.0713; Fieller's central 90% interval is [-0.249, 0.170].
#[test]
fn fieller_gives_the_published_interval() {
    let old_less_placebo = [8406., 2342., 8187., 8459., 4795., 3516., 4796., 10238.];
    let new_less_old = [-1200., 2601., -2705., 1982., -1290., 351., -638., -2719.];
    let pairs: Vec<(f64, f64)> = old_less_placebo.into_iter().zip(new_less_old).collect();
    let found = ratio_of_means(&pairs, 0.90).unwrap();
    assert!((found.estimate + 0.0713).abs() < 5e-5, "{found:?}");
    assert!((found.low + 0.249).abs() < 5e-4, "{found:?}");
    assert!((found.high - 0.170).abs() < 5e-4, "{found:?}");
}

use super::*;
use crate::compare::primary_estimate;
use crate::random::Random;
use crate::simulation::normal;
use crate::tally::Tally;

/// Noise of one difference.
const WINDOW: f64 = 0.05;

/// Estimates of `k` lives whose own effects have the standard deviation `between`.
fn lives(k: usize, windows: &[usize], between: f64, random: &mut Random) -> Vec<Estimate> {
    let life = |life: usize| {
        let own = between * normal(random);
        let values: Vec<f64> = (0..windows[life % windows.len()])
            .map(|_| own + WINDOW * normal(random))
            .collect();
        primary_estimate(&values, 1.0).unwrap().0
    };
    (0..k).map(life).collect()
}

/// What Satterthwaite's rule gives when it is applied to the two components as if each had been
/// estimated by itself.
fn from_components(lives: &[Estimate]) -> Estimate {
    let nested = nested_estimate(lives).unwrap();
    let k = lives.len() as f64;
    let (between, within) = (nested.between_sd.powi(2), nested.within_se.powi(2));
    let squares: f64 = lives
        .iter()
        .map(|life| life.standard_error.powi(4) / life.df)
        .sum();
    let within_df = (k * within).powi(2) / squares;
    let total = between + within;
    let spent = between.powi(2) / (k - 1.0) + within.powi(2) / within_df;
    Estimate {
        standard_error: (total / k).sqrt(),
        df: total.powi(2) / spent,
        ..nested.estimate
    }
}

#[test]
fn both_levels_are_covered_whatever_their_shares() {
    let mut worst_components: f64 = 1.0;
    for k in [3, 5, 8] {
        for windows in [&[10][..], &[30], &[4, 30, 12]] {
            for between in [0.0, 0.01, 0.03] {
                let mut random = Random::new(k as u64 * 1_000 + (between * 1e4) as u64);
                let (mut chosen, mut components) = (Tally::default(), Tally::default());
                let mut width = 0.0;
                for _ in 0..1_500 {
                    let lives = lives(k, windows, between, &mut random);
                    let interval = nested_estimate(&lives).unwrap().estimate.interval(0.95);
                    chosen.add(interval.contains(0.0));
                    width += interval.half_width() / 1_500.0;
                    components.add(from_components(&lives).interval(0.95).contains(0.0));
                }
                println!(
                    "{k} lives of {windows:?} windows, between {between}: {chosen}, \
                     ±{:.2}%; components {components}",
                    100.0 * width
                );
                assert!(chosen.is_within(0.93, 0.999), "{k} {windows:?} {between}");
                worst_components = worst_components.min(components.share().unwrap());
            }
        }
    }
    assert!(
        worst_components < 0.92,
        "the rival is good enough: {worst_components}"
    );
}

/// Kalibera and Jones, Rigorous Benchmarking in Reasonable Time (ISMM 2013), the two-level worked
/// example: means 6.25, 8.5 and 4.75; S1^2 = 12.7, S2^2 = 3.6, T2^2 = 0.4.
#[test]
fn levels_are_the_published_ones() {
    let executions = [[9., 5., 8., 3.], [10., 6., 7., 11.], [1., 12., 2., 4.]];
    let lives: Vec<Estimate> = executions
        .iter()
        .map(|times| crate::compare::sample::mean(times).unwrap())
        .collect();
    let found = nested_estimate(&lives).unwrap();
    assert_eq!(found.estimate.value, 6.5);
    assert_eq!(found.estimate.df, 2.0);
    let rounded = |value: f64| (10.0 * value).round() / 10.0;
    assert_eq!(rounded(4.0 * found.within_se.powi(2)), 12.7);
    assert_eq!(rounded(3.0 * found.estimate.standard_error.powi(2)), 3.6);
    assert_eq!(rounded(found.between_sd.powi(2)), 0.4);
    let blocks: Vec<Vec<f64>> = executions.iter().map(|times| times.to_vec()).collect();
    let blocks = crate::compare::two_level(&blocks).unwrap();
    assert_eq!(rounded(blocks.within_sd.powi(2)), 12.7);
    assert_eq!(rounded(blocks.between_sd.powi(2)), 0.4);
}

/// Four lives that happen to agree to a percent, each of five windows that vary by a quarter.
#[test]
fn lives_that_agree_by_chance_are_no_surer_than_their_windows() {
    let life = |value: f64| Estimate {
        value,
        standard_error: 0.137,
        df: 4.0,
        n: 5,
    };
    let found = nested_estimate(&[0.16, 0.17, 0.18, 0.165].map(life)).unwrap();
    let interval = found.estimate.interval(0.95);
    assert!((found.estimate.df - 16.0).abs() < 1e-9, "{found:?}");
    assert!(
        (interval.half_width() - 0.1452).abs() < 1e-4,
        "{interval:?}"
    );
    let apart = nested_estimate(&[0.1, 0.5, -0.2, 0.3].map(life)).unwrap();
    assert_eq!(apart.estimate.df, 3.0);
}

#[test]
fn more_windows_do_not_help_below_the_floor() {
    let mut random = Random::new(3);
    let found = nested_estimate(&lives(40, &[400], 0.03, &mut random)).unwrap();
    assert!(
        found.floor() > 0.9 * found.estimate.standard_error,
        "{found:?}"
    );
    let still = nested_estimate(&lives(40, &[20], 0.0, &mut random)).unwrap();
    assert!(
        still.floor() < 0.5 * still.estimate.standard_error,
        "{still:?}"
    );
}

/// Welch's example is a sum with weights 1 and -1: the sleep data, as R documents it.
#[test]
fn a_sum_has_the_degrees_of_freedom_of_welch() {
    let drugs = [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ];
    let [one, two] = drugs.map(|drug| crate::compare::sample::mean(&drug).unwrap());
    let sum = combined(&[(1.0, one), (-1.0, two)]).unwrap();
    assert!((sum.df - 17.776).abs() < 5e-4, "{sum:?}");
    assert!((sum.p_value(0.0) - 0.07939).abs() < 5e-6, "{sum:?}");
    let interval = sum.interval(0.95);
    assert!((interval.low + 3.3654832).abs() < 5e-8 && (interval.high - 0.2054832).abs() < 5e-8);
    assert_eq!(
        sum.minus(&one).value,
        combined(&[(-1.0, two)]).unwrap().value
    );
}

/// A setting's cost over lives, and an observer's cost within them, added.
#[test]
fn a_setting_and_an_observer_add_up_and_cover() {
    let mut random = Random::new(11);
    let mut covered = Tally::default();
    for _ in 0..2_000 {
        let setting = nested_estimate(&lives(5, &[15], 0.02, &mut random))
            .unwrap()
            .estimate;
        let values: Vec<f64> = (0..40)
            .map(|_| 0.08 + WINDOW * normal(&mut random))
            .collect();
        let observer = primary_estimate(&values, 1.0).unwrap().0;
        let both = combined(&[(1.0, setting), (1.0, observer)]).unwrap();
        assert!(both.df >= setting.df.min(observer.df), "{both:?}");
        covered.add(both.interval(0.95).contains(0.08));
    }
    println!("setting and observer: {covered}");
    assert!(covered.is_within(0.93, 0.99), "{covered}");
}

#[test]
fn too_little_is_refused() {
    let life = Estimate {
        value: 0.1,
        standard_error: 0.01,
        df: 9.0,
        n: 10,
    };
    assert!(nested_estimate(&[life]).is_err());
    let endless = Estimate {
        value: f64::NAN,
        ..life
    };
    assert!(matches!(
        nested_estimate(&[life, endless]),
        Err(CompareError::NotFinite { .. })
    ));
    assert!(combined(&[]).is_err());
    let exact = Estimate {
        standard_error: 0.0,
        ..life
    };
    assert_eq!(combined(&[(2.0, exact)]).unwrap().value, 0.2);
}

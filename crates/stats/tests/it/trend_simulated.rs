//! Properties of change detection, and a small version of `cargo bench --bench trend`.

#[path = "../../benches/trend/noise.rs"]
#[allow(dead_code, reason = "the benchmark program uses all of it")]
pub mod noise;

use noise::{TrendNoise, TrendRandom, noisy_series, with_step};
use speedwell_stats::trend::{
    ChangeDetector, ChangeEvidence, ChangeShape, DetectedChange, FIRST_FINDING, FIRST_SUSPICION,
    MeasuredPoint, TrendSeries, find_changes, first_beyond, machine_swap,
};

fn is_found(change: &DetectedChange) -> bool {
    change.evidence != ChangeEvidence::Suspected
}

/// Points of one machine, one position each.
fn points(values: impl IntoIterator<Item = f64>) -> Vec<MeasuredPoint> {
    let numbered = values.into_iter().zip(0..);
    numbered.map(|(value, position)| MeasuredPoint { value, machine: 0, position }).collect()
}

fn noisy_points(noise: TrendNoise, count: usize, seed: u64) -> Vec<MeasuredPoint> {
    noisy_series(noise, count, 0.02, &mut TrendRandom::new(seed))
}

#[test]
fn appending_points_gives_the_same_result_as_one_pass() {
    let kinds = [
        TrendNoise::Student2,
        TrendNoise::Dependent(0.7),
        TrendNoise::ThreeMachines,
        TrendNoise::Sticky,
    ];
    for (seed, kind) in (0..).zip(kinds) {
        let points =
            with_step(noisy_series(kind, 180, 0.02, &mut TrendRandom::new(seed)), 90, 0.04);
        let mut appended = ChangeDetector::default();
        for count in 0..=points.len() {
            let series = TrendSeries::new(&points[..count]).unwrap();
            appended.process_series(&series);
            let mut once = ChangeDetector::default();
            once.process_series(&series);
            assert_eq!(appended, once, "{kind:?}, {count} points");
        }
        assert!(appended.raised > 0, "{kind:?}: nothing was ever suspected");
        let series = TrendSeries::new(&points).unwrap();
        assert_eq!(appended.describe_changes(&series), find_changes(&points).unwrap());
    }
}

#[test]
fn a_stored_detector_resumes_only_on_its_own_series() {
    for (seed, kind) in
        (0..).zip([TrendNoise::Student2, TrendNoise::ThreeMachines, TrendNoise::Sticky])
    {
        let points =
            with_step(noisy_series(kind, 600, 0.02, &mut TrendRandom::new(seed)), 300, 0.04);
        let mut kept = Vec::new();
        for count in [0, 3, 90, 91, 310, 311, 330, 599, 600] {
            let series = TrendSeries::new(&points[..count]).unwrap();
            let known = ChangeDetector::from_bytes(&kept, &series);
            assert_eq!(known.is_some(), count > 0, "{kind:?}, {count} points");
            let mut walk = known.unwrap_or_default();
            walk.process_series(&series);
            assert_eq!(walk.describe_changes(&series), find_changes(&points[..count]).unwrap());
            kept = walk.to_bytes(&series);
        }
        let mut other = points.clone();
        other[4].value *= 1.1;
        let series = TrendSeries::new(&other).unwrap();
        assert_eq!(ChangeDetector::from_bytes(&kept, &series), None, "another value");
        let fewer = TrendSeries::new(&points[..599]).unwrap();
        assert_eq!(ChangeDetector::from_bytes(&kept, &fewer), None, "a point is gone");
        let series = TrendSeries::new(&points).unwrap();
        for torn in [&kept[..kept.len() - 8], &kept[..kept.len() - 1], &kept[8..]] {
            assert_eq!(ChangeDetector::from_bytes(torn, &series), None);
        }
    }
}

/// The benchmark has four thousand series a kind; these suffice to notice a limit that is a tenth
/// too low, or mixed machines.
#[test]
fn series_without_changes_rarely_have_findings() {
    let kinds = [
        TrendNoise::Normal,
        TrendNoise::Lognormal,
        TrendNoise::Student2,
        TrendNoise::Spikes,
        TrendNoise::TwoLayouts,
        TrendNoise::ThreeMachines,
        TrendNoise::Ties,
        TrendNoise::Dependent(0.5),
    ];
    let (mut wrong, mut raised) = (0, 0);
    for (seed, kind) in (0..).step_by(1000).zip(kinds) {
        for repetition in 0..20 {
            let series = TrendSeries::new(&noisy_points(kind, 200, seed + repetition)).unwrap();
            let mut walk = ChangeDetector::default();
            walk.process_series(&series);
            wrong += usize::from(walk.describe_changes(&series).iter().any(is_found));
            raised += walk.raised;
        }
    }
    // 160 series, 32 000 points; expected are .6% wrong and 4 suspicions in 1000 points.
    assert!(wrong <= 4, "{wrong} series with a false change");
    assert!((40..=250).contains(&raised), "{raised} suspicions");
}

#[test]
fn a_step_of_two_deviations_is_found_within_twenty_points_and_sized() {
    let (mut right, mut covered) = (0, 0);
    for seed in 0..40 {
        let changes =
            find_changes(&with_step(noisy_points(TrendNoise::Normal, 121, seed), 100, 0.04))
                .unwrap();
        let step =
            changes.iter().find(|change| is_found(change) && change.after.abs_diff(100) <= 5);
        right += usize::from(step.is_some());
        covered += usize::from(step.is_some_and(|step| step.size.interval.contains(1.04)));
    }
    assert!(right >= 35, "{right} of 40 found");
    assert!(covered >= 30, "{covered} of 40 intervals hold the step");
}

#[test]
fn a_step_much_larger_than_the_noise_is_placed_exactly() {
    // The values before the step fall by chance, which ranks cannot tell from the step.
    let values = [
        1003, 999, 1000, 1008, 1006, 1004, 998, 1000, 995, 997, 994, 996, 913, 912, 914, 928, 918,
        927, 917, 916, 913, 920, 918, 923, 923, 921, 916, 919, 919, 923,
    ];
    for first in 0..4 {
        let series = points(values[first..].iter().map(|&value| f64::from(value)));
        assert_eq!(places(&series), [12 - first]);
    }
    for (noise, seed) in [(TrendNoise::Normal, 1), (TrendNoise::Lognormal, 2)] {
        for place in [8, 12, 20, 40] {
            let series = noisy_series(noise, 60, 0.02, &mut TrendRandom::new(seed * 100));
            assert_eq!(places(&with_step(series, place, 0.2)), [place], "{noise:?}");
        }
    }
}

/// The first point after each change.
fn places(points: &[MeasuredPoint]) -> Vec<usize> {
    find_changes(points).unwrap().iter().map(|change| change.after).collect()
}

#[test]
fn a_machine_swap_is_reported_as_a_swap_and_not_as_a_change() {
    let swapped = noisy_points(TrendNoise::MachineSwap, 100, 5);
    assert_eq!(find_changes(&swapped).unwrap(), []);
    assert_eq!(machine_swap(&TrendSeries::new(&swapped).unwrap()), Some(50));
    // Without their labels the same points show a change there.
    let unlabelled: Vec<MeasuredPoint> =
        swapped.iter().map(|&point| MeasuredPoint { machine: 0, ..point }).collect();
    assert_eq!(find_changes(&unlabelled).unwrap()[0].after, 50);
    let mixed = TrendSeries::new(&noisy_points(TrendNoise::ThreeMachines, 100, 5)).unwrap();
    assert_eq!(machine_swap(&mixed), None);
    // The latest of several swaps, farther back than the points examined.
    let many = noisy_points(TrendNoise::Normal, 700, 5).into_iter().zip(0..);
    let many: Vec<MeasuredPoint> =
        many.map(|(point, i)| MeasuredPoint { machine: i / 300, ..point }).collect();
    assert_eq!(machine_swap(&TrendSeries::new(&many).unwrap()), Some(600));
}

#[test]
fn a_change_is_found_despite_offsets_between_machines() {
    let points = with_step(noisy_points(TrendNoise::ThreeMachines, 200, 8), 100, 0.05);
    let changes = find_changes(&points).unwrap();
    let change = changes.iter().find(|change| is_found(change)).unwrap();
    assert!(change.after.abs_diff(100) <= 3, "{change:?}");
    assert!((change.size.ratio - 1.05).abs() < 0.015, "{change:?}");
    assert_eq!(change.shape, ChangeShape::Step);
    // The numbers of the machines do not matter.
    let renamed: Vec<MeasuredPoint> = points
        .iter()
        .map(|&point| MeasuredPoint { machine: 900 - point.machine, ..point })
        .collect();
    assert_eq!(find_changes(&renamed).unwrap(), changes);
}

#[test]
fn the_unit_does_not_matter() {
    let points = with_step(noisy_points(TrendNoise::Lognormal, 150, 4), 80, 0.05);
    // Scaling by a power of two shifts logarithms without changing the order of their ranks by
    // rounding.
    let scaled: Vec<MeasuredPoint> = points
        .iter()
        .map(|&point| MeasuredPoint { value: point.value * 1024.0, ..point })
        .collect();
    let places = |points: &[MeasuredPoint]| -> Vec<(usize, usize, ChangeEvidence)> {
        let changes = find_changes(points).unwrap();
        changes.iter().map(|change| (change.after, change.seen, change.evidence)).collect()
    };
    assert!(!places(&points).is_empty());
    assert_eq!(places(&points), places(&scaled));
}

#[test]
fn a_change_never_splits_the_sessions_of_one_revision() {
    let mut points = with_step(noisy_points(TrendNoise::Normal, 240, 6), 121, 0.06);
    points.iter_mut().for_each(|point| point.position /= 4);
    let changes = find_changes(&points).unwrap();
    assert!(changes.iter().any(|change| is_found(change) && change.after == 120), "{changes:?}");
    assert!(changes.iter().all(|change| change.after % 4 == 0), "{changes:?}");
    // A single revision has no border at all.
    points.iter_mut().for_each(|point| point.position = 7);
    assert_eq!(find_changes(&points).unwrap(), []);
}

/// Regardless of how clear a step is, and where it lies.
#[test]
fn suspicions_and_findings_need_a_minimum_number_of_points() {
    let (mut suspected, mut found) = (usize::MAX, usize::MAX);
    for at in 3..40 {
        let clear = points(
            (0..60).map(|i| 1.0 + f64::from(i * 7 % 11) * 0.001 + if i < at { 0.0 } else { 1.0 }),
        );
        for change in find_changes(&clear).unwrap() {
            suspected = suspected.min(change.seen);
            if let ChangeEvidence::Found { seen } = change.evidence {
                found = found.min(seen);
            }
        }
    }
    assert_eq!((suspected, found), (FIRST_SUSPICION, FIRST_FINDING));
}

#[test]
fn a_constant_figure_that_jumps_once_has_one_change_of_exactly_that_size() {
    let changes =
        find_changes(&points((0..60).map(|i| if i < 30 { 400.0 } else { 440.0 }))).unwrap();
    assert_eq!(changes.len(), 1);
    assert!(is_found(&changes[0]) && changes[0].after == 30);
    assert!((changes[0].size.ratio - 1.1).abs() < 1e-9, "{changes:?}");
    assert!(changes[0].size.interval.half_width() < 1e-9, "{changes:?}");
    assert_eq!(find_changes(&points([3.0; 100])).unwrap(), []);
}

#[test]
fn values_without_a_logarithm_are_passed_over_and_too_many_are_an_error() {
    let mut points = with_step(noisy_points(TrendNoise::Normal, 100, 2), 50, 0.3);
    for (index, value) in [(3, -0.5), (20, -1.0), (49, f64::INFINITY), (50, f64::NAN), (51, 1.31)] {
        points[index].value = value;
    }
    let change = find_changes(&points).unwrap()[0];
    assert_eq!((change.before, change.after), (48, 51));
    points[60..70].iter_mut().for_each(|point| point.value = -1.0);
    let error = find_changes(&points).unwrap_err();
    assert_eq!((error.left_out, error.points), (14, 100));
    assert!(error.to_string().starts_with("14 of 100 values"), "{error}");
    assert_eq!(find_changes(&[]).unwrap(), []);
}

#[test]
fn a_change_from_zero_is_found_and_its_ratio_is_infinite() {
    let only = |values: [f64; 60]| {
        let changes = find_changes(&points(values)).unwrap();
        let [change] = changes[..] else { panic!("{changes:?}") };
        assert!(is_found(&change), "{change:?}");
        (change.before, change.after, change.size)
    };
    let step = |old: f64, new: f64| std::array::from_fn(|i| if i < 30 { old } else { new });
    let (before, after, size) = only(step(0.0, 1.0));
    assert_eq!((before, after, size.ratio), (29, 30, f64::INFINITY));
    assert_eq!(size.interval.low, f64::INFINITY);

    let (.., size) = only(step(0.0, 5e-324));
    assert_eq!(size.ratio, f64::INFINITY);

    let (.., size) = only(step(1.0, 0.0));
    assert_eq!((size.ratio, size.interval.high), (0.0, 0.0));

    // Every fourth run allocates once, then every run does so several times: never fewer than twice as often.
    let mostly = std::array::from_fn(|i| match (i < 30, i % 4) {
        (true, 2) => 1.0,
        (true, _) => 0.0,
        (false, place) => [2.0, 3.0, 2.0, 4.0][place],
    });
    let (before, after, size) = only(mostly);
    assert_eq!((before, after, size.ratio), (29, 30, f64::INFINITY));
    assert!(size.interval.low >= 2.0, "{size:?}");
}

#[test]
fn zeros_among_other_values_give_no_change_and_no_infinite_threshold() {
    let alternating = (0..80).map(|i| f64::from(u8::from(i % 3 == 1)));
    let points = points(alternating);
    assert_eq!(find_changes(&points).unwrap(), []);
    let series = TrendSeries::new(&points).unwrap();
    let mut walk = ChangeDetector::default();
    walk.process_series(&series);
    assert!(walk.smallest_visible(&series, 20).is_none_or(f64::is_finite));
}

#[test]
fn a_slope_is_called_a_drift_and_a_step_is_not() {
    let shapes = |slope: f64, step: f64| -> Vec<ChangeShape> {
        let scatter = |i: i32| 1.0 + f64::from(i * 37 % 101 - 50) * 0.0004;
        let value = |i: i32| {
            scatter(i) * (1.0 + slope * f64::from(i)) * if i < 60 { 1.0 } else { 1.0 + step }
        };
        let changes = find_changes(&points((0..120).map(value))).unwrap();
        changes.iter().map(|change| change.shape).collect()
    };
    assert_eq!(shapes(0.0, 0.05), [ChangeShape::Step]);
    let slope = shapes(0.0003, 0.0);
    assert!(slope.contains(&ChangeShape::Drift), "{slope:?}");
}

#[test]
fn a_newest_point_beyond_all_others_of_its_machine_is_a_hint() {
    let mut points = noisy_points(TrendNoise::Normal, 60, 9);
    let hint = |points: &[MeasuredPoint]| first_beyond(&TrendSeries::new(points).unwrap());
    assert_eq!(hint(&points), None);
    let last = points.len() - 1;
    points[last].value = 1.3;
    assert!((hint(&points).unwrap() - 1.3).abs() < 0.02);
    // Forty points of the same machine are needed.
    assert_eq!(hint(&points[last - 39..]), None);
    assert!(hint(&points[last - 40..]).is_some());
    points[last].machine = 1;
    assert_eq!(hint(&points), None);
}

#[test]
fn the_smallest_visible_change_follows_noise_and_dependence() {
    let visible = |noise: TrendNoise, deviation: f64| {
        let clean = noisy_series(noise, 100, deviation, &mut TrendRandom::new(12));
        let series = TrendSeries::new(&clean).unwrap();
        let mut walk = ChangeDetector::default();
        walk.process_series(&series);
        walk.smallest_visible(&series, 20).unwrap() - 1.0
    };
    // (3.3 + 1.28) / sqrt(.955 x 100 x 20 / 120) = 1.15 deviations.
    assert!((visible(TrendNoise::Normal, 0.02) - 0.023).abs() < 0.005);
    assert!((visible(TrendNoise::ThreeMachines, 0.01) - 0.0115).abs() < 0.004);
    assert!(visible(TrendNoise::Dependent(0.7), 0.02) > 0.03);
    let few = TrendSeries::new(&noisy_points(TrendNoise::Normal, 7, 1)).unwrap();
    assert_eq!(ChangeDetector::default().smallest_visible(&few, 20), None);
}

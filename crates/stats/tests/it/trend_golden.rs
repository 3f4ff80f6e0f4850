//! Change detection on recorded series, real and simulated, against the reference implementation
//! and apache-otava 0.8.0.
//!
//! `tigerbeetle.txt` comes from the tests of apache/otava, the `mongodb` files from those of
//! mongodb/signal-processing-algorithms (both Apache-2.0); the long one was shifted to positive
//! values.
//!
//! The reference places changes by ranks. Where the sizes of the values place one elsewhere, which
//! they do in four series, the expected value is ours.

use crate::golden_file;
use crate::trend_simulated::noise::{TrendNoise, TrendRandom, noisy_series, with_step};
use serde_json::Value;
use speedwell_stats::trend::{
    ChangeEvidence, ChangeShape, DetectedChange, MeasuredPoint, exact_deviate, find_changes,
};

/// The values of a recorded series, of one machine, one position each; or a simulated series,
/// regenerated from its seed.
fn series(name: &str) -> Vec<MeasuredPoint> {
    let Some((kind, clean_or_step, index)) = simulated_series(name) else {
        let values = golden_file(&format!("trend/{name}.txt"));
        let values = values.split_whitespace().zip(0..);
        return values
            .map(|(value, position)| MeasuredPoint {
                value: value.parse().unwrap(),
                machine: 0,
                position,
            })
            .collect();
    };
    let clean = noisy_series(kind, 200, 0.02, &mut TrendRandom::new(4242 + index));
    match clean_or_step {
        "clean" => clean,
        _ => with_step(clean, 100, 0.05),
    }
}

fn simulated_series(name: &str) -> Option<(TrendNoise, &str, u64)> {
    let mut parts = name.split('-');
    let kind = match parts.next()? {
        "normal" => TrendNoise::Normal,
        "lognormal" => TrendNoise::Lognormal,
        "t2" => TrendNoise::Student2,
        "spikes" => TrendNoise::Spikes,
        "bimodal" => TrendNoise::TwoLayouts,
        "ar5" => TrendNoise::Dependent(0.5),
        "drift" => TrendNoise::Drift,
        _ => return None,
    };
    Some((kind, parts.next()?, parts.next()?.parse().ok()?))
}

fn state(change: &DetectedChange) -> &'static str {
    match (change.shape, change.evidence) {
        (ChangeShape::Drift, _) => "drift",
        (ChangeShape::Step, ChangeEvidence::Found { .. }) => "found",
        (ChangeShape::Step, ChangeEvidence::Suspected) => "suspected",
    }
}

#[test]
fn all_recorded_series_have_the_changes_of_the_reference() {
    let expected: Value = serde_json::from_str(&golden_file("trend/expected.json")).unwrap();
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 46);
    for (name, expected) in expected {
        let points = series(name);
        assert_eq!(points.len() as u64, expected["points"].as_u64().unwrap(), "{name}");
        let changes = find_changes(&points).unwrap();
        let wanted = expected["changes"].as_array().unwrap();
        assert_eq!(changes.len(), wanted.len(), "{name}: {changes:?}");
        for (change, wanted) in changes.iter().zip(wanted) {
            let whole = |index: usize| wanted[index].as_u64().unwrap() as usize;
            assert!(change.after.abs_diff(whole(0)) <= 1, "{name}: {change:?} is not {wanted}");
            assert_eq!(change.before, change.after - 1);
            assert_eq!(state(change), wanted[1], "{name}: {change:?}");
            assert_eq!(change.seen, whole(2), "{name}: {change:?}");
            assert!(
                (change.z - wanted[3].as_f64().unwrap()).abs() < 0.25,
                "{name}: {change:?} is not {wanted}"
            );
        }
    }
}

#[test]
fn the_real_series_have_the_changes_that_people_see_in_them() {
    let found = |name: &str| {
        let changes = find_changes(&series(name)).unwrap();
        let places = |state_: &str| -> Vec<usize> {
            let those = changes.iter().filter(|change| state(change) == state_);
            those.map(|change| change.after).collect()
        };
        (places("found"), places("suspected"))
    };
    let (certain, suspected) = found("tigerbeetle");
    assert_eq!(certain, [61, 71, 95, 131, 192]);
    assert_eq!(suspected, [15, 117, 212, 260]);
    assert_eq!(found("mongodb-real"), (vec![], vec![]));
    assert_eq!(found("mongodb-long-shifted").0, [205, 395, 594, 794]);
}

/// Python 3: `-NormalDist().inv_cdf(P(U <= u))`, with the tail counted by the recursion of Mann and
/// Whitney (1947), c(u, k, l) = c(u - l, k - 1, l) + c(u, k, l - 1), in integers.
#[test]
fn deviates_are_those_of_the_exact_tails() {
    let rows: Value = serde_json::from_str(&golden_file("trend/deviates.json")).unwrap();
    let rows = rows.as_array().unwrap();
    for row in rows {
        let whole = |index: usize| row[index].as_u64().unwrap() as usize;
        let z = exact_deviate(whole(2) as f64, whole(0), whole(1));
        assert!((z - row[3].as_f64().unwrap()).abs() < 1e-6, "{row}: {z}");
    }
    assert_eq!(rows.len(), 62);
}

//! Classes against a second implementation and the known truth, and what they make of sessions.

use super::steady::{Class, Reference, classify};
use super::warmup_stats::{self, Delta, Limits};
use serde_json::Value;
use speedwell_model::SteadyRule;

/// Made by `golden/classes.py`.
fn rows() -> Vec<Value> {
    serde_json::from_str(include_str!("golden/classes.json")).unwrap()
}

fn numbers(of: &Value) -> Vec<f64> {
    let values = of.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

fn places(of: &Value) -> Vec<usize> {
    numbers(of)
        .into_iter()
        .map(|place| place as usize)
        .collect()
}

fn assert_near(found: f64, wanted: &Value, what: &str) {
    let wanted = wanted.as_f64().unwrap();
    assert!(
        (found / wanted - 1.0).abs() < 1e-9,
        "{what}: {found} instead of {wanted}"
    );
}

#[test]
fn classes_are_those_of_a_second_implementation() {
    for row in rows() {
        let (name, wanted) = (row["name"].as_str().unwrap(), &row["native"]);
        let found = classify(&numbers(&row["series_s"]), &SteadyRule::default(), None);
        assert_eq!(found.class.to_string(), wanted["class"], "{name}");
        let starts: Vec<usize> = found
            .levels
            .iter()
            .map(|level| level.points.start)
            .collect();
        assert_eq!(starts, places(&wanted["starts"]), "{name}");
        assert_eq!(found.spikes, places(&wanted["spikes"]), "{name}");
        assert_near(found.noise, &wanted["noise"], name);
        assert_near(found.levels.last().unwrap().time, &wanted["level_s"], name);
    }
}

#[test]
fn series_of_a_known_truth_have_the_class_they_were_made_with() {
    let made = rows().into_iter().filter(|row| row["truth"].is_string());
    let mut count = 0;
    for row in made {
        let found = classify(&numbers(&row["series_s"]), &SteadyRule::default(), None);
        assert_eq!(found.class.to_string(), row["truth"], "{}", row["name"]);
        count += 1;
    }
    assert_eq!(count, 10);
}

#[test]
fn classes_for_comparison_are_those_of_warmup_stats() {
    for row in rows() {
        let (name, wanted) = (row["name"].as_str().unwrap(), &row["warmup_stats"]);
        let times = numbers(&row["series_s"]);
        let delta = match row["delta"]["seconds"].as_f64() {
            Some(seconds) => Delta::Seconds(seconds),
            None => Delta::Share(row["delta"]["share"].as_f64().unwrap()),
        };
        let steady = times.len() / 4;
        let found = warmup_stats::classify(&times, &Limits { delta, steady });
        assert_eq!(found.class.to_string(), wanted["class"], "{name}");
        assert_eq!(found.outliers, places(&wanted["outliers"]), "{name}");
        assert_eq!(
            found.change_points,
            places(&wanted["change_points"]),
            "{name}"
        );
        assert_eq!(found.steady_from as u64, wanted["steady_from"], "{name}");
        assert_near(found.level_s, &wanted["level_s"], name);
    }
}

/// `levels` of so many points each, with a little regular noise.
fn steps(levels: &[(usize, f64)]) -> Vec<f64> {
    let noise = [1.0, 1.004, 0.997, 1.001, 0.999, 1.003, 0.996];
    let points = levels
        .iter()
        .flat_map(|(count, level)| std::iter::repeat_n(level, *count));
    points
        .enumerate()
        .map(|(at, level)| level * noise[at % 7])
        .collect()
}

#[test]
fn the_period_of_a_cyclic_series_is_there_and_back() {
    let times = steps(&[(60, 1.0), (40, 1.2)].repeat(8));
    let found = classify(&times, &SteadyRule::default(), None);
    assert_eq!((found.class, found.period), (Class::Cyclic, Some(100.0)));
    assert_eq!(found.first(), None);
}

#[test]
fn levels_closer_than_delta_are_one_and_a_steady_part_has_its_least_length() {
    let times = steps(&[(200, 1.05), (200, 1.0)]);
    let class = |delta, least_share| {
        let rule = SteadyRule {
            delta,
            least_share,
            ..SteadyRule::default()
        };
        classify(&times, &rule, None).class
    };
    assert_eq!(class(0.02, 0.25), Class::WarmUp);
    assert_eq!(class(0.06, 0.25), Class::Flat);
    assert_eq!(class(0.02, 0.6), Class::NoSteadyState);
}

#[test]
fn a_change_of_the_machine_is_no_change_of_the_program() {
    let times = steps(&[(320, 1.0), (320, 1.3)]);
    let reference = |changes: &[(usize, f64)]| steps(changes);
    let of = |reference: &[f64]| {
        let reference = Reference {
            times: reference,
            every: 16,
        };
        classify(&times, &SteadyRule::default(), Some(reference))
    };
    let steady = of(&reference(&[(40, 2.0)]));
    assert_eq!(
        (steady.class, steady.machine_changes),
        (Class::SlowDown, vec![])
    );
    let changed = of(&reference(&[(20, 2.0), (20, 2.6)]));
    assert_eq!(
        (changed.class, changed.machine_changes),
        (Class::Flat, vec![320])
    );
    let elsewhere = of(&reference(&[(30, 2.0), (10, 2.6)]));
    assert_eq!(elsewhere.class, Class::SlowDown);
}

#[test]
fn nothing_is_said_where_the_machine_changes_all_the_time() {
    let levels = [(160, 1.0), (160, 1.3), (160, 1.0), (160, 1.3)];
    let of_machine: Vec<(usize, f64)> = levels.map(|(count, level)| (count / 16, level)).to_vec();
    let reference = steps(&of_machine);
    let reference = Reference {
        times: &reference,
        every: 16,
    };
    let found = classify(&steps(&levels), &SteadyRule::default(), Some(reference));
    assert_eq!(
        (found.class, found.machine_changes.len()),
        (Class::Unclear, 3)
    );
}

#[test]
fn short_series_are_flat_and_none_is_nothing() {
    for count in [0, 1, 4, 9] {
        let found = classify(&steps(&[(count, 1.0)]), &SteadyRule::default(), None);
        assert_eq!(found.class, Class::Flat);
        assert_eq!(found.levels.len(), usize::from(count > 0));
    }
}

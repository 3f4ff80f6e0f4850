//! Mann-Whitney against scipy 1.17.1: `mannwhitneyu(x, y, alternative="two-sided", method=...)`
//! with `auto`, `exact` and `asymptotic`, and all rearrangements of the mid-ranks.

use crate::{assert_close, golden_file};
use serde_json::Value;
use speedwell_stats::test::mann_whitney::{PValueMethod, mann_whitney};

const METHODS: [(&str, PValueMethod); 4] = [
    ("p_auto", PValueMethod::Auto),
    ("p_exact_no_tie", PValueMethod::Exact),
    ("p_asymptotic", PValueMethod::Asymptotic),
    ("p_permutation", PValueMethod::ExactTies),
];

#[test]
fn every_golden_row_is_reproduced_by_every_method() {
    let golden: Value = serde_json::from_str(&golden_file("mann-whitney.json")).unwrap();
    let mut compared = 0;
    for row in golden["rows"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let (x, y) = (side_values(row, "x"), side_values(row, "y"));
        for (key, method) in METHODS {
            if let Some(p) = row[key].as_f64() {
                let test = mann_whitney(&x, &y, method);
                assert_eq!(test.u1, row["U1"].as_f64().unwrap(), "{name}");
                assert_close(test.p, p, 1e-12, &format!("{name} {key}"));
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "only {compared} values were compared");
}

/// The values of a side; the row may give a rule `1000 times V` instead.
fn side_values(row: &Value, side: &str) -> Vec<f64> {
    if let Some(values) = row[side].as_array() {
        return values.iter().map(|value| value.as_f64().unwrap()).collect();
    }
    let rule = row[format!("{side}_rule")].as_str().unwrap();
    let (count, value) = rule.split_once(" times ").unwrap();
    vec![value.parse().unwrap(); count.parse().unwrap()]
}

//! The signed-rank test against scipy's `wilcoxon(d, alternative=...)`, exact, or by enumerating
//! all signs with ties and zeros; estimate and 95% interval against R's
//! `wilcox.test(d, exact = TRUE, conf.int = TRUE)`.

use crate::{assert_close, golden_file};
use serde_json::Value;
use speedwell_stats::test::signed_rank;

#[test]
fn tails_agree_with_scipy_and_intervals_with_r() {
    let golden: Value = serde_json::from_str(&golden_file("signed-rank.json")).unwrap();
    let mut intervals = 0;
    for (number, row) in golden["rows"].as_array().unwrap().iter().enumerate() {
        let differences = row["d"].as_array().unwrap().iter();
        let pairs: Vec<(f64, f64)> =
            differences.map(|d| (7.0, 7.0 * d.as_f64().unwrap().exp())).collect();
        let test = signed_rank(&pairs).unwrap();
        let tails = test.shifted(0.0);
        let figure = |key: &str| row[key].as_f64();
        let name = |what: &str| format!("row {number} {what}");
        assert_close(tails.upper, figure("upper").unwrap(), 1e-12, &name("upper"));
        assert_close(tails.lower, figure("lower").unwrap(), 1e-12, &name("lower"));
        if let Some(estimate) = figure("estimate") {
            let interval = test.interval_at(0.05);
            let wanted = [estimate, figure("low").unwrap(), figure("high").unwrap()];
            let found = [test.ratio(), interval.low, interval.high];
            for (found, wanted) in found.into_iter().zip(wanted) {
                assert!((found.ln() - wanted).abs() < 1e-9, "{} {found}", name("ratio"));
            }
            intervals += 1;
        }
    }
    assert!(intervals > 50, "only {intervals} intervals were compared");
}

//! Welch's analysis of variance against `oneway.test` of R 4.2.2.

use crate::{assert_close, golden_file};
use speedwell_stats::test::welch_anova;

#[test]
fn welchs_analysis_of_variance_equals_oneway_test() {
    let golden = golden_file("welch-anova.tsv");
    assert_eq!(golden.lines().count(), 45);
    for line in golden.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let number = |text: &str| text.parse::<f64>().unwrap();
        let groups: Vec<Vec<f64>> =
            (columns[0].split(';')).map(|group| group.split(',').map(number).collect()).collect();
        let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
        let test = welch_anova(&groups).unwrap();
        let figures = [
            ("F", test.f),
            ("degrees of freedom between", test.between_df),
            ("degrees of freedom within", test.within_df),
            ("p", test.p),
        ];
        for ((what, figure), wanted) in figures.into_iter().zip(&columns[1..]) {
            assert_close(figure, number(wanted), 1e-9, what);
        }
    }
}

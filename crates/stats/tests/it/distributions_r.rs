//! Distribution functions against R 4.2.2 over wide grids; `distributions.R` beside the golden
//! file made it: `Rscript distributions.R > distributions.tsv`.

use crate::{assert_close, golden};
use speedwell_stats::distribution::{normal, student_t};

#[test]
fn tails_and_quantiles_equal_those_of_r() {
    let golden = golden("distributions.tsv");
    let mut compared = [0; 4];
    for line in golden.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        let (kind, value) = match fields[0] {
            "qt" => (0, student_t::upper_quantile(number(1), number(2))),
            "pt" => (1, student_t::two_sided(number(1), number(2))),
            "qnorm" => (2, normal::upper_quantile(number(1))),
            "pnorm" => (3, normal::upper_tail(number(1))),
            other => panic!("unknown function {other}"),
        };
        compared[kind] += 1;
        assert_close(value, number(3), 1e-11, line);
    }
    assert!(compared.iter().all(|&count| count >= 10), "{compared:?}");
}

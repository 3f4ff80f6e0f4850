//! Distribution functions against R 4.2.2 over wide grids; `distributions.R` beside the golden
//! file made it: `Rscript distributions.R > distributions.tsv`.

use crate::{assert_close, golden};
use speedwell_stats::distribution::{binomial, normal, student_t};
use speedwell_stats::interval::share_exact;

#[test]
fn tails_and_quantiles_equal_those_of_r() {
    let golden = golden("distributions.tsv");
    let mut compared = [0; 9];
    for line in golden.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        // The binomial distribution has one parameter more.
        let (name, share) = fields[0].split_once(' ').unwrap_or((fields[0], "0"));
        let share: f64 = share.parse().unwrap();
        let (count, trials) = (number(1) as u64, number(2) as u64);
        let interval = || share_exact(count, trials, 0.95);
        let (kind, value) = match name {
            "qt" => (0, student_t::upper_quantile(number(1), number(2))),
            "pt" => (1, student_t::two_sided(number(1), number(2))),
            "qnorm" => (2, normal::upper_quantile(number(1))),
            "pnorm" => (3, normal::upper_tail(number(1))),
            "pbinom" => (4, binomial::cdf(count, trials, share)),
            "above" => (5, binomial::upper_tail(count, trials, share)),
            "qbinom" => (6, binomial::quantile(number(1), trials, share) as f64),
            "low" => (7, interval().low),
            "high" => (8, interval().high),
            other => panic!("unknown function {other}"),
        };
        compared[kind] += 1;
        assert_close(value, number(3), 1e-11, line);
    }
    assert!(compared.iter().all(|&count| count >= 10), "{compared:?}");
}

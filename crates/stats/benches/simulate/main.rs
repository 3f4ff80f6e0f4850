//! Error rates, power and coverage by simulation: `cargo bench -p speedwell-stats --bench simulate`.
//!
//! Prints the tables of `crates/stats/benches/simulate.md` beside reference figures, and exits with
//! 1 when a cell is out of tolerance. Without `--bench` (as under `cargo test --benches`) it does a
//! hundredth of the repetitions and only shows that everything runs. Seeds are fixed. After `--`,
//! `fixed`, `sequential`, `pairs`, `rejected` or `families` selects a part.

mod check;
mod experiment;
mod families;
mod fixed;
mod noise;
mod paired;
mod reference;
mod rejected;
mod repeat;
mod sequential;
mod signed_rank;

use check::ToleranceCheck;
use sequential::RepetitionCounts;

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let count = |full: u64| if is_measuring { full } else { full / 100 };
    let mut check = ToleranceCheck::default();
    let start = std::time::Instant::now();
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |name: &str| {
        let mut names = chosen.iter().filter(|word| !word.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|word| word == name)
    };
    if is_chosen("fixed") {
        fixed::check_false_positives(&mut check, count(10_000));
        fixed::check_power(&mut check, count(4000));
        fixed::check_coverage(&mut check, count(4000));
    }
    if is_chosen("sequential") {
        let repetitions = RepetitionCounts { equal: count(10_000), changed: count(4000) };
        sequential::run_sequential(&mut check, repetitions);
    }
    if is_chosen("pairs") {
        let repetitions = RepetitionCounts { equal: count(40_000), changed: count(10_000) };
        signed_rank::run_pairs(&mut check, repetitions);
    }
    if is_chosen("rejected") {
        rejected::run_rejected(&mut check, count(10_000));
    }
    if is_chosen("families") {
        families::run_families(&mut check, if is_measuring { 1000 } else { 1 });
    }
    let ToleranceCheck { cells, failures } = check;
    println!("\n{cells} cells, {} out of tolerance:", failures.len());
    failures.iter().for_each(|failure| println!("- {failure}"));
    eprintln!("took {:.0} s", start.elapsed().as_secs_f64());
    if is_measuring && !failures.is_empty() {
        std::process::exit(1);
    }
}

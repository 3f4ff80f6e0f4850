//! Error rates, delay and cost of change detection: `cargo bench -p speedwell-stats --bench trend`.
//!
//! Prints the tables of `crates/stats/benches/trend.md` beside reference figures, and exits with 1
//! when a cell is out of tolerance. Without `--bench` (as under `cargo test --benches`) it does a
//! fiftieth of the repetitions and only shows that everything runs. Seeds are fixed. After `--`,
//! `clean`, `steps`, `bisect` or `cost` selects a part.

#[path = "../simulate/check.rs"]
#[allow(dead_code, reason = "the other program uses all of it")]
mod check;
#[path = "../simulate/repeat.rs"]
mod repeat;

mod bisect;
mod clean;
mod cost;
mod noise;
mod steps;

use check::ToleranceCheck;

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let count = |full: u64| if is_measuring { full } else { full / 50 };
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let mut check = ToleranceCheck::default();
    let start = std::time::Instant::now();
    if is_chosen("clean") {
        clean::run_clean(&mut check, count(4000), count(1000));
        clean::run_hints(&mut check, count(40_000));
    }
    if is_chosen("steps") {
        steps::run_steps(&mut check, count(1000));
    }
    if is_chosen("bisect") {
        bisect::run_bisections(&mut check, count(400));
    }
    if is_chosen("cost") {
        cost::run_costs(&mut check, count(200));
    }
    let ToleranceCheck { cells, failures } = check;
    println!("\n{cells} cells, {} out of tolerance:", failures.len());
    failures.iter().for_each(|failure| println!("- {failure}"));
    eprintln!("took {:.0} s", start.elapsed().as_secs_f64());
    if is_measuring && !failures.is_empty() {
        std::process::exit(1);
    }
}

//! Speedup of ten machines over one, with a thousand cases that take equally long. The machines are
//! this one ten times: a run only waits, so they do not compete for processors.

use super::fleet_stale_attempts::of_machines;
use super::project::TempProject;
use std::time::{Duration, Instant};

const MACHINES: [&str; 10] =
    ["lab-0", "lab-1", "lab-2", "lab-3", "lab-4", "lab-5", "lab-6", "lab-7", "lab-8", "lab-9"];
const CASES: usize = 1000;
/// How long a run waits.
const RUN: Duration = Duration::from_millis(40);
/// Runs of each of the two sides of a case.
const RUNS: usize = 2;
/// Maximum time of ten machines, relative to a tenth of one machine's time.
const MAX_FACTOR: f64 = 1.3;

fn benchmark() -> String {
    let case = |n| format!("case n={n}\n* sleep:{}\n", RUN.as_millis());
    (0..CASES).map(case).collect()
}

/// Time until these machines have measured everything.
fn time_of(project: &TempProject, machines: &str) -> Duration {
    let runs = RUNS.to_string();
    let words = ["run", "g", "--variant=old=", "--variant=new=", "--seed=7"];
    let more = ["--runs", &runs, "--machines", "lab", "--machine-count", machines];
    let begin = Instant::now();
    project.run(&[&words[..], &more].concat()).expect_status(0);
    begin.elapsed()
}

/// On an idle machine:
/// `cargo test -p speedwell --test it --features http3,postgres -- fleet_shares --ignored --nocapture`
#[test]
#[ignore = "takes four minutes, and needs an idle machine"]
fn ten_machines_take_little_more_than_a_tenth_of_the_time_of_one() {
    let Some(project) = of_machines(&benchmark(), &MACHINES) else {
        return;
    };
    let ten = time_of(&project, "10").as_secs_f64();
    let one = time_of(&project, "1").as_secs_f64();
    assert_eq!(project.stored_runs(), 2 * CASES * 2 * RUNS);
    let factor = ten / (one / 10.0);
    println!(
        "{CASES} cases, {} runs of {RUN:?}: {one:.1} s by one machine, {ten:.1} s by ten: {factor:.2} of a tenth",
        CASES * 2 * RUNS
    );
    assert!(factor <= MAX_FACTOR, "{factor}");
}

//! What one measured sample costs, as a multiple of the bare start of Node.js (`node -e 0`).
//!
//!     cargo bench -p speedwell --bench sample_cost
//!
//! All subjects are measured in the same rounds, in turn, and compared by their medians. A Node core
//! checkout named by SPEEDWELL_NODE_CORE adds one of its scripts with the folder's own common.js.

// A bench that cannot go on has nothing to print.
#![allow(clippy::expect_used)]

use speedwell::define::{Selection, read, sources};
use speedwell::harness::{self, Job, Setting};
use speedwell::model::{Samples, Variant, median};
use speedwell::process::{Spec, run};
use std::path::PathBuf;
use std::time::Duration;

const ROUNDS: usize = 40;

/// Wall and CPU time of one process.
type Cost = (f64, f64);

fn main() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/node");
    let own = examples.join("string_decoder/create.js");
    let mut subjects: Vec<(String, Job)> = vec![("our package".into(), job(&own, &[("n", "1")]))];
    if let Some(core) = std::env::var_os("SPEEDWELL_NODE_CORE") {
        let script = PathBuf::from(core).join("benchmark/string_decoder/string-decoder-create.js");
        subjects.push(("Node core script".into(), job(&script, &[("n", "1")])));
    }
    let mut bare: Vec<Cost> = Vec::new();
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); subjects.len()];
    for round in 0..=ROUNDS {
        let start = start_of_node();
        let samples: Vec<Cost> = subjects.iter().map(|(_, job)| sample(job, round)).collect();
        // The first round warms the caches of files.
        if round > 0 {
            bare.push(start);
            costs
                .iter_mut()
                .zip(samples)
                .for_each(|(all, cost)| all.push(cost));
        }
    }
    let (wall, cpu) = (middle(&bare, |cost| cost.0), middle(&bare, |cost| cost.1));
    println!(
        "{:<18} {:>8.1} ms wall          {:>8.1} ms CPU",
        "node -e 0",
        wall * 1e3,
        cpu * 1e3
    );
    for ((name, _), costs) in subjects.iter().zip(&costs) {
        let (own_wall, own_cpu) = (middle(costs, |cost| cost.0), middle(costs, |cost| cost.1));
        println!(
            "{name:<18} {:>8.1} ms wall ({:.2} x) {:>8.1} ms CPU ({:.2} x)",
            own_wall * 1e3,
            own_wall / wall,
            own_cpu * 1e3,
            own_cpu / cpu
        );
    }
}

fn middle(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    median(&mut costs.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

fn start_of_node() -> Cost {
    let outcome = run(&Spec::new("node").args(["-e", "0"]), &mut ()).expect("node is in PATH");
    let usage = outcome.usage;
    (
        outcome.wall_ns as f64 / 1e9,
        (usage.user_ns + usage.system_ns) as f64 / 1e9,
    )
}

fn job(file: &std::path::Path, sets: &[(&str, &str)]) -> Job {
    let sets = sets
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()))
        .collect();
    let selection = Selection {
        sets,
        ..Selection::default()
    };
    let target = file.to_string_lossy().into_owned();
    let here = std::env::current_dir().expect("there is a current folder");
    let sources = sources(&target, &here).expect("the file is there");
    let suite = read(sources, &selection, &Variant::plain("bench"), &|_, _| ())
        .expect("the file is a benchmark");
    suite.jobs.into_iter().next().expect("it has a case")
}

fn sample(job: &Job, round: usize) -> Cost {
    let variant = Variant::plain("bench");
    let setting = Setting {
        variant: &variant,
        program: "node".into(),
        slot: round as u32,
        ordinal: round as u32,
        limit: Duration::from_secs(60),
        samples: Samples::default(),
        pin: None,
        seed: 1,
        experiment: None,
    };
    let attempt = harness::of(job.source.kind).perform(job, &setting);
    assert!(attempt.failure.is_none(), "{:?}", attempt.failure);
    let usage = attempt.usage.expect("the process was started");
    (
        attempt.wall_ns as f64 / 1e9,
        (usage.user_ns + usage.system_ns) as f64 / 1e9,
    )
}

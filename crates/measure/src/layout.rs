//! Whether what is to be measured can be laid out anew for every run, and what that says afterwards.
//!
//! Decides how many runs share a build, what cannot be linked again, and which spreads are worth keeping. Start at
//! [`check`].

use anyhow::{bail, ensure};
use speedwell_harness::plan::Plan;
use speedwell_harness::{Job, Kind};
use speedwell_model::{Language, Layout, Order};

/// The looks of a comparison whose runs share builds, in runs: looks are at whole builds, the last at all of them.
pub fn looks(usual: &[u32], builds: u32) -> Vec<u32> {
    let most = usual.iter().copied().max().unwrap_or(0);
    if builds == 0 || builds >= most {
        return usual.to_vec();
    }
    let runs_per_build = most.div_ceil(builds);
    let earlier = usual.iter().copied().filter(|look| *look < builds);
    let looks = earlier.chain([builds]);
    looks.map(|builds| builds * runs_per_build).collect()
}

/// Builds come in twos where they are compared: a block holds as many of every variant as it has runs.
pub fn whole_blocks(layout: Layout, runs_per_block: u32) -> Layout {
    let builds = layout.builds.next_multiple_of(runs_per_block.max(1));
    Layout { builds, ..layout }
}

/// Refuses what cannot be laid out as requested.
///
/// # Errors
/// With the reason, and what can be varied instead.
pub fn check(plan: &Plan) -> anyhow::Result<()> {
    let layout = plan.design.layout;
    if layout.is_usual() {
        return Ok(());
    }
    ensure!(
        !plan.shared,
        "snippets that share a process have one layout\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !plan.is_search,
        "a search for the best concurrency compares numbers of workers, not builds\nhint: leave out --builds and \
         --layout"
    );
    ensure!(
        plan.design.order != Order::Paired || !plan.design.shares_builds(),
        "with '--order paired' every pair has builds of its own, and there are {} runs of {} builds\nhint: --builds {0}",
        plan.design.most_runs(),
        layout.builds,
    );
    plan.jobs.iter().try_for_each(|job| check_job(job, layout))
}

fn check_job(job: &Job, layout: Layout) -> anyhow::Result<()> {
    const HINT: &str = "hint: --layout env,stack varies what can be varied from outside";
    let (name, links) = (&job.source.name, layout.builds > 0 || layout.align);
    match job.source.kind {
        Kind::Load | Kind::Experiment => bail!(
            "'{name}' measures servers and requests, whose processes it starts itself: --builds and --layout do not \
             reach them"
        ),
        Kind::Snippet(Language::Go) if layout.align => {
            bail!("Go has no option that aligns functions\nhint: leave out 'align'")
        }
        Kind::Cpp | Kind::Fake => Ok(()),
        Kind::Snippet(Language::C | Language::Cpp | Language::Rust | Language::Go) => Ok(()),
        Kind::Program | Kind::GoogleBenchmark if links => {
            bail!("'{name}' was built elsewhere, so no other builds of it can be made here\n{HINT}")
        }
        Kind::Snippet(language) if links => {
            bail!("{language} is not linked, so there are no builds of '{name}'\n{HINT}")
        }
        Kind::Node | Kind::NodeCore | Kind::Python if links => {
            bail!("'{name}' is not linked, so there are no builds of it\n{HINT}")
        }
        _ => Ok(()),
    }
}

//! Varies the memory layout of programs: checks whether programs can be laid out anew for every
//! run, and evaluates how much builds differ.
//!
//! This module decides how many runs share a build, what cannot be relinked, and what to store about
//! the differences between builds. Start at [`check_layout`].

use anyhow::{bail, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{BenchmarkJob, SourceKind, build_cost};
use speedwell_analysis::{LayoutSpread, layout_spreads};
use speedwell_model::{LayoutVariation, RunOrder, Session, SnippetLanguage};

/// Returns the looks (interim analyses) of a comparison, as numbers of runs. If runs share builds,
/// each look comes after a whole number of builds, and the last look comes after all builds.
pub fn build_looks(default_looks: &[u32], builds: u32) -> Vec<u32> {
    let max_runs = default_looks.iter().copied().max().unwrap_or(0);
    if builds == 0 || builds >= max_runs {
        return default_looks.to_vec();
    }
    let runs_per_build = max_runs.div_ceil(builds);
    let earlier = default_looks.iter().copied().filter(|look| *look < builds);
    let looks = earlier.chain([builds]);
    looks.map(|builds| builds * runs_per_build).collect()
}

/// Rounds the number of builds up to a multiple of the runs per block: the runs of a variant in a
/// block all execute different builds.
pub fn round_to_blocks(layout: LayoutVariation, runs_per_block: u32) -> LayoutVariation {
    let builds = layout.builds.next_multiple_of(runs_per_block.max(1));
    LayoutVariation { builds, ..layout }
}

/// Rejects plans whose programs cannot be laid out as requested.
///
/// # Errors
/// Fails with a message that explains the reason, and what can be varied instead.
pub fn check_layout(plan: &SessionPlan) -> anyhow::Result<()> {
    let layout = plan.design.layout;
    if layout.is_default() {
        return Ok(());
    }
    ensure!(
        !plan.shared,
        "the snippets share one process, which has only one layout\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !plan.is_search,
        "a search for the best concurrency compares numbers of workers, not builds\nhint: leave out --builds and \
         --layout"
    );
    ensure!(
        plan.design.order != RunOrder::Paired || !plan.design.shares_builds(),
        "'--order paired' needs separate builds for every pair, but {} runs share {} \
         builds\nhint: --builds {0}",
        plan.design.max_runs(),
        layout.builds,
    );
    plan.jobs.iter().try_for_each(|job| check_job(job, layout))
}

fn check_job(job: &BenchmarkJob, layout: LayoutVariation) -> anyhow::Result<()> {
    const HINT: &str = "hint: --layout env,stack varies the layout without another build";
    let (name, links) = (&job.source.name, layout.builds > 0 || layout.align);
    match job.source.kind {
        SourceKind::Load | SourceKind::Experiment => bail!(
            "'{name}' starts its own server and load processes, which --builds and --layout do not affect"
        ),
        SourceKind::Snippet(SnippetLanguage::Go) if layout.align => {
            bail!("Go has no option that aligns functions\nhint: leave out 'align'")
        }
        SourceKind::Cpp | SourceKind::Fake => Ok(()),
        SourceKind::Snippet(
            SnippetLanguage::C | SnippetLanguage::Cpp | SnippetLanguage::Rust | SnippetLanguage::Go,
        ) => Ok(()),
        SourceKind::Program | SourceKind::Suite if links => {
            bail!("'{name}' was built elsewhere and cannot be rebuilt here\n{HINT}")
        }
        SourceKind::Snippet(language) if links => {
            bail!("{language} is not linked, so there are no builds of '{name}'\n{HINT}")
        }
        SourceKind::Node | SourceKind::NodeCore | SourceKind::Python if links => {
            bail!("'{name}' is not linked, so there are no builds of it\n{HINT}")
        }
        _ => Ok(()),
    }
}

/// Suggests how many runs per build would have given the narrowest intervals in the same time;
/// `None` if builds had one run each or do not differ.
pub fn suggest_runs_per_build(session: &Session) -> Option<String> {
    let build_s = build_cost()?.as_secs_f64();
    let runs_s = session.runs.iter().map(|run| run.wall_ns as f64 / 1e9);
    let run_s = runs_s.sum::<f64>() / session.runs.len().max(1) as f64;
    let metric = session.metrics.first()?;
    let spreads = layout_spreads(session, &[metric]);
    let best_number = |spread: &LayoutSpread| spread.runs_per_build(build_s / run_s);
    // Of the best numbers of all cases, take the largest.
    let runs = spreads.iter().filter_map(best_number).max()?;
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    Some(format!(
        "in the same time, {runs} of every build would have been most informative: a build took \
         {build_s:.2} s, a run {run_s:.2} s"
    ))
}

//! Findings in, documents out, and documents written down.
//!
//! A report is a function from figures to a [`Document`]; a format renders any document
//! (`format/`), so that reports and formats add up. The only floor that formats numbers: units are in
//! `unit.rs`, digits and figures in `figure.rs`, tables in `table.rs`. Start with [`findings`], then
//! `comparison/` and `format/text/`.

mod backfill;
mod bisect;
mod browse;
mod calibrated;
mod case_labels;
mod changes;
mod charts;
mod circumstances;
mod comparison;
mod confirm;
mod datum;
mod doctor;
mod document;
mod experiment;
mod exported;
mod failures;
mod figure;
mod files;
mod fleet;
mod format;
mod gallery;
mod gate;
mod iterations;
mod live;
pub mod load;
mod outbox;
mod output;
mod parcels;
mod plan;
mod profile;
mod scaling;
pub mod session;
mod sessions;
mod settings;
pub mod snippet;
pub mod sources;
mod study;
mod summary;
mod table;
mod trend;
mod tune;
mod unit;
mod validity;
mod warmup;
mod watch;

pub use backfill::{BackfillLine, BackfillOutcome, backfill};
pub use bisect::bisect;
pub use browse::{
    CircumstanceChange, ProjectLine, benchmarks, calibrations, cases_of, circumstance_changes,
    machine, machines, nothing_measured, projects,
};
pub use calibrated::mark_known;
pub use changes::{OpenChanges, changes};
pub use charts::{ChartKind, CourseAxis, UnknownChart};
pub use circumstances::{circumstances, environment};
pub use confirm::{confirm, identical};
pub use datum::Datum;
pub use doctor::{
    CheckLine, calibration, calibration_check, checks, layouts, tuned_calibration, tuned_check,
};
pub use document::{Answer, Block, CaseView, Chart, Document};
pub use experiment::experiment;
pub use exported::{Exported, data_js, otava};
pub use failures::failures;
pub use figure::{
    Uncertainty, about, change, change_interval, change_with_interval, count, duration, moment,
    quantity, share, time_of,
};
pub use files::{Written, check_writable};
pub use fleet::{FleetFacts, FleetLine, fleet_machines};
pub use format::html;
pub use format::{
    Csv, Format, Html, Json, Markdown, Render, Text, UnknownFormat, visible, visible_line,
};
pub use gate::gate;
pub use iterations::{IterationsOfFile, IterationsOutcome, iterations};
pub use live::{LiveCase, LiveState, live, live_loads};
pub use outbox::{outbox, outbox_check};
pub use output::{Output, Verbosity, check_document, print};
pub use parcels::{ParcelRow, PartRow, fleet_cleaned, fleet_parcels, fleet_parts};
pub use plan::{CaseLine, Trial, cases, trial};
pub use profile::{ProfileSide, profiles, sections as profile_sections};
pub use sessions::{Page, sessions};
pub use settings::{ServedProject, Settings, audit, projects_served, settings, tokens};
pub use study::study;
pub use table::{Audience, Cell, Column, Emphasis, Kind, Name, Row, Table, mark};
pub use trend::trend;
pub use tune::{KnobLine, SettingLine, TunedMachine, knobs, not_restored, restored, tuned};
pub use unit::{Scale, UnitChoice, UnknownUnit};
pub use validity::validity;
pub use warmup::warmup;
pub use watch::{WatchLine, WatchLines};

use anyhow::{bail, ensure};
use charts::{MOST_DRAWN_RUNS, runs_of};
use speedwell_analysis::Findings;

/// The report of `findings`: the comparison, or the summary where there is nothing to compare, with
/// warnings, failures and charts.
///
/// # Errors
/// A unit that fits none of the metrics, or a chart that these findings do not have.
pub fn findings(findings: &Findings, output: &Output) -> anyhow::Result<Document> {
    check_unit(findings, output)?;
    let mut document = Document::default();
    document.push_warnings(&findings.warnings);
    document.append(validity(&findings.validity));
    if findings.summaries.is_empty() && findings.comparisons.is_empty() {
        document.push(Block::Headline("nothing was measured".into()));
    }
    // In large reports it would take as much memory as the comparison, which is shown without it.
    let summary = || summary::summary(&findings.summaries, output);
    if findings.comparisons.is_empty() {
        let summary = summary();
        document.report = summary.report;
        document.append(summary);
    } else {
        let comparison = comparison::comparison(findings, output);
        document.report = comparison.report;
        document.append(comparison);
        if output.verbosity == Verbosity::Verbose {
            document.push_heading(2, "Each side by itself");
            document.append(summary());
        }
    }
    document.append(failures(&findings.failures, output.verbosity));
    document.push_charts(charts::of_findings(findings, output.chart, output.unit)?);
    match runs_of(findings) {
        ..=MOST_DRAWN_RUNS => document.extend(gallery::gallery(findings, output)),
        runs => ensure!(
            !output.wants_page(),
            "a page draws every run of a report, and {runs} are more than a browser can hold (at most {MOST_DRAWN_RUNS})\n\
             hint: leave cases out (@latest::REGEX, --filter), or write Markdown: -o report.md"
        ),
    }
    Ok(document)
}

fn check_unit(findings: &Findings, output: &Output) -> anyhow::Result<()> {
    let Some(unit) = output.unit else {
        return Ok(());
    };
    let of_summaries = findings.summaries.iter().map(|summary| &summary.metric);
    let compared = findings.comparisons.iter().map(|found| &found.metric);
    let metrics: Vec<_> = of_summaries.chain(compared).collect();
    // Times per iteration are shown beside throughput and can be requested in any unit of time.
    let with_time = findings.comparisons.is_empty() && unit.fits("ns");
    let fits = |symbol: &str| unit.fits(symbol) || (with_time && symbol == "1/s");
    if metrics.is_empty() || metrics.iter().any(|metric| fits(&metric.unit)) {
        return Ok(());
    }
    let mut known: Vec<&str> = metrics.iter().map(|metric| metric.unit.as_str()).collect();
    known.dedup();
    bail!(
        "no metric can be shown in '{unit}' (they are measured in {})",
        known.join(", ")
    )
}

/// What a report that does not exist yet will be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Runs of one variant.
    Runs,
    /// Runs of several variants.
    Comparison,
    /// Runs by the values of a parameter.
    Study,
    /// Snippets.
    Snippets,
    /// Numbers of iterations of benchmark files.
    Iterations,
    /// A snippet with more and more workers.
    SnippetSearch,
    /// Series from the first iteration on.
    Warmup,
    /// A line of revisions.
    Bisection,
    /// Changes that are measured again.
    Confirmation,
    /// Series along a line of revisions.
    Trend,
    /// Changes along a line of revisions.
    Changes,
    /// HTTP loads.
    Loads,
    /// HTTP loads of more and more concurrency.
    LoadLevels,
    /// HTTP loads of higher and higher rates.
    LoadRates,
    /// Revisions that got their points later.
    Backfill,
}

/// Whether the charts of a report follow from what it is of, so that none can be chosen.
fn has_own_charts(measured: Subject) -> bool {
    use Subject::*;
    matches!(
        measured,
        Iterations
            | SnippetSearch
            | Warmup
            | Bisection
            | Confirmation
            | Backfill
            | LoadLevels
            | LoadRates
    )
}

/// Checks what was typed about a report before anything is measured for it.
///
/// # Errors
/// An unknown column to sort by, or a file that cannot be written.
pub fn check(output: &Output, measured: Subject) -> anyhow::Result<()> {
    files::check(&output.files)?;
    let is_course = matches!(measured, Subject::Trend | Subject::Changes);
    match output.chart {
        Some(kind) if is_course && kind != ChartKind::Trend => {
            bail!("results over revisions can be drawn as trend only")
        }
        Some(ChartKind::Trend) if !is_course => return Err(charts::not_a_course()),
        Some(_) if has_own_charts(measured) => {
            bail!("this report has charts of its own\nhint: leave out --chart")
        }
        _ => {}
    }
    let keys = match measured {
        Subject::Runs => summary::sort_keys(),
        Subject::Comparison => [comparison::sort_keys(), summary::sort_keys()].concat(),
        Subject::Study => study::sort_keys(),
        Subject::Snippets => [snippet::sort_keys(), comparison::sort_keys()].concat(),
        Subject::Iterations => iterations::sort_keys(),
        Subject::SnippetSearch => snippet::search_sort_keys(),
        Subject::Warmup => [warmup::sort_keys(), comparison::sort_keys()].concat(),
        Subject::Bisection => bisect::sort_keys(),
        Subject::Confirmation => [confirm::sort_keys(), comparison::sort_keys()].concat(),
        Subject::Trend => [trend::sort_keys(), changes::sort_keys()].concat(),
        Subject::Changes => changes::sort_keys(),
        Subject::Loads => load::sort_keys(),
        Subject::LoadLevels => [load::level_sort_keys(), load::sort_keys()].concat(),
        Subject::LoadRates => [load::rate_sort_keys(), load::sort_keys()].concat(),
        Subject::Backfill => backfill::sort_keys(),
    };
    output::sorts_by(output.sort.as_deref(), keys)
}

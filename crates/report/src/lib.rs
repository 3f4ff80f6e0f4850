//! Turns findings into documents, and writes documents.
//!
//! A report is a function from findings to a [`Document`], and a format renders any document
//! (`format/`). Reports and formats are therefore independent. Most numbers in reports are
//! formatted here: `unit.rs` has the units, `figure.rs` the number of digits, `table.rs` the tables
//! and the declaration of their columns, and `cell.rs` their cells. Start with [`report_findings`],
//! then `comparison/` and `format/text/`.

mod browse;
mod case_labels;
mod case_trend;
mod cell;
mod changes;
mod charts;
mod comparison;
mod doctor;
mod document;
mod experiment;
mod failures;
mod feed;
mod figure;
mod findings;
mod fleet;
mod format;
mod gallery;
mod glossary;
mod home;
mod live;
pub mod load;
mod markdown_blocks;
mod measurement_details;
mod output;
mod profile;
mod revisions;
mod series_change;
mod series_list;
pub mod session;
mod session_list;
pub mod snippet;
pub mod sources;
mod study;
mod summary;
mod table;
#[cfg(test)]
mod table_keys_tests;
mod trend;
mod unit;
mod warmup;

pub use browse::*;
pub use case_trend::{
    CaseTrend, bisect_command, change_table, list_other_metrics, report_case_trend, series_answer,
};
pub use changes::{ChangeList, OpenChanges, report_change_list, report_changes};
pub use charts::{ChartKind, ChartRequest, TrendXAxis, UnknownChart};
pub use comparison::shows_commands;
pub use doctor::*;
pub use document::{
    CaseAnswer, CaseView, Document, LinkedText, ReportBlock, ReportChart, SessionLine,
};
pub use experiment::report_experiment;
pub use failures::{report_failures, report_gate, report_validity};
pub use feed::{AtomFeed, FeedEntry, open_change_entries, render_feed, session_entry};
pub use figure::{
    Uncertainty, format_about, format_change, format_change_interval, format_count,
    format_duration, format_interval, format_moment, format_quantity, format_rate, format_share,
    parse_time,
};
pub use findings::{StudyChoice, report_findings, report_requested};
pub use fleet::*;
pub use format::{
    Csv, Html, Json, Markdown, RenderDocument, ReportFormat, TextFormat, UnknownFormat,
    escape_controls, escape_line, html, quote_field,
};
pub use home::*;
pub use live::*;
pub use markdown_blocks::{markdown_answer, markdown_blocks};
pub use measurement_details::{report_environment, report_measurement_details};
pub use output::{
    OutputOptions, Verbosity, WrittenFile, check_document, check_writable, numbered_path,
    print_document,
};
pub use profile::{ProfileSide, profile_sections, report_profiles};
pub use revisions::*;
pub use series_list::report_trends;
pub use session::{
    CaseLine, SessionsPage, TrialOutcome, list_planned_cases, list_sessions,
    list_sessions_with_answers, report_trial, session_answer,
};
pub use session_list::{SessionResult, list_sessions_on_page, session_result};
pub use study::report_study;
pub use table::{
    CellForm, ColumnAudience, ColumnKind, Datum, ReportCell, ReportColumn, ReportRow, ReportTable,
    RowName, TextEmphasis, superscript_number,
};
pub use trend::{ExportedHistory, export_data_js, export_otava, report_trend};
pub use unit::{FigureScale, UnitChoice, UnknownUnit};
pub use warmup::{IterationsOfFile, IterationsOutcome, report_iterations, report_warmup};

use anyhow::bail;

/// The subject of a report, before anything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportSubject {
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
    /// Snippets by the number of workers.
    SnippetSearch,
    /// Series recorded from the first iteration.
    Warmup,
    /// Revisions that are searched for the one that introduced a change.
    Bisection,
    /// Suspected changes measured again.
    Confirmation,
    /// Series over revisions.
    Trend,
    /// Changes over revisions.
    Changes,
    /// HTTP loads.
    Loads,
    /// HTTP loads of increasing concurrency.
    LoadLevels,
    /// HTTP loads of increasing rate.
    LoadRates,
    /// Revisions measured after the fact.
    Backfill,
}

/// Checks the output options of a report before anything is measured for it.
///
/// # Errors
/// Fails if the sort column is unknown, if the chart does not suit the subject, or if a file cannot
/// be written.
pub fn check_output(output: &OutputOptions, measured: ReportSubject) -> anyhow::Result<()> {
    use ReportSubject::*;
    output::check_files(&output.files)?;
    let is_course = matches!(measured, Trend | Changes);
    // Other subjects determine the charts.
    let has_choice = is_course || matches!(measured, Runs | Comparison | Study | Snippets | Loads);
    match output.chart {
        Some(kind) if is_course && kind != ChartKind::Trend => bail!(
            "this chart cannot show results over revisions: the only supported chart is trend"
        ),
        Some(ChartKind::Trend) if !is_course => return Err(charts::not_a_trend()),
        Some(_) if !has_choice => {
            bail!("--chart cannot choose the charts of this report\nhint: leave out --chart")
        }
        _ => {}
    }
    output::sorts_by(output.sort.as_deref(), sort_keys(measured))
}

/// Returns the keys by which the tables of a report can be sorted.
fn sort_keys(measured: ReportSubject) -> Vec<&'static str> {
    use ReportSubject::*;
    let compared = comparison::sort_keys;
    let summarized = || summary::summary_columns("", Verbosity::Normal).sort_keys();
    let changed = || changes::change_columns().sort_keys();
    match measured {
        Runs => summarized(),
        Comparison => [compared(), summarized()].concat(),
        Study => study::point_columns("x").sort_keys(),
        Snippets => [snippet::snippet_columns(true, true, None).sort_keys(), compared()].concat(),
        Iterations => warmup::iterations_columns("n").sort_keys(),
        SnippetSearch => snippet::level_columns().sort_keys(),
        Warmup => [warmup::sort_keys(), compared()].concat(),
        Bisection => revisions::bisect_sort_keys(),
        Confirmation => [revisions::confirm_columns().sort_keys(), compared()].concat(),
        Trend => [trend::sort_keys(), changed()].concat(),
        Changes => changed(),
        Loads => load::sort_keys(),
        LoadLevels => [load::level_sort_keys(), load::sort_keys()].concat(),
        LoadRates => [load::rate_sort_keys(), load::sort_keys()].concat(),
        Backfill => revisions::backfill_columns().sort_keys(),
    }
}

//! Builds the report of `history changes`: what changed from revision to revision.
//!
//! Start at [`report_changes`], or at [`report_change_list`] for a page. `series_change.rs` puts a
//! change into words.

use crate::cell::{verdict_emphasis, verdict_symbol};
use crate::charts::TrendXAxis;
use crate::document::{Document, ReportBlock};
use crate::figure::{format_count, format_setting, format_share, format_signed, unless_empty};
use crate::format::ReportFormat;
use crate::gallery::trend_blocks;
use crate::output::OutputOptions;
use crate::series_change::{SeriesChange, case_phrase, causes_text, series_changes};
use crate::table::{ColumnSet, ReportCell, ReportTable, column_set};
use serde_json::json;
use speedwell_analysis::history::{CommonChange, ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendSearch;
use speedwell_model::{
    ChangeState, ChangeTriage, Metric, MetricDirection, RecordedChange, Verdict, name_variants,
    quote, short_revision,
};

/// The machine-readable name of the tables.
const CHANGES_TABLE: &str = "changes";

/// A table with more changes is collapsed in Markdown.
const MAX_UNFOLDED_CHANGES: usize = 20;

/// Reports the changes that pass `is_shown`: first the established ones, then those that are only
/// suspected. Each part is in the order of the revisions.
pub fn report_changes(
    history: &ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("changes");
    let lines = history_lines(history, is_shown);
    let (suspected, known): (Vec<SeriesChange<'_>>, Vec<SeriesChange<'_>>) =
        (lines.into_iter()).partition(|line| line.change.state == ChangeState::Suspected);
    let open = OpenChanges::count_open(known.iter().chain(&suspected));
    document.push_headline(open.sentence(history));
    // The table is added even if it is empty, so that programs find it.
    if !known.is_empty() || suspected.is_empty() {
        document.push(changes_block(&known, output));
    }
    if !suspected.is_empty() {
        document.push_heading(2, "Suspected: worth measuring again");
        document.push(changes_block(&suspected, output));
    }
    let is_selected =
        |series: &SeriesTrend| series.trend.changes.iter().any(|change| is_shown(series, change));
    document.extend(trend_blocks(history, TrendXAxis::Revision, output, &is_selected, is_shown));
    document.push_notes(history.notes.iter().cloned());
    output.add_detail(&mut document, |_, document| document.push_notes(changes_notes(history)));
    document.attach_data("line", json!(history.branch_name()));
    document
}

/// The lists of changes on a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChangeList {
    /// Everything that needs triage, as in `history changes --open`.
    #[default]
    Open,
    /// The part of it that is only suspected.
    Suspected,
    /// What a person has triaged.
    Judged,
}

name_variants!(ChangeList: Open = "open", Suspected = "suspected", Judged = "judged");

impl ChangeList {
    /// Whether a change is on the list.
    pub fn contains(self, change: &RecordedChange) -> bool {
        match self {
            ChangeList::Open => change.is_open(),
            ChangeList::Suspected => change.is_open() && change.state == ChangeState::Suspected,
            ChangeList::Judged => change.triage != ChangeTriage::Open,
        }
    }

    /// Counts the changes on the list.
    pub fn count_changes(self, history: &ProjectHistory) -> usize {
        let changes = history.series.iter().flat_map(|series| &series.trend.changes);
        changes.filter(|change| self.contains(change)).count()
    }
}

/// Reports a list of changes; the changes judged last come first.
pub fn report_change_list(
    history: &ProjectHistory,
    list: ChangeList,
    output: &OutputOptions,
) -> Document {
    if list == ChangeList::Open {
        return report_changes(history, &|_, change| change.is_open(), output);
    }
    let mut lines = history_lines(history, &|_, change| list.contains(change));
    if list == ChangeList::Judged {
        lines.sort_by_key(|line| std::cmp::Reverse(line.change.triaged_unix_ms));
    }
    let [one, several] = ["change", "changes"].map(|noun| format!("{} {noun}", list.name()));
    let mut document = Document::new("changes");
    document.push_headline(format_count(lines.len(), &one, &several));
    document.push(changes_block(&lines, output));
    document.attach_data("line", json!(history.branch_name()));
    document
}

/// Returns the open changes, in the order of the revisions.
pub(crate) fn open_change_lines(history: &ProjectHistory) -> Vec<SeriesChange<'_>> {
    history_lines(history, &|_, change| change.is_open())
}

/// Builds a table of one series' changes, for the report of the series' trend.
pub(crate) fn changes_table(series: &SeriesTrend, history: &ProjectHistory) -> Option<ReportTable> {
    let lines = series_changes(series, history);
    (!lines.is_empty()).then(|| change_columns().build_table(CHANGES_TABLE, &lines))
}

/// Numbers of changes that no person has triaged and that are neither refuted nor withdrawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenChanges {
    /// Established changes.
    pub known: usize,
    /// Established changes for the worse.
    pub worse: usize,
    /// Established changes for the better.
    pub better: usize,
    /// Changes that are only suspected.
    pub suspected: usize,
}

impl OpenChanges {
    /// Counts the open changes of a history.
    pub fn from_history(history: &ProjectHistory) -> OpenChanges {
        OpenChanges::count_open(&history_lines(history, &|_, _| true))
    }

    fn count_open<'a, 'b: 'a>(
        lines: impl IntoIterator<Item = &'a SeriesChange<'b>>,
    ) -> OpenChanges {
        let mut open = OpenChanges::default();
        for line in lines.into_iter().filter(|line| line.change.is_open()) {
            if line.change.state == ChangeState::Suspected {
                open.suspected += 1;
                continue;
            }
            open.known += 1;
            open.worse += usize::from(line.verdict == Verdict::Worse);
            open.better += usize::from(line.verdict == Verdict::Better);
        }
        open
    }

    /// Summarizes a history: the number of open changes or, if there are none, the smallest change
    /// that the search would have found.
    pub fn sentence(&self, history: &ProjectHistory) -> String {
        let searched = history.series.iter().filter(|series| series.trend.is_searched()).count();
        if history.series.is_empty() {
            return "no series has a point on this branch".into();
        }
        if searched == 0 {
            return "no series is long enough to search for changes".into();
        }
        let branch = unless_empty(history.branch_name(), |line| format!(" on '{line}'"));
        let searched_series = format_count(searched, "series", "series");
        let suspicions = unless_empty(self.suspected, |count| format!(", {count} suspected"));
        match self.known {
            0 => {
                let visible = detectable_change(history).unwrap_or_default();
                format!("no open change in {searched_series}{branch}{suspicions}{visible}")
            }
            count => format!(
                "{} in {searched_series}{branch}: {} worse, {} better{suspicions}",
                format_count(count, "open change", "open changes"),
                self.worse,
                self.better
            ),
        }
    }
}

fn history_lines<'a>(
    history: &'a ProjectHistory,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
) -> Vec<SeriesChange<'a>> {
    let series = history.series.iter();
    let mut lines: Vec<SeriesChange<'_>> =
        series.flat_map(|series| series_changes(series, history)).collect();
    lines.retain(|line| is_shown(line.series, line.change));
    lines.sort_by_key(|line| line.series.trend.revision_position(&line.change.after));
    lines
}

/// Builds a table. In Markdown, a long table is collapsed, because Markdown is usually embedded in
/// comments and summaries.
fn changes_block(lines: &[SeriesChange<'_>], output: &OutputOptions) -> ReportBlock {
    let table = ReportBlock::Table(change_columns().build_table(CHANGES_TABLE, lines));
    let is_markdown = output.format == Some(ReportFormat::Markdown);
    if !is_markdown || lines.len() <= MAX_UNFOLDED_CHANGES {
        return table;
    }
    ReportBlock::appendix(format_count(lines.len(), "change", "changes"), vec![table])
}

/// The columns of the tables.
pub(crate) fn change_columns<'a>() -> ColumnSet<SeriesChange<'a>> {
    column_set! { line: SeriesChange<'a>;
        figure("number", "no.") =>
            ReportCell::from(line.change.number)
                .with_text(line.change.number.to_string())
                .shown_if(line.change.number > 0),
        words("verdict", "verdict").facet() => verdict_cell(line.verdict),
        figure("change", "change") =>
            ReportCell::from(line.relative_change().value).with_text(line.size_text(true)),
        machine("change_low") => line.relative_change().low,
        machine("change_high") => line.relative_change().high,
        label("case", "case") => case_phrase(line.series),
        words("metric", "metric").expendable(1) => &line.series.key.metric.name,
        machine("before") => &line.change.before,
        machine("after") => &line.change.after,
        words("between", "between").for_people() => ReportCell::text(line.between()),
        machine("revisions") => line.series.trend.revisions_between(line.change),
        words("subject", "subject").expendable(3) => line.subject(),
        machine("evidence") => line.change.evidence,
        words("state", "state") =>
            ReportCell::from(line.change.state.to_string()).with_text(line.state_text()),
        machine("drift") => line.change.is_drift,
        words("triage", "triage") =>
            ReportCell::from(line.change.triage.to_string()).with_text(line.triage_text()),
        machine("note") => line.change.note.as_deref().unwrap_or_default(),
        words("causes", "also changed").expendable(2) => causes_text(line.causes),
    }
}

fn verdict_cell(verdict: Verdict) -> ReportCell {
    ReportCell::marked(verdict.to_string(), verdict_symbol(verdict), verdict_emphasis(verdict))
}

/// Says how large a change must be for the search to find it. Without this sentence, "no change"
/// would claim too much.
fn detectable_change(history: &ProjectHistory) -> Option<String> {
    let searched = history.series.iter().filter(|series| series.trend.is_searched());
    let ratios = searched.filter_map(|series| series.trend.smallest_visible);
    let smallest = ratios.clone().reduce(f64::min)?;
    let largest = ratios.reduce(f64::max)?;
    let [smallest, largest] = [smallest, largest].map(|ratio| format_share(ratio - 1.0));
    let size = if smallest == largest {
        format!("{smallest} or more")
    } else {
        format!("{smallest} to {largest}, depending on the series,")
    };
    Some(format!("; a change of {size} would show after about 20 points"))
}

/// Explains `~` in front of a size.
const APPROXIMATE_NOTE: &str = "'~': approximate, because a change found by a search looks larger \
    than it is; measure both sides again to learn its actual size.";

fn changes_notes(history: &ProjectHistory) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = history.series.iter().filter_map(|series| match series.trend.search {
        TrendSearch::TooShort(missing) => Some(missing),
        _ => None,
    });
    let missing: Vec<usize> = missing.collect();
    if let Some(fewest) = missing.iter().min() {
        notes.push(format!(
            "{} too short to search for changes: the longest needs another {}; to compare two \
             revisions now, use 'speedwell compare --old rev:OLD --new rev:NEW'.",
            format_count(missing.len(), "series is", "series are"),
            format_count(*fewest, "point", "points")
        ));
    }
    for series in &history.series {
        if let TrendSearch::Impossible(reason) = series.trend.search {
            notes.push(format!("'{}' cannot be searched: {reason}.", series.key.case));
        }
        if let Some(index) = series.trend.machine_swap {
            let revision = &series.trend.points[index].revision.id;
            notes.push(format!(
                "'{}': the machine and the code both changed at {}, so their effects cannot be \
                 separated. To separate them, measure an older revision on the new machine.",
                series.key.case,
                short_revision(revision)
            ));
        }
    }
    notes.extend(history.common_changes().iter().map(common_change_note));
    notes.extend(split_series_notes(history));
    if history.unplaced_points > 0 {
        notes.push(format!(
            "{} left out, because the measured revision is not on this branch.",
            format_count(history.unplaced_points, "point is", "points are")
        ));
    }
    if history.threshold > 0.0 {
        notes.push(format!(
            "A change is worse or better if its whole interval is beyond {}.",
            format_setting(history.threshold)
        ));
    }
    notes.push(APPROXIMATE_NOTE.to_owned());
    notes
}

/// Returns notes on pairs of series in which one series may continue the other: the metric is now
/// measured differently, or the case was renamed.
fn split_series_notes(history: &ProjectHistory) -> Vec<String> {
    let metrics = history.changed_metrics().into_iter().map(|[old, new]| {
        format!(
            "'{}' has two series: '{}' was first measured {}, and is now measured {}.",
            old.case,
            old.metric.name,
            metric_phrase(&old.metric),
            metric_phrase(&new.metric)
        )
    });
    let renames = history.possible_renames().into_iter().map(|(old, new)| {
        let [from, to] = [old, new].map(quote);
        format!("Did '{old}' become '{new}'? If so, use: speedwell history rename {from} {to}")
    });
    metrics.chain(renames).collect()
}

/// Describes unit and direction of a metric, as in `in 'ns' (less is better)`.
fn metric_phrase(metric: &Metric) -> String {
    let better = match metric.better {
        MetricDirection::Higher => "more is better",
        MetricDirection::Lower => "less is better",
        MetricDirection::Unknown => "the preferred direction is unknown",
    };
    match &*metric.unit {
        "" => format!("without a unit ({better})"),
        unit => format!("in '{unit}' ({better})"),
    }
}

/// Returns a note, with advice, on a change that nearly all cases share.
fn common_change_note(common: &CommonChange<'_>) -> String {
    let [smallest, largest] = common.ratios.map(|ratio| match ratio {
        f64::INFINITY => "from 0".to_owned(),
        _ => format!("{}%", format_signed((ratio - 1.0) * 100.0, 1)),
    });
    format!(
        "{} of {} cases changed together near {} ({}, {smallest} to {largest}): suspect something \
         they share, such as the machine or a runtime, rather than the code of a single case. \
         To check, measure both sides on one machine with 'speedwell confirm'{}.",
        common.changed,
        common.searched,
        short_revision(common.after),
        common.metric,
        if common.metric == Metric::CPU_TIME {
            ""
        } else {
            "; '--metric cpu_time', if it was measured, excludes the time spent waiting for other programs"
        },
    )
}

//! Builds `/PROJECT/trend`, the page that corresponds to `speedwell history trend`.

use crate::dashboard::address::{PageFormat, nearest_names};
use crate::dashboard::lookups::TrendQuery;
use crate::dashboard::page::trends::{is_list, trends_page};
use crate::dashboard::page::{
    PageContent, PageContext, PageResult, link_by, link_column, named_options,
};
use crate::http::HttpError;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendPoint;
use speedwell_report::html::{PageForm, PageLink};
use speedwell_report::{self as report, Document, ReportBlock, TrendXAxis};

/// Maximum number of series on a page.
const MAX_SERIES: usize = 40;

/// Maximum number of points that a page lists.
const MAX_ROWS: usize = 100;
/// Maximum number of points that a standalone HTML file lists. Other formats list all points.
const MAX_FILE_ROWS: usize = 1_000;

/// Query keys.
const QUERY_KEYS: [&str; 8] =
    ["case", "metric", "variant", "branch", "machine", "from", "to", "space"];

pub fn trend_page(context: PageContext<'_>) -> PageResult {
    if is_list(context) {
        return trends_page(context);
    }
    context.query.check_names(&QUERY_KEYS)?;
    let value_of = |name| context.query.get(name).map(str::to_owned);
    let axis = trend_axis(context)?;
    let trend_query = TrendQuery {
        branch: value_of("branch"),
        case: value_of("case"),
        metrics: value_of("metric").into_iter().collect(),
        includes_details: true,
    };
    let history = context.project.load_history(&trend_query)?;
    let variant = context.query.get("variant");
    let is_selected =
        |series: &&SeriesTrend| variant.is_none_or(|variant| series.key.variant == variant);
    let selected: Vec<&SeriesTrend> = history.series.iter().filter(is_selected).collect();
    if selected.is_empty() && (trend_query.case.is_some() || variant.is_some()) {
        return Err(unknown_series(context, &trend_query)?);
    }
    let omitted = selected.len().saturating_sub(MAX_SERIES);
    let filter = PointFilter::from_query(context)?;
    let parts = selected.into_iter().take(MAX_SERIES);
    let parts =
        parts.filter_map(|series| series.restrict_points(|point| filter.matches_point(point)));
    let shown_history = ProjectHistory { series: parts.collect(), ..without_series(&history) };
    let max_rows = match context.format {
        PageFormat::Page => MAX_ROWS,
        PageFormat::Document(report::ReportFormat::Html) => MAX_FILE_ROWS,
        PageFormat::Document(_) | PageFormat::JsonLines => usize::MAX,
    };
    let mut document =
        report::report_trend(&shown_history, axis, max_rows, &context.report_options());
    document.blocks.splice(0..0, note_shortened(&shown_history, max_rows));
    if omitted > 0 {
        let note = format!(
            "{MAX_SERIES} of {} series are shown; the page of a benchmark links to the trend of each case.",
            omitted + MAX_SERIES
        );
        document.blocks.insert(0, ReportBlock::Note(note));
    }
    link_tables(&mut document, context);
    let own_href = context.page_href(&format!("trend{}", context.query.to_query_string()));
    let mut crumbs = vec![context.page_link("trend", "trend")];
    crumbs.extend(trend_query.case.map(|case| PageLink::new(own_href, case)));
    Ok(PageContent {
        crumbs,
        filters: Some(trend_form(context)?),
        is_cacheable: true,
        ..PageContent::from_document(document)
    })
}

/// Returns the horizontal axis of the charts.
fn trend_axis(context: PageContext<'_>) -> Result<TrendXAxis, HttpError> {
    match context.query.get("space") {
        None | Some("revision") => Ok(TrendXAxis::Revision),
        Some("time") => Ok(TrendXAxis::Time),
        Some(other) => Err(HttpError::bad_request(format!("unknown axis '{other}'"))
            .with_hint("use space=revision or space=time")),
    }
}

/// Links the tables to revisions, sessions and trends.
fn link_tables(document: &mut Document, context: PageContext<'_>) {
    let string = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    link_column(document, "points", "revision", |id| Some(context.revision_href(&string(id)?)));
    context.link_numbers(document, "points", "session");
    link_by(document, "changes", ["case", "case"], |case| Some(context.trend_href(&string(case)?)));
}

/// Filter for the points to show. Levels and changes always come from the whole series.
#[derive(Debug, Default)]
struct PointFilter {
    machine: Option<u32>,
    /// Earliest time to show, in milliseconds since the Unix epoch; `to` is the latest.
    from: Option<i64>,
    to: Option<i64>,
}

impl PointFilter {
    fn from_query(context: PageContext<'_>) -> Result<PointFilter, HttpError> {
        let time = |name: &str, is_end| {
            let time = context.query.get(name).map(|text| {
                report::parse_time(text, is_end).ok_or_else(|| {
                    HttpError::bad_request(format!("cannot parse time '{text}'")).with_hint(
                        format!("use {name}=2026-03-01 or {name}=2026-03-01T12:30 (UTC)"),
                    )
                })
            });
            time.transpose()
        };
        let (from, to) = (time("from", false)?, time("to", true)?);
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            return Err(HttpError::bad_request("'from' is after 'to'"));
        }
        let machine = context.query.get_number("machine")?;
        let machines = context.store.machine_titles()?;
        if let Some(number) = machine
            && !machines.iter().any(|(listed, _)| *listed == number)
        {
            return Err(HttpError::not_found(format!("machine {number} not found"))
                .with_nearest(vec![(context.page_href("machines"), "machines".into())]));
        }
        Ok(PointFilter { machine: machine.and_then(|number| u32::try_from(number).ok()), from, to })
    }

    /// Filters by the commit time, or by the measurement time if the commit time is unknown.
    fn matches_point(&self, point: &TrendPoint) -> bool {
        let time = point.revision.committed_unix_ms.unwrap_or(point.at_unix_ms);
        self.machine.is_none_or(|machine| machine == point.machine)
            && self.from.is_none_or(|from| time >= from)
            && self.to.is_none_or(|to| time <= to)
    }
}

/// Returns a note if the tables omit the oldest points.
fn note_shortened(history: &ProjectHistory, max_rows: usize) -> Option<ReportBlock> {
    let points = history.series.iter().map(|series| series.trend.points.len());
    let omitted: usize = points.map(|points| points.saturating_sub(max_rows)).sum();
    (omitted > 0).then(|| {
        ReportBlock::Note(format!(
            "The {omitted} oldest points are in the charts but not in the tables, which have at most {max_rows} rows. \
             Select other points with 'from' and 'to'; JSON and CSV contain all of them."
        ))
    })
}

/// Copies a history without its series.
fn without_series(history: &ProjectHistory) -> ProjectHistory {
    ProjectHistory {
        line: history.line.clone(),
        threshold: history.threshold,
        series: Vec::new(),
        machines: history.machines.clone(),
        labels: history.labels.clone(),
        landmarks: history.landmarks.clone(),
        target: history.target.clone(),
        unplaced_points: history.unplaced_points,
        notes: history.notes.clone(),
    }
}

fn unknown_series(
    context: PageContext<'_>,
    trend_query: &TrendQuery,
) -> Result<HttpError, HttpError> {
    let Some(case) = &trend_query.case else {
        return Ok(HttpError::not_found("no series for this variant"));
    };
    let series = context.store.list_series()?;
    let mut cases: Vec<&str> = series.iter().map(|series| &*series.key.case).collect();
    cases.sort_unstable();
    cases.dedup();
    let pages = nearest_names(case, cases)
        .into_iter()
        .map(|case| (context.trend_href(case), case.to_owned()));
    Ok(HttpError::not_found(format!("no points of '{case}' on this branch"))
        .with_nearest(pages.collect()))
}

fn trend_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, _] = context.store.branches_and_tags()?;
    let field = |name, placeholder, options| context.query_field(name, placeholder, options);
    let spaces = [("", "revisions"), ("time", "time")]
        .map(|(value, label)| (value.to_owned(), label.to_owned()));
    Ok(PageForm {
        action: context.page_href("trend"),
        title: "Filter".into(),
        button: "Show".into(),
        set: context.set_filters("trend", &QUERY_KEYS),
        fields: vec![
            field("case", "all", Vec::new()),
            field("metric", "primary", Vec::new()),
            field("variant", "any", Vec::new()),
            field("branch", "", named_options("default", branches)),
            field("machine", "", context.machine_options()?),
            field("from", "2026-03-01", Vec::new()),
            field("to", "2026-03-31", Vec::new()),
            field("space", "", spaces.to_vec()),
        ],
    })
}

//! Builds `/PROJECT/trend`, the page that corresponds to `speedwell history trend`. Without a case, it
//! is a list of all series of a branch, which can be searched.

use crate::clients::forge::RepositoryPages;
use crate::dashboard::TrendQuery;
use crate::dashboard::address::{PageFormat, encode_segment, nearest_links};
use crate::dashboard::page::changes::changes_table;
use crate::dashboard::page::revision::repository_pages;
use crate::dashboard::page::{
    MAX_AGE, PageContent, PageContext, PageResult, link_column, named_options,
};
use crate::dashboard::site::unix_ms;
use crate::http::HttpError;
use serde_json::Value;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendPoint;
use speedwell_model::{Case, RecordedChange, SeriesKey, quote, short_revision};
use speedwell_report::html::{FormField, PageForm, PageLink, RowChoice};
use speedwell_report::{
    self as report, ChangeList, Document, ReportBlock, ReportTable, TrendXAxis,
};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of series on a page.
const MAX_SERIES: usize = 40;

/// Maximum number of other metrics of a case that its page lists.
const MAX_OTHER_METRICS: usize = 8;

/// Maximum number of points that a page lists.
const MAX_ROWS: usize = 100;
/// Maximum number of points that a standalone HTML file lists. Other formats list all points.
const MAX_FILE_ROWS: usize = 1_000;

/// Query keys.
const QUERY_KEYS: [&str; 9] =
    ["case", "metric", "variant", "branch", "machine", "from", "to", "axis", OLD_AXIS_KEY];

/// Earlier name of the key `axis`, for addresses that people have kept.
const OLD_AXIS_KEY: &str = "space";

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
    let is_page = matches!(context.format, PageFormat::Page | PageFormat::Picture);
    if let (true, Some(case)) = (is_page, &trend_query.case) {
        return CasePage::select(context, &history, &selected, case)?.build(axis);
    }
    let omitted = selected.len().saturating_sub(MAX_SERIES);
    let filter = PointFilter::from_query(context)?;
    let parts = selected.into_iter().take(MAX_SERIES);
    let parts =
        parts.filter_map(|series| series.restrict_points(|point| filter.matches_point(point)));
    let shown_history = with_series(&history, parts.collect());
    let max_rows = match context.format {
        PageFormat::Page => MAX_ROWS,
        PageFormat::Document(report::ReportFormat::Html) => MAX_FILE_ROWS,
        PageFormat::Document(_) | PageFormat::JsonLines | PageFormat::Picture => usize::MAX,
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
    Ok(PageContent {
        crumbs: vec![context.page_link("trend", "trend")],
        filters: Some(trend_form(context)?),
        is_cacheable: true,
        ..PageContent::from_document(document)
    })
}

/// Whether the request asks for the list of series: for a page, and with no key that selects a case
/// or a part of a trend. Other formats contain the points of all series.
fn is_list(context: PageContext<'_>) -> bool {
    context.format == PageFormat::Page
        && QUERY_KEYS
            .iter()
            .all(|name| LIST_KEYS.contains(name) || context.query.get(name).is_none())
}

fn requested_axis(context: PageContext<'_>) -> Option<&str> {
    context.query.get("axis").or_else(|| context.query.get(OLD_AXIS_KEY))
}

/// Builds the field for the horizontal axis, with these names of commits and of time.
fn axis_field(context: PageContext<'_>, label: &str, names: [&str; 2]) -> FormField {
    let [commits, time] = names.map(str::to_owned);
    let options = vec![(String::new(), commits), ("time".to_owned(), time)];
    FormField {
        label: label.to_owned(),
        value: requested_axis(context).unwrap_or_default().to_owned(),
        ..context.query_field("axis", "", options)
    }
}

/// Returns the horizontal axis of the charts.
fn trend_axis(context: PageContext<'_>) -> Result<TrendXAxis, HttpError> {
    match requested_axis(context) {
        None | Some("revision") => Ok(TrendXAxis::Revision),
        Some("time") => Ok(TrendXAxis::Time),
        Some(other) => Err(HttpError::bad_request(format!("unknown axis '{other}'"))
            .with_hint("use axis=revision or axis=time")),
    }
}

/// Links the tables to revisions, sessions and trends.
fn link_tables(document: &mut Document, context: PageContext<'_>) {
    link_column(document, "points", "revision", |id| Some(context.revision_href(id.as_str()?)));
    context.link_numbers(document, "points", "session");
    link_column(document, "changes", "case", |case| Some(context.trend_href(case.as_str()?)));
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
        let time = point.time_unix_ms();
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

/// Copies a history with other series.
fn with_series(history: &ProjectHistory, series: Vec<SeriesTrend>) -> ProjectHistory {
    ProjectHistory {
        line: history.line.clone(),
        threshold: history.threshold,
        series,
        machines: history.machines.clone(),
        labels: history.labels.clone(),
        authors: history.authors.clone(),
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
    let cases: BTreeSet<&str> = series.iter().map(|series| &*series.key.case).collect();
    Ok(HttpError::not_found(format!("no points of '{case}' on this branch"))
        .with_nearest(nearest_links(case, cases, |case| context.trend_href(case))))
}

/// The page about one series of a case.
struct CasePage<'a> {
    context: PageContext<'a>,
    history: &'a ProjectHistory,
    /// The whole series.
    series: &'a SeriesTrend,
    /// The metrics and the variants of the case.
    metrics: Vec<String>,
    variants: Vec<String>,
    /// The pages of the repository on its forge, if the server comments on its pull requests.
    repository: Option<RepositoryPages>,
}

impl<'a> CasePage<'a> {
    /// Selects the first of `selected` or, if there is one, the series of the default variant.
    fn select(
        context: PageContext<'a>,
        history: &'a ProjectHistory,
        selected: &[&'a SeriesTrend],
        case: &str,
    ) -> Result<CasePage<'a>, HttpError> {
        let default = selected.iter().find(|series| series.key.variant == "default");
        let series = *default
            .or(selected.first())
            .ok_or_else(|| HttpError::not_found(format!("no points of '{case}'")))?;
        let mut page = CasePage {
            context,
            history,
            series,
            metrics: vec![series.key.metric.name.clone()],
            variants: vec![series.key.variant.clone()],
            repository: repository_pages(context)?,
        };
        for stored in context.store.series_of_case(&series.key.case)? {
            let SeriesKey { variant, metric, .. } = stored.key;
            for (names, name) in [(&mut page.metrics, metric.name), (&mut page.variants, variant)] {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(page)
    }

    fn build(&self, axis: TrendXAxis) -> PageResult {
        let context = self.context;
        let filter = PointFilter::from_query(context)?;
        let part = self.series.restrict_points(|point| filter.matches_point(point));
        let shown = with_series(self.history, part.into_iter().collect());
        let trend =
            report::CaseTrend { whole: self.series, shown: &shown, axis, max_rows: MAX_ROWS };
        let tables = self.change_tables(&shown);
        let has_change = shown.series.iter().any(|series| !series.trend.changes.is_empty());
        let target = has_change.then(|| self.measured_file()).flatten();
        let blocks_of = |change: &RecordedChange| -> Vec<ReportBlock> {
            let table = report::change_table(
                self.series,
                &shown,
                change,
                &tables,
                [self.comparison_link(change), self.commit_link(change)],
            );
            let command = report::bisect_command(self.series, change, target.as_deref());
            table.map(ReportBlock::Table).into_iter().chain(command).collect()
        };
        let options = context.report_options();
        let mut document =
            report::report_case_trend(&trend, self.list_others(), &blocks_of, &options);
        link_tables(&mut document, context);
        let own_href = context.page_href(&format!("trend{}", context.query.to_query_string()));
        let case = self.series.key.case.clone();
        Ok(PageContent {
            crumbs: context.crumbs("trend", own_href, case),
            links: self.list_links(!shown.series.is_empty()),
            filters: Some(self.switches()?),
            choice: Some(RowChoice {
                table: "points",
                button: "Compare the two selected points".into(),
                ..context.row_choice()
            }),
            is_cacheable: true,
            ..PageContent::from_document(document)
        })
    }

    /// Returns the tables of changes with the forms for their triage.
    fn change_tables(&self, shown: &ProjectHistory) -> Vec<ReportTable> {
        let tables = ChangeList::ALL.map(|list| {
            let document = changes_table(self.context, shown, list);
            document.tables().cloned().collect::<Vec<_>>()
        });
        tables.concat()
    }

    /// Returns the file of the newest measurement as an operand of the command line, if its plan is
    /// known, with the parameters of the case.
    fn measured_file(&self) -> Option<String> {
        let newest = self.series.trend.points.last()?;
        let plan = self.context.store.session_plan(newest.session).ok()??;
        let plan: Value = serde_json::from_str(&plan).ok()?;
        let jobs = plan["jobs"].as_array()?;
        jobs.iter().find_map(|job| find_operand(job, &self.series.key.case))
    }

    /// Returns the text and the address of the comparison of both sides of a change.
    fn comparison_link(&self, change: &RecordedChange) -> (String, String) {
        let session_of = |revision: &str, is_last: bool| {
            let mut points =
                self.series.trend.points.iter().filter(|point| point.revision.id == revision);
            let point = if is_last { points.next_back() } else { points.next() };
            point.map_or_else(
                || format!("@rev:{revision}"),
                |point| match &*self.series.key.variant {
                    "default" => format!("@{}", point.session),
                    variant => format!("@{}[{variant}]", point.session),
                },
            )
        };
        let sides = [session_of(&change.before, true), session_of(&change.after, false)];
        ("before and after".into(), self.context.compare_href(&sides[0], &sides[1]))
    }

    /// Returns the name and the address of the first commit after a change: on the forge or, if it
    /// is unknown, among the pages of this server.
    fn commit_link(&self, change: &RecordedChange) -> (String, String) {
        let on_forge = self.repository.as_ref().and_then(|pages| pages.commit_url(&change.after));
        let href = on_forge.unwrap_or_else(|| self.context.revision_href(&change.after));
        (short_revision(&change.after).to_owned(), href)
    }

    /// Lists the other metrics of the case, with links to their trends.
    fn list_others(&self) -> Vec<ReportBlock> {
        let own = &self.series.key;
        let others = self.metrics.iter().filter(|name| **name != own.metric.name);
        let metrics: Vec<String> = others.take(MAX_OTHER_METRICS).cloned().collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let query = TrendQuery {
            branch: self.context.query.get("branch").map(str::to_owned),
            case: Some(own.case.clone()),
            metrics,
            includes_details: false,
        };
        // The page is complete without them.
        let Ok(history) = self.context.project.load_history(&query) else { return Vec::new() };
        let series = history
            .series
            .iter()
            .filter(|series| series.key.variant == own.variant)
            .cloned()
            .collect();
        let others = with_series(&history, series);
        report::list_other_metrics(&others, &|series| {
            let metric = Some(series.key.metric.name.as_str());
            let query = self.context.query.with_value("metric", metric);
            self.context.page_href(&format!("trend{query}"))
        })
    }

    /// Returns links to the picture of the chart, and to the whole history if only a part is shown.
    fn list_links(&self, has_chart: bool) -> Vec<PageLink> {
        let query = self.context.query;
        let mut links = Vec::new();
        if query.get("from").or(query.get("to")).is_some() {
            let whole = query.without_name("from").without_name("to").to_query_string();
            links.push(self.context.page_link(&format!("trend{whole}"), "whole history"));
        }
        if has_chart {
            let path = format!("trend.svg{}", query.to_query_string());
            links.push(self.context.page_link(&path, "chart as SVG"));
        }
        links
    }

    /// Returns the form that switches to another part of the case's history.
    fn switches(&self) -> Result<PageForm, HttpError> {
        let context = self.context;
        let [branches, _] = context.store.branches_and_tags()?;
        let field = |name, placeholder, options| context.query_field(name, placeholder, options);
        let names = |names: &[String]| {
            names.iter().map(|name| (name.clone(), name.clone())).collect::<Vec<_>>()
        };
        let key = &self.series.key;
        let fixed = |name, value: &str| FormField {
            is_fixed: true,
            value: value.to_owned(),
            ..field(name, "", Vec::new())
        };
        let chosen = |name, value: &str, all: &[String]| FormField {
            value: value.to_owned(),
            ..field(name, "", names(all))
        };
        let variant = match self.variants.len() {
            1 => None,
            _ => Some(chosen("variant", &key.variant, &self.variants)),
        };
        let by = axis_field(context, "by", ["commit", "date"]);
        let mut fields =
            vec![fixed("case", &key.case), chosen("metric", &key.metric.name, &self.metrics)];
        fields.extend(variant);
        fields.extend([
            field("machine", "", context.machine_options()?),
            field("branch", "", named_options("default", branches)),
            by,
            field("from", "2026-03-01", Vec::new()),
            field("to", "2026-03-31", Vec::new()),
        ]);
        Ok(PageForm {
            title: "Part of the history".into(),
            is_always_open: true,
            ..context.filter_form("trend", fields)
        })
    }
}

/// Returns the file of a planned job as on the command line, and the parameters of the case, if the
/// job measures the case.
fn find_operand(job: &Value, case: &str) -> Option<String> {
    let source = &job["source"];
    let name = source["name"].as_str()?;
    let values = case.strip_prefix(name)?;
    if !values.is_empty() && !values.starts_with(' ') {
        return None;
    }
    let path = |key: &str| source[key].as_str().map(Path::new);
    let (file, root, directory) = (path("file")?, path("root")?, path("directory")?);
    // A folder of benchmarks is their working directory, but the command line starts at its parent.
    let start = if directory == root { root.parent()? } else { directory };
    let target = file.strip_prefix(start).unwrap_or(file).to_str()?;
    let case_values = Case::with_values(name, values).ok()?.values;
    let arguments =
        case_values.iter().map(|(name, value)| quote(&format!("{name}={}", value.plain())));
    Some([quote(target)].into_iter().chain(arguments).collect::<Vec<_>>().join(" "))
}

fn trend_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, _] = context.store.branches_and_tags()?;
    let field = |name, placeholder, options| context.query_field(name, placeholder, options);
    let fields = vec![
        field("case", "all", Vec::new()),
        field("metric", "primary", Vec::new()),
        field("variant", "any", Vec::new()),
        field("branch", "", named_options("default", branches)),
        field("machine", "", context.machine_options()?),
        field("from", "2026-03-01", Vec::new()),
        field("to", "2026-03-31", Vec::new()),
        axis_field(context, "axis", ["revisions", "time"]),
    ];
    Ok(PageForm {
        set: context.set_filters("trend", &QUERY_KEYS),
        ..context.filter_form("trend", fields)
    })
}

/// Query keys of the list.
const LIST_KEYS: [&str; 4] = ["filter", "metric", "variant", "branch"];

/// Lists the series of a branch.
fn trends_page(context: PageContext<'_>) -> PageResult {
    context.query.check_names(&LIST_KEYS)?;
    let trend_query = TrendQuery {
        branch: context.query.get("branch").map(str::to_owned),
        metrics: context.query.get("metric").map(str::to_owned).into_iter().collect(),
        ..TrendQuery::default()
    };
    let history = context.project.load_history(&trend_query)?;
    let filter = context.query.get("filter").unwrap_or_default();
    let now = unix_ms();
    let mut document = match context.query.get("variant") {
        None => report::report_trends(&history, filter, now),
        Some(variant) => {
            let is_selected = |series: &&SeriesTrend| series.key.variant == variant;
            let series: Vec<SeriesTrend> =
                history.series.iter().filter(is_selected).cloned().collect();
            if series.is_empty() {
                return Err(HttpError::not_found("no series for this variant"));
            }
            report::report_trends(&with_series(&history, series), filter, now)
        }
    };
    link_series(&mut document, context);
    Ok(PageContent {
        crumbs: vec![context.page_link("trend", "trend")],
        filters: Some(list_form(context)?),
        is_cacheable: true,
        max_age: Some(MAX_AGE),
        ..PageContent::from_document(document)
    })
}

/// Links each series to the trend of its case, with the same branch and metric as the page.
pub fn link_series(document: &mut Document, context: PageContext<'_>) {
    let kept: String = ["branch", "metric"]
        .into_iter()
        .filter_map(|name| Some(format!("&{name}={}", encode_segment(context.query.get(name)?))))
        .collect();
    link_column(document, "series", "case", |case| {
        Some(context.trend_href(case.as_str()?) + &kept)
    });
}

/// Builds the form, with suggestions for every free field.
fn list_form(context: PageContext<'_>) -> Result<PageForm, HttpError> {
    let [branches, _] = context.store.branches_and_tags()?;
    let series = context.store.list_series()?;
    let names = |name: fn(&SeriesKey) -> &str| -> Vec<String> {
        let names: BTreeSet<&str> = series.iter().map(|series| name(&series.key)).collect();
        names.into_iter().map(str::to_owned).collect()
    };
    let field = |name, placeholder, suggestions| FormField {
        suggestions,
        ..context.query_field(name, placeholder, Vec::new())
    };
    let fields = vec![
        field("filter", "part of a name", names(|key| &key.case)),
        field("metric", "primary", names(|key| &key.metric.name)),
        field("variant", "any", names(|key| &key.variant)),
        context.query_field("branch", "", named_options("default", branches)),
    ];
    Ok(PageForm {
        set: context.set_filters("trend", &LIST_KEYS),
        ..context.filter_form("trend", fields)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_file_of_a_case_is_named_as_on_the_command_line() {
        let job = |root: &str, directory: &str| {
            json!({"source": {"name": "json/parse.js", "file": "/w/bench/json/parse.js",
                              "root": root, "directory": directory}})
        };
        let case = "json/parse.js n=10 text=\"a b\"";
        let expected = Some("bench/json/parse.js n=10 'text=a b'".to_owned());
        assert_eq!(find_operand(&job("/w/bench", "/w"), case), expected);
        assert_eq!(find_operand(&job("/w/bench", "/w/bench"), case), expected);
        assert_eq!(find_operand(&job("/w/bench", "/w"), "json/parse.js2"), None);
    }
}

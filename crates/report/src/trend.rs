//! The course of series along a line of revisions: the report of `history trend`.
//!
//! Decides on words and columns. Start at [`trend`].

use crate::changes;
use crate::changes::words::{cause, title};
use crate::charts::CourseAxis;
use crate::document::{Block, Document};
use crate::figure::{Uncertainty, count, moment, quantity, share, uncertainty_of};
use crate::gallery::Courses;
use crate::output::Output;
use crate::table::{Cell, Column, Columns, Kind, number};
use serde_json::{Value, json};
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_analysis::trend::{Level, Search, TrendPoint};
use speedwell_model::{Estimate, Machine, Metric, short_revision};
use std::rc::Rc;

/// Every series with its course, its levels, its changes and its points, of which the newest so many are listed.
pub fn trend(history: &History, axis: CourseAxis, listed: usize, output: &Output) -> Document {
    let mut document = Document::new("trend");
    if history.series.is_empty() {
        document.push(Block::Headline("no series has a point on this line".into()));
    }
    document.extend(history.notes.iter().cloned().map(Block::Note));
    let courses = Courses {
        history,
        axis,
        output,
    };
    document.extend(courses.blocks(&|_| true, &|_, _| true));
    for series in &history.series {
        document.push_heading(2, title(series));
        document.push(Block::Headline(headline(series)));
        document.push(Block::Appendix {
            title: "Points".into(),
            instead: None,
            blocks: vec![Block::Table(
                columns().table("points", &lines(series, history, listed)),
            )],
        });
        document.extend(changes::table(series, history).map(Block::Table));
        output.add_detail(&mut document, |_, document| {
            document.extend(notes(series).into_iter().map(Block::Note));
        });
    }
    document.attach("line", json!(history.branch()));
    document.attach(
        "trends",
        json!(history.series.iter().map(data).collect::<Vec<_>>()),
    );
    document
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns().sort_keys()
}

/// `1.03 ms since 4a5b6c7, 23 revisions with a point ago; 40 points, 2 changes`.
fn headline(series: &SeriesTrend) -> String {
    let trend = &series.trend;
    let points = count(trend.points.len(), "point", "points");
    if let Search::TooShort(missing) = trend.search {
        let missing = count(missing, "point is", "points are");
        return format!("{points}, too few to be searched: {missing} missing");
    }
    let Some(level) = trend.levels.last() else {
        return format!("{points}, none of which can be searched");
    };
    let value = figure(&level.value, &series.key.metric);
    let changes = match trend.changes.len() {
        0 => "no change".to_owned(),
        some => count(some, "change", "changes"),
    };
    let since = &trend.points[level.first].revision;
    format!(
        "{value} since {}; {points}, {changes}",
        short_revision(&since.id)
    )
}

/// The figure of a level, with the digits that its band supports.
pub(crate) fn figure(value: &Estimate, metric: &Metric) -> String {
    quantity(value.value, &metric.unit, uncertainty_of(value))
}

fn notes(series: &SeriesTrend) -> Vec<String> {
    let trend = &series.trend;
    let mut notes = Vec::new();
    if let Search::Impossible(reason) = trend.search {
        notes.push(format!("It cannot be searched: {reason}."));
    }
    if let Some(ratio) = trend.smallest_visible.filter(|_| trend.is_searched()) {
        notes.push(format!(
            "The smallest change that it would show, some 20 points later: {}.",
            share(ratio - 1.0)
        ));
    }
    if let (Some(between), Some(within)) = (trend.between_sessions, trend.within_sessions) {
        let advice = if between > 2.0 * within {
            "more runs will not help; a quieter machine, or '--builds', may"
        } else if within > between {
            "more runs in a session help"
        } else {
            "both count"
        };
        notes.push(format!(
            "Between sessions {}, from the runs of a session {}: {advice}.",
            share(between),
            share(within)
        ));
    }
    if let Some([fewest, most]) = trend.runs().filter(|[fewest, most]| *most > 4 * fewest) {
        notes.push(format!(
            "Its points are of {fewest} to {most} runs. Those of few scatter more, so changes among them are seen later, and where \
             the scatter itself changed, a change that is none is found more often."
        ));
    }
    if let Some(ratio) = trend.first_beyond {
        let place = if ratio.is_finite() {
            format!("at {} of their median", share(ratio))
        } else {
            "whose median is 0".to_owned()
        };
        notes.push(format!(
            "The newest point lies beyond all of the last 40, {place}: worth measuring again, nothing more."
        ));
    }
    for &index in &trend.new_work {
        let revision = &trend.points[index].revision.id;
        notes.push(format!(
            "The benchmark itself was changed at {}; what came before is a course of its own (--same-work joins them).",
            short_revision(revision)
        ));
    }
    for (&index, differences) in &series.circumstances {
        let words: Vec<String> = differences.iter().map(cause).collect();
        notes.push(format!(
            "At {}: {}.",
            short_revision(&trend.points[index].revision.id),
            words.join("; ")
        ));
    }
    notes
}

/// A point with what its row needs.
struct Line {
    point: TrendPoint,
    metric: Rc<Metric>,
    series: Rc<str>,
    machine: String,
    labels: String,
}

fn lines(series: &SeriesTrend, history: &History, listed: usize) -> Vec<Line> {
    let metric = Rc::new(series.key.metric.clone());
    let name: Rc<str> = title(series).into();
    let machine = |number| history.machines.get(&number).map_or("", Machine::title);
    let line = |point: &TrendPoint| Line {
        point: point.clone(),
        metric: metric.clone(),
        series: name.clone(),
        machine: machine(point.machine).to_owned(),
        labels: labels(history, &point.revision.id),
    };
    let points = &series.trend.points;
    let newest = &points[points.len().saturating_sub(listed)..];
    newest.iter().map(line).collect()
}

/// Names of releases and remarks on a revision.
pub(crate) fn labels(history: &History, revision: &str) -> String {
    let labels = history.labels.get(revision);
    labels.map_or_else(String::new, |labels| labels.join(", "))
}

fn columns() -> Columns<Line> {
    let mut columns = Columns::new();
    columns.add_value("series", |line: &Line| line.series.to_string());
    columns.add(Column::figure("position", "place"), |line| {
        Cell::count(line.point.position)
    });
    columns.add(Column::words("revision", "revision"), |line| {
        let changed = if line.point.point.is_dirty { "+" } else { "" };
        let id = &line.point.revision.id;
        Cell::words(id).shown(format!("{}{changed}", short_revision(id)))
    });
    columns.add(Column::words("labels", "known as").expendable(3), |line| {
        Cell::words(&line.labels)
    });
    columns.add(Column::figure("value", "value"), |line| {
        let point = &line.point.point;
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        let uncertainty = match point.interval {
            Some(_) => uncertainty_of(&Estimate {
                value: point.value,
                low,
                high,
            }),
            None => Uncertainty::Unknown,
        };
        Cell::figure(Some(point.value)).shown(quantity(point.value, &line.metric.unit, uncertainty))
    });
    columns.add_figure("low", |line| line.point.point.interval.map(|ends| ends.0));
    columns.add_figure("high", |line| line.point.point.interval.map(|ends| ends.1));
    columns.add_value("unit", |line| line.metric.unit.clone());
    columns.add(Column::figure("runs", "runs"), |line| {
        Cell::count(line.point.point.runs)
    });
    columns.add_figure("spread", |line| line.point.point.spread);
    columns.add(Column::words("machine", "machine").expendable(2), |line| {
        Cell::words(&line.machine)
    });
    columns.add_value("kind", |line| line.point.point.kind.name());
    columns.add_value("dirty", |line| line.point.point.is_dirty);
    columns.add(Column::figure("session", "session"), |line| {
        Cell::value(line.point.session).shown(format!("@{}", line.point.session))
    });
    columns.add(
        Column::words("at_unix_ms", "measured (UTC)").expendable(4),
        |line| Cell::value(line.point.at_unix_ms).shown(moment(line.point.at_unix_ms)),
    );
    columns.add_known("committed_unix_ms", |line| {
        line.point.revision.committed_unix_ms.map(Value::from)
    });
    columns.add(
        Column::new("subject", "subject", Kind::Label).expendable(1),
        |line| Cell::words(line.point.revision.subject.clone().unwrap_or_default()),
    );
    columns
}

/// A series for programs. Its points and changes are tables.
fn data(series: &SeriesTrend) -> Value {
    let trend = &series.trend;
    let level = |level: &Level| {
        json!({
            "first": trend.points[level.first].revision.id,
            "last": trend.points[level.last].revision.id,
            "value": level.value.value, "low": level.value.low, "high": level.value.high,
        })
    };
    let search = match trend.search {
        Search::Done => json!({"state": "searched"}),
        Search::TooShort(missing) => json!({"state": "too short", "missing": missing}),
        Search::Impossible(reason) => json!({"state": "impossible", "reason": reason.to_string()}),
    };
    json!({
        "series": title(series),
        "case": series.key.case,
        "variant": series.key.variant,
        "metric": series.key.metric,
        "search": search,
        "levels": trend.levels.iter().filter(|level| level.is_claimed).map(level).collect::<Vec<_>>(),
        "smallest_visible": trend.smallest_visible.and_then(number),
        "between_sessions": trend.between_sessions.and_then(number),
        "within_sessions": trend.within_sessions.and_then(number),
    })
}

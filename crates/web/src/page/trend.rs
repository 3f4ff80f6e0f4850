//! `/PROJECT/trend`: the page of `speedwell history trend`.

use super::{Page, Visit};
use crate::address::Format;
use crate::link::{link_by, link_column};
use crate::lookups::Course;
use crate::refusal::{Refusal, nearest};
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_analysis::trend::TrendPoint;
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::{self as report, Block, CourseAxis, Document};

/// Maximum number of series on a page.
const SERIES: usize = 40;

/// Rows of the table of points, on a page and in a standalone file; other formats have all.
const ROWS: usize = 100;
const ROWS_OF_A_FILE: usize = 1_000;

/// Query keys.
const NAMES: [&str; 8] = [
    "case", "metric", "variant", "branch", "machine", "from", "to", "space",
];

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&NAMES)?;
    let text = |name| visit.query.get(name).map(str::to_owned);
    let axis = axis(visit)?;
    let course = Course {
        branch: text("branch"),
        case: text("case"),
        metrics: text("metric").into_iter().collect(),
        is_whole: true,
    };
    let history = visit.project.history(&course)?;
    let variant = visit.query.get("variant");
    let is_wanted =
        |series: &&SeriesTrend| variant.is_none_or(|variant| series.key.variant == variant);
    let wanted: Vec<&SeriesTrend> = history.series.iter().filter(is_wanted).collect();
    if wanted.is_empty() && (course.case.is_some() || variant.is_some()) {
        return Err(unknown(visit, &course)?);
    }
    let left_out = wanted.len().saturating_sub(SERIES);
    let window = Window::of(visit)?;
    let parts = wanted.into_iter().take(SERIES);
    let parts = parts.filter_map(|series| series.part(|point| window.holds(point)));
    let shown = History {
        series: parts.collect(),
        ..without_series(&history)
    };
    let listed = match visit.format {
        Format::Page => ROWS,
        Format::Document(report::Format::Html) => ROWS_OF_A_FILE,
        Format::Document(_) | Format::JsonLines => usize::MAX,
    };
    let mut document = report::trend(&shown, axis, listed, &visit.output());
    document.blocks.splice(0..0, note_shortened(&shown, listed));
    if left_out > 0 {
        let words = format!(
            "{SERIES} of {} series are shown; a case of a benchmark leads to its own.",
            left_out + SERIES
        );
        document.blocks.insert(0, Block::Note(words));
    }
    link(&mut document, visit);
    let own = visit.href(&format!("trend{}", visit.query.text()));
    let mut crumbs = vec![Link::new(visit.href("trend"), "trend")];
    crumbs.extend(course.case.map(|case| Link::new(own, case)));
    Ok(Page {
        crumbs,
        filters: Some(form(visit)?),
        is_lasting: true,
        ..Page::of(document)
    })
}

/// Returns the horizontal axis of the charts.
fn axis(visit: Visit<'_>) -> Result<CourseAxis, Refusal> {
    match visit.query.get("space") {
        None | Some("revision") => Ok(CourseAxis::Revision),
        Some("time") => Ok(CourseAxis::Time),
        Some(other) => Err(Refusal::bad(format!("there is no space '{other}'"))
            .hint("space=revision or space=time")),
    }
}

/// Links the tables to revisions, sessions and trends.
fn link(document: &mut Document, visit: Visit<'_>) {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    link_column(document, "points", "revision", |id| {
        Some(visit.revision(&text(id)?))
    });
    link_column(document, "points", "session", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    link_by(document, "changes", ["case", "case"], |case| {
        Some(visit.trend(&text(case)?))
    });
}

/// Filter for the points shown. Levels and changes are still those of the whole series.
#[derive(Debug, Default)]
struct Window {
    machine: Option<u32>,
    /// In milliseconds since the Unix epoch.
    from: Option<i64>,
    to: Option<i64>,
}

impl Window {
    fn of(visit: Visit<'_>) -> Result<Window, Refusal> {
        let time = |name: &str, is_end| {
            let given = visit.query.get(name).map(|text| {
                report::time_of(text, is_end).ok_or_else(|| {
                    Refusal::bad(format!("'{text}' is no time")).hint(format!(
                        "{name}=2026-03-01 or {name}=2026-03-01T12:30 (UTC)"
                    ))
                })
            });
            given.transpose()
        };
        let (from, to) = (time("from", false)?, time("to", true)?);
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            return Err(Refusal::bad("'from' is after 'to'"));
        }
        let machine = visit.query.number("machine")?;
        let known = visit.store.machine_titles()?;
        if let Some(number) = machine
            && !known.iter().any(|(known, _)| *known == number)
        {
            return Err(Refusal::missing(format!("there is no machine {number}"))
                .nearest(vec![(visit.href("machines"), "machines".into())]));
        }
        Ok(Window {
            machine: machine.and_then(|number| u32::try_from(number).ok()),
            from,
            to,
        })
    }

    /// Filters by commit time, as on the axis, or by measurement time if that is unknown.
    fn holds(&self, point: &TrendPoint) -> bool {
        let at = point.revision.committed_unix_ms.unwrap_or(point.at_unix_ms);
        self.machine.is_none_or(|machine| machine == point.machine)
            && self.from.is_none_or(|from| at >= from)
            && self.to.is_none_or(|to| at <= to)
    }
}

/// Notes that the oldest points are omitted from the tables.
fn note_shortened(history: &History, listed: usize) -> Option<Block> {
    let points = history
        .series
        .iter()
        .map(|series| series.trend.points.len());
    let left_out: usize = points.map(|points| points.saturating_sub(listed)).sum();
    (left_out > 0).then(|| {
        Block::Note(format!(
            "{left_out} points, the oldest ones, are drawn and not listed: a table has {listed} rows. 'from' and 'to' choose \
             others; the page as JSON or CSV has all."
        ))
    })
}

/// Copies a history without its series.
fn without_series(history: &History) -> History {
    History {
        line: history.line.clone(),
        threshold: history.threshold,
        series: Vec::new(),
        machines: history.machines.clone(),
        labels: history.labels.clone(),
        landmarks: history.landmarks.clone(),
        target: history.target.clone(),
        gone: history.gone,
        notes: history.notes.clone(),
    }
}

fn unknown(visit: Visit<'_>, course: &Course) -> Result<Refusal, Refusal> {
    let Some(case) = &course.case else {
        return Ok(Refusal::missing("no series is of this variant"));
    };
    let series = visit.store.series()?;
    let mut known: Vec<&str> = series.iter().map(|series| &*series.key.case).collect();
    known.sort_unstable();
    known.dedup();
    let pages = nearest(case, known).into_iter();
    let pages = pages.map(|case| (visit.trend(case), case.to_owned()));
    Ok(
        Refusal::missing(format!("no series of '{case}' has a point on this line"))
            .nearest(pages.collect()),
    )
}

fn form(visit: Visit<'_>) -> Result<Form, Refusal> {
    let [branches, _] = visit.store.branches_and_tags()?;
    let value = |name| visit.query.get(name).unwrap_or_default().to_owned();
    let field = |name: &'static str, placeholder: &str, options: Vec<(String, String)>| Field {
        name,
        label: name.to_owned(),
        value: value(name),
        placeholder: placeholder.to_owned(),
        options,
        ..Field::default()
    };
    let usual = (String::new(), "the usual one".to_owned());
    let machines = (visit.store.machine_titles()?.into_iter())
        .map(|(number, title)| (number.to_string(), title));
    let any = std::iter::once((String::new(), "any".to_owned()));
    let branches = branches.into_iter().map(|name| (name.clone(), name));
    let set = NAMES.iter().filter_map(|name| {
        let value = visit.query.get(name)?;
        let without = visit.href(&format!("trend{}", visit.query.with(name, None)));
        Some(Link::new(without, format!("{name}: {value}")))
    });
    let spaces = [("", "revisions"), ("time", "time")];
    let spaces = spaces.map(|(value, words)| (value.to_owned(), words.to_owned()));
    Ok(Form {
        action: visit.href("trend"),
        title: "Choose".into(),
        button: "Show".into(),
        set: set.collect(),
        fields: vec![
            field("case", "all", Vec::new()),
            field("metric", "the primary one", Vec::new()),
            field("variant", "any", Vec::new()),
            field(
                "branch",
                "",
                std::iter::once(usual).chain(branches).collect(),
            ),
            field("machine", "", any.chain(machines).collect()),
            field("from", "2026-03-01", Vec::new()),
            field("to", "2026-03-31", Vec::new()),
            field("space", "", spaces.to_vec()),
        ],
    })
}

//! `/PROJECT/trend`: what `speedwell history trend` says.

use super::{Page, Visit};
use crate::link::{link_by, link_column};
use crate::lookups::Course;
use crate::refusal::{Refusal, nearest};
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_report::html::{Field, Form, Link};
use speedwell_report::{self as report, Block, CourseAxis};

/// Series on a page; more than can be looked over.
const SERIES: usize = 40;

/// What can be chosen.
const NAMES: [&str; 5] = ["case", "metric", "variant", "branch", "space"];

pub fn page(visit: Visit<'_>) -> Result<Page, Refusal> {
    visit.query.check(&NAMES)?;
    let text = |name| visit.query.get(name).map(str::to_owned);
    let axis = match visit.query.get("space") {
        None | Some("revision") => CourseAxis::Revision,
        Some("time") => CourseAxis::Time,
        Some(other) => {
            return Err(Refusal::bad(format!("there is no space '{other}'"))
                .hint("space=revision or space=time"));
        }
    };
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
    let shown = History {
        series: wanted.into_iter().take(SERIES).cloned().collect(),
        ..without_series(&history)
    };
    let mut document = report::trend(&shown, axis, &visit.output());
    if left_out > 0 {
        let words = format!(
            "{SERIES} of {} series are shown; a case of a benchmark leads to its own.",
            left_out + SERIES
        );
        document.blocks.insert(0, Block::Note(words));
    }
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    link_column(&mut document, "points", "revision", |id| {
        Some(visit.revision(&text(id)?))
    });
    link_column(&mut document, "points", "session", |number| {
        Some(visit.numbered(number.as_i64()?))
    });
    link_by(&mut document, "changes", ["case", "case"], |case| {
        Some(visit.trend(&text(case)?))
    });
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

/// A history as it is, but for its series.
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
            field("space", "", spaces.to_vec()),
        ],
    })
}

//! The report of a search along a line of revisions: the revision that brought the change, or what is left of the line.

use super::output::Output;
use crate::document::{Block, Document};
use crate::failures::failures;
use crate::figure::{
    Uncertainty, change_with_interval, count, good_and_bad, moment, quantity, setting,
};
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Table};
use serde_json::json;
use speedwell_analysis::bisect::{Answer, Confirmed, Ends, Found, Outcome, Part};
use speedwell_analysis::confirm::Confirmation;
use speedwell_model::{Better, Estimate, Failure, LineRevision, Metric, median};

/// Revisions that are listed without being folded away.
const SHOWN: usize = 20;

/// The report.
pub fn bisect(found: &Found, failed: &[Failure], output: &Output) -> Document {
    let mut document = Document::new("bisection");
    document.push(Block::Headline(headline(found)));
    if let Some(answer) = &found.answer
        && !answer.parts.is_empty()
    {
        document.push(Block::Table(changes(found, &answer.parts)));
    }
    document.extend(left(found));
    output.add_detail(&mut document, |_, document| {
        document.extend(ends_note(found))
    });
    let revisions = measured(found);
    if !revisions.is_empty() {
        document.push(Block::Appendix {
            title: format!(
                "{} measured",
                count(revisions.len(), "revision", "revisions")
            ),
            instead: None,
            blocks: vec![Block::Table(
                revision_columns(found).table("measured", &revisions),
            )],
        });
    }
    document.attach("range", json!(found.bisection.range));
    document.attach("revisions", json!(found.bisection.line.len()));
    document.attach(
        "found",
        json!(found.answer.as_ref().is_some_and(Answer::is_found)),
    );
    document.append(failures(failed, output.verbosity));
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    vec!["revision", "date", "subject", "author"]
}

fn headline(found: &Found) -> String {
    let line = &found.bisection.line;
    let ends = found.answer.as_ref().map(|answer| answer.ends);
    match (ends.or(found.standing.ends), &found.answer) {
        (Some(Ends::Unmeasurable(place)), _) => format!(
            "{} ({}) cannot be built or measured, so the ends of {} cannot be compared",
            if place == 0 {
                "the good end"
            } else {
                "the bad end"
            },
            line[place].short(),
            found.bisection.range
        ),
        (Some(Ends::Alike(change)), _) => format!(
            "the ends do not differ by {} or more: {}",
            setting(found.state.delta),
            of_metric(found, &change)
        ),
        (Some(Ends::Unclear(change)), _) => format!(
            "unclear whether the ends differ by {} or more: {}",
            setting(found.state.delta),
            of_metric(found, &change)
        ),
        (_, Some(answer)) if answer.is_found() => of_found(found, answer),
        (_, Some(answer)) if answer.has_changed_benchmark() => of_found(found, answer),
        (_, Some(_)) => format!(
            "not confirmed: with 95 % the change is in {}",
            left_words(found)
        ),
        (_, None) => format!(
            "not found yet: with 95 % the change is in {}",
            left_words(found)
        ),
    }
}

fn of_found(found: &Found, answer: &Answer) -> String {
    let line = &found.bisection.line;
    match answer.parts.as_slice() {
        [part] if part.before + 1 == part.after => effect(found, part, line[part.after].short()),
        [part] => {
            let several = count(part.after - part.before, "revision", "revisions");
            let place = format!("one of {several} after {}", line[part.before].short());
            effect(found, part, &place)
        }
        parts => {
            let effects = parts
                .iter()
                .map(|part| effect(found, part, line[part.after].short()));
            effects.collect::<Vec<_>>().join("; ")
        }
    }
}

/// `abc made it slower: +4.8 % [+4.1, +5.5]`
fn effect(found: &Found, part: &Part, place: &str) -> String {
    match part.confirmed {
        Confirmed::Hangs => format!(
            "{place} exceeds the time limit, and {} does not",
            found.bisection.line[part.before].short()
        ),
        Confirmed::BenchmarkChanged => {
            format!("not confirmed: {place} changed the benchmark itself")
        }
        Confirmed::NotFound => format!("{place} was not confirmed"),
        Confirmed::Measured(confirmation) => {
            let change = confirmation.change();
            let size = change_with_interval(&change);
            format!("{place} made it {}: {size}", direction(found, &change))
        }
    }
}

/// `slower`
fn direction(found: &Found, change: &Estimate) -> &'static str {
    let Some(metric) = &found.metric else {
        return "different";
    };
    let (good, bad) = good_and_bad(metric);
    let is_better = (change.value > 0.0) == (metric.better == Better::Higher);
    if is_better { good } else { bad }
}

/// `cpu_time +2.2 % [-1.0, +5.4] (lower is better)`
fn of_metric(found: &Found, change: &Estimate) -> String {
    let size = change_with_interval(change);
    match &found.metric {
        Some(metric) => format!(
            "{} {size} ({})",
            metric.name,
            crate::figure::direction(metric.better)
        ),
        None => size,
    }
}

fn left_words(found: &Found) -> String {
    let all = found.bisection.line.len() - 1;
    match found.standing.set.as_slice() {
        &[only] => found.bisection.line[only].short().to_owned(),
        set => format!("one of {} of {all} revisions", set.len()),
    }
}

/// The table of the changes.
fn changes(found: &Found, parts: &[Part]) -> Table {
    let line = found.bisection.line.clone();
    let mut columns: Columns<Part> = Columns::new();
    let at = line.clone();
    add_revision(&mut columns, move |part: &Part| at[part.after].clone());
    let at = line;
    columns.add(Column::words("change", "change"), |part: &Part| {
        let Confirmed::Measured(confirmation) = part.confirmed else {
            let is_hanging = part.confirmed == Confirmed::Hangs;
            let words = if is_hanging {
                "exceeds the time limit"
            } else {
                ""
            };
            return Cell::figure(None).shown(words);
        };
        let change = confirmation.change();
        Cell::figure(Some(change.value)).shown(change_with_interval(&change))
    });
    let ends = |part: &Part| match part.confirmed {
        Confirmed::Measured(confirmation) => Some(confirmation.change()),
        Confirmed::Hangs | Confirmed::BenchmarkChanged | Confirmed::NotFound => None,
    };
    columns.add_figure("change_low", move |part| {
        ends(part).map(|change| change.low)
    });
    columns.add_figure("change_high", move |part| {
        ends(part).map(|change| change.high)
    });
    columns.add(Column::words("state", "state"), |part| {
        match part.confirmed {
            Confirmed::Measured(Confirmation::Refuted(_)) => {
                Cell::words("refuted").emphasised(Emphasis::Caution)
            }
            Confirmed::BenchmarkChanged => {
                Cell::words("the benchmark itself changed").emphasised(Emphasis::Caution)
            }
            Confirmed::NotFound => Cell::words("not confirmed").emphasised(Emphasis::Caution),
            Confirmed::Measured(Confirmation::Confirmed(_)) | Confirmed::Hangs => {
                Cell::words("confirmed").emphasised(Emphasis::Strong)
            }
        }
    });
    columns.add_value("before", move |part| at[part.before].id.clone());
    columns.table("changes", parts)
}

/// The columns that say which revision it is.
fn add_revision<T>(columns: &mut Columns<T>, of: impl Fn(&T) -> LineRevision + Clone + 'static) {
    let own = of.clone();
    columns.add(
        Column::new("revision", "revision", Kind::Identifier),
        move |item| {
            let revision = own(item);
            Cell::value(revision.id.clone()).shown(revision.short())
        },
    );
    let own = of.clone();
    columns.add(
        Column::words("date", "written (UTC)").expendable(2),
        move |item| Cell::words(moment(own(item).authored_unix_ms)),
    );
    let own = of.clone();
    columns.add(
        Column::words("author", "author").expendable(1),
        move |item| Cell::words(own(item).author),
    );
    columns.add(
        Column::new("subject", "subject", Kind::Label),
        move |item| Cell::words(of(item).subject),
    );
}

/// The revisions in one of which the change is, where no single one was found.
fn left(found: &Found) -> Vec<Block> {
    let is_found = found.answer.as_ref().is_some_and(Answer::is_found);
    let is_search = !matches!(
        found.standing.ends,
        Some(Ends::Alike(_) | Ends::Unmeasurable(_))
    );
    let set: Vec<usize> = match &found.answer {
        Some(answer) if is_found => {
            let several = answer
                .parts
                .iter()
                .filter(|part| part.before + 1 < part.after);
            several
                .flat_map(|part| part.before + 1..=part.after)
                .collect()
        }
        _ if is_search => found.standing.set.clone(),
        _ => Vec::new(),
    };
    if set.is_empty() {
        return Vec::new();
    }
    let line = found.bisection.line.clone();
    let mut columns: Columns<usize> = Columns::new();
    add_revision(&mut columns, move |place: &usize| line[*place].clone());
    let table = Block::Table(columns.table("candidates", &set));
    if set.len() <= SHOWN {
        return vec![table];
    }
    vec![Block::Appendix {
        title: format!("{} left", count(set.len(), "revision", "revisions")),
        instead: None,
        blocks: vec![table],
    }]
}

/// How the ends differ, where that is not the answer itself.
fn ends_note(found: &Found) -> Option<Block> {
    let Some(Ends::Differ(change)) = found.standing.ends else {
        return None;
    };
    Some(Block::Note(format!(
        "{} in all: {}, {}. A change is confirmed by measuring its revision and the one before it again.",
        found.bisection.range,
        change_with_interval(&change),
        direction(found, &change)
    )))
}

/// A revision with what was measured of it.
struct Measured {
    revision: LineRevision,
    values: Vec<f64>,
    hung: usize,
    failed: usize,
    is_unbuildable: bool,
}

fn measured(found: &Found) -> Vec<Measured> {
    let state = &found.state;
    let of = |(place, revision): (usize, &LineRevision)| {
        let own = || state.slots.values().filter(move |(own, _)| *own == place);
        let count = |wanted: Outcome| own().filter(|(_, outcome)| *outcome == wanted).count();
        Measured {
            revision: revision.clone(),
            values: state.values(place),
            hung: count(Outcome::Hung),
            failed: count(Outcome::Failed),
            is_unbuildable: state.unbuildable.contains(&place),
        }
    };
    let all = found.bisection.line.iter().enumerate().map(of);
    all.filter(|own| own.is_unbuildable || own.hung + own.failed > 0 || !own.values.is_empty())
        .collect()
}

fn revision_columns(found: &Found) -> Columns<Measured> {
    let mut columns: Columns<Measured> = Columns::new();
    add_revision(&mut columns, |own: &Measured| own.revision.clone());
    columns.add(Column::figure("runs", "runs"), |own| {
        Cell::count(own.values.len() as u64)
    });
    let metric = found.metric.clone();
    let name = metric
        .as_ref()
        .map_or("value", |metric: &Metric| &metric.name);
    columns.add(
        Column::figure("median", format!("{name}, median")),
        move |own| {
            let unit = metric.as_ref().map_or("", |metric| &metric.unit);
            Cell::shown_figure(median(&mut own.values.clone()), |value| {
                quantity(value, unit, Uncertainty::Unknown)
            })
        },
    );
    columns.add(Column::words("outcome", "outcome"), |own| {
        Cell::words(match own {
            own if own.is_unbuildable => "not built",
            own if own.hung > 0 => "exceeds the time limit",
            own if own.failed > 0 => "fails",
            _ => "measured",
        })
    });
    columns
}

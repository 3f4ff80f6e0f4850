//! What changed along a line of revisions: the report of `history changes`.
//!
//! Decides on words and columns. Start at [`changes`].

use crate::comparison::{emphasis, symbol};
use crate::document::{Block, Document};
use crate::figure::{change_with_interval, count, setting};
use crate::output::{Output, Verbosity};
use crate::table::{Cell, Column, Columns, Kind, Table, number};
use serde_json::{Value, json};
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_analysis::trend::Search;
use speedwell_model::{Change, ChangeState, Estimate, Judgement, Verdict, quote, short_revision};

/// The name of the tables, for machines.
const TABLE: &str = "changes";

/// A change with the series that it belongs to.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    series: &'a SeriesTrend,
    change: &'a Change,
    causes: &'a [speedwell_analysis::Difference],
    verdict: Verdict,
}

/// The changes of a history that `is_shown` lets pass, those that are established first, each kind in the order of the line.
pub fn changes(
    history: &History,
    is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
    output: &Output,
) -> Document {
    let mut document = Document::new("changes");
    let lines = lines(history, is_shown);
    let (suspected, known): (Vec<Line<'_>>, Vec<Line<'_>>) =
        (lines.into_iter()).partition(|line| line.change.state == ChangeState::Suspected);
    document.push(Block::Headline(headline(history, &known, &suspected)));
    document.push(Block::Table(columns().table(TABLE, &owned(&known))));
    if !suspected.is_empty() {
        document.push_heading(2, "Suspected: worth measuring again");
        document.push(Block::Table(columns().table(TABLE, &owned(&suspected))));
    }
    document.extend(history.notes.iter().cloned().map(Block::Note));
    if output.verbosity != Verbosity::Quiet {
        document.extend(notes(history).into_iter().map(Block::Note));
    }
    document.attach("line", json!(history.line));
    document
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns().sort_keys()
}

/// The changes of one series, for the report of its course.
pub(crate) fn table(series: &SeriesTrend, history: &History) -> Option<Table> {
    let lines = of_series(series, history);
    (!lines.is_empty()).then(|| columns().table(TABLE, &owned(&lines)))
}

fn lines<'a>(
    history: &'a History,
    is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
) -> Vec<Line<'a>> {
    let all = history.series.iter();
    let mut lines: Vec<Line<'_>> = all.flat_map(|series| of_series(series, history)).collect();
    lines.retain(|line| is_shown(line.series, line.change));
    lines.sort_by_key(|line| line.series.trend.position(&line.change.after));
    lines
}

fn of_series<'a>(series: &'a SeriesTrend, history: &History) -> Vec<Line<'a>> {
    let changes = series.trend.changes.iter().zip(&series.causes);
    changes
        .map(|(change, causes)| Line {
            series,
            change,
            causes,
            verdict: series.verdict(change, history.threshold),
        })
        .collect()
}

/// What a line says, without what it was taken from.
struct Shown {
    number: i64,
    verdict: Verdict,
    change: Estimate,
    case: String,
    metric: String,
    between: [String; 2],
    revisions: Option<u32>,
    subject: String,
    evidence: f64,
    state: ChangeState,
    is_drift: bool,
    judgement: Judgement,
    note: String,
    causes: String,
}

fn owned(lines: &[Line<'_>]) -> Vec<Shown> {
    lines.iter().map(Line::shown).collect()
}

impl Line<'_> {
    fn shown(&self) -> Shown {
        let Line {
            series,
            change,
            causes,
            verdict,
        } = self;
        let share = |ratio: f64| ratio - 1.0;
        let variant = match &*series.key.variant {
            "default" => String::new(),
            name => format!(" [{name}]"),
        };
        let after = series.trend.points.iter();
        let mut after = after.filter(|point| point.revision.id == change.after);
        let subject = after
            .next()
            .and_then(|point| point.revision.subject.clone());
        Shown {
            number: change.number,
            verdict: *verdict,
            change: Estimate {
                value: share(change.ratio.value),
                low: share(change.ratio.low),
                high: share(change.ratio.high),
            },
            case: format!("{}{variant}", series.key.case),
            metric: series.key.metric.name.clone(),
            between: [change.before.clone(), change.after.clone()],
            revisions: series.trend.revisions_between(change),
            subject: subject.unwrap_or_default(),
            evidence: change.evidence,
            state: change.state,
            is_drift: change.is_drift,
            judgement: change.judgement,
            note: change.note.clone().unwrap_or_default(),
            causes: causes.iter().map(cause).collect::<Vec<_>>().join("; "),
        }
    }
}

/// `kernel 6.1 became 6.2`.
pub(crate) fn cause(difference: &speedwell_analysis::Difference) -> String {
    let speedwell_analysis::Difference {
        name,
        before,
        after,
    } = difference;
    format!("{name} '{before}' became '{after}'")
}

fn columns() -> Columns<Shown> {
    let mut columns = Columns::new();
    columns.add(Column::figure("number", "no."), |line: &Shown| {
        let shown = if line.number > 0 {
            line.number.to_string()
        } else {
            String::new()
        };
        Cell::value(line.number).shown(shown)
    });
    columns.add(Column::words("verdict", "verdict").facet(), |line| {
        Cell::words(line.verdict.to_string())
            .shown(format!("{} {}", symbol(line.verdict), line.verdict))
            .emphasised(emphasis(line.verdict))
    });
    columns.add(Column::figure("change", "change"), |line| {
        // A border that was searched for shows its change too large.
        let about = if line.state == ChangeState::Confirmed {
            ""
        } else {
            "~"
        };
        let words = format!("{about}{}", change_with_interval(&line.change));
        Cell::figure(Some(line.change.value)).shown(words)
    });
    columns.add_figure("change_low", |line| Some(line.change.low));
    columns.add_figure("change_high", |line| Some(line.change.high));
    columns.add(Column::new("case", "case", Kind::Label), |line| {
        Cell::words(&line.case)
    });
    columns.add(Column::words("metric", "metric").expendable(1), |line| {
        Cell::words(&line.metric)
    });
    columns.add_value("before", |line| line.between[0].clone());
    columns.add_value("after", |line| line.between[1].clone());
    columns.add_text(Column::words("between", "between").for_people(), |line| {
        let [before, after] = line.between.each_ref().map(|id| short_revision(id));
        match line.revisions {
            Some(1) | None => format!("{before} and {after}"),
            Some(revisions) => format!("{before} and {after} ({revisions} revisions)"),
        }
    });
    add_state(&mut columns);
    columns.add(
        Column::words("causes", "changed there, too").expendable(2),
        |line| Cell::words(&line.causes),
    );
    columns
}

/// How far a change is established, and what people said.
fn add_state(columns: &mut Columns<Shown>) {
    columns.add_known("revisions", |line| line.revisions.map(Value::from));
    columns.add(Column::words("subject", "subject").expendable(3), |line| {
        Cell::words(&line.subject)
    });
    columns.add_known("evidence", |line| number(line.evidence));
    columns.add(Column::words("state", "state"), |line| {
        let drift = if line.is_drift { ", a drift" } else { "" };
        Cell::words(line.state.to_string()).shown(format!("{}{drift}", line.state))
    });
    columns.add_value("drift", |line| line.is_drift);
    columns.add(Column::words("judged", "judged"), |line| {
        let shown = match (line.judgement, &*line.note) {
            (Judgement::Open, "") => String::new(),
            (judgement, "") => judgement.to_string(),
            (judgement, note) => format!("{judgement}: {note}"),
        };
        Cell::words(line.judgement.to_string()).shown(shown)
    });
    columns.add_value("note", |line| line.note.clone());
}

fn headline(history: &History, known: &[Line<'_>], suspected: &[Line<'_>]) -> String {
    let searched = history
        .series
        .iter()
        .filter(|series| series.trend.is_searched());
    let searched = searched.count();
    if history.series.is_empty() {
        return "no series has a point on this line".into();
    }
    if searched == 0 {
        return "no series is long enough to be searched".into();
    }
    let on = match &*history.line {
        "" => String::new(),
        line => format!(" on '{line}'"),
    };
    let is_there = |line: &&Line<'_>| line.change.is_open();
    let open: Vec<&Line<'_>> = known.iter().filter(is_there).collect();
    let of = |verdict| open.iter().filter(|line| line.verdict == verdict).count();
    let among = count(searched, "series", "series");
    let suspicions = match suspected.len() {
        0 => String::new(),
        some => format!(", {some} suspected"),
    };
    match open.len() {
        0 => format!("no open change in {among}{on}{suspicions}"),
        all => format!(
            "{} in {among}{on}: {} worse, {} better{suspicions}",
            count(all, "open change", "open changes"),
            of(Verdict::Worse),
            of(Verdict::Better)
        ),
    }
}

fn notes(history: &History) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = history
        .series
        .iter()
        .filter_map(|series| match series.trend.search {
            Search::TooShort(missing) => Some(missing),
            _ => None,
        });
    let missing: Vec<usize> = missing.collect();
    if let Some(fewest) = missing.iter().min() {
        notes.push(format!(
            "{} too short to be searched: the longest lacks {}; 'speedwell compare --old rev:OLD --new rev:NEW' answers at \
             once.",
            count(missing.len(), "series is", "series are"),
            count(*fewest, "point", "points")
        ));
    }
    for series in &history.series {
        if let Search::Impossible(reason) = series.trend.search {
            notes.push(format!(
                "'{}' cannot be searched: {reason}.",
                series.key.case
            ));
        }
        if let Some(at) = series.trend.machine_swap {
            let revision = &series.trend.points[at].revision.id;
            notes.push(format!(
                "'{}': the machine changed with the code at {}, so neither shows by itself; measuring an older revision \
                 on this machine helps.",
                series.key.case,
                short_revision(revision)
            ));
        }
    }
    for (old, new) in history.possible_renames() {
        notes.push(format!(
            "Did '{old}' become '{new}'? speedwell history rename {} {}",
            quote(old),
            quote(new)
        ));
    }
    if history.gone > 0 {
        notes.push(format!(
            "{} of no revision on this line {} left out.",
            count(history.gone, "point", "points"),
            if history.gone == 1 { "is" } else { "are" }
        ));
    }
    if history.threshold > 0.0 {
        notes.push(format!(
            "A change is worse or better if its whole interval is beyond {}.",
            setting(history.threshold)
        ));
    }
    notes.push(
        "'~': about, for a border that was searched for shows its change too large; measuring both sides again tells its \
         size."
            .to_owned(),
    );
    notes
}

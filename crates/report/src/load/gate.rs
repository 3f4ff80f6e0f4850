//! The results of loads against their limits.

use crate::document::{Block, Document};
use crate::figure::{count, share, spell};
use crate::load::words::{rate, refusal_reason, spelled_ns, spelled_range};
use crate::table::{Cell, Column, Columns, Emphasis, Footnotes, Kind, Table};
use speedwell_analysis::load::Quantity;
use speedwell_analysis::load::gate::{Answer, Figure, Judged, Unknown};

/// Adds a gate's result to a report: in front of the headline, and a row per condition after it.
pub fn add_gate(judged: &[Judged<'_>], document: &mut Document) {
    if judged.is_empty() {
        return;
    }
    let answer = answer(judged);
    let table = Block::Table(conditions(judged));
    let is_headline = |block: &Block| matches!(block, Block::Headline(_));
    let at = document.blocks.iter().position(is_headline);
    match at.map(|at| (at, &mut document.blocks[at])) {
        Some((at, Block::Headline(text))) => {
            *text = format!("{answer} {text}");
            document.blocks.insert(at + 1, table);
        }
        _ => document.extend([Block::Headline(answer), table]),
    }
}

fn answer(judged: &[Judged<'_>]) -> String {
    let all = count(judged.len(), "condition", "conditions");
    let is = |wanted: fn(&Answer) -> bool| judged.iter().filter(|row| wanted(&row.answer)).count();
    let failed = is(|answer| *answer == Answer::Failed);
    let unknown = is(|answer| matches!(answer, Answer::Unknown(_)));
    match (failed, unknown) {
        (0, 0) if judged.len() == 1 => {
            "gate passed: its condition for failure is not met.".to_owned()
        }
        (0, 0) => format!("gate passed: none of its {all} for failure is met."),
        (0, unknown) => format!("gate cannot judge: {unknown} of {all} cannot be judged."),
        (failed, 0) => format!("gate failed: {failed} of {all}."),
        (failed, unknown) => {
            format!("gate failed: {failed} of {all}; {unknown} cannot be judged.")
        }
    }
}

fn conditions(judged: &[Judged<'_>]) -> Table {
    let mut footnotes = Footnotes::default();
    let rows: Vec<Line<'_>> = judged
        .iter()
        .map(|judged| Line {
            judged,
            mark: why(judged).map_or(String::new(), |why| footnotes.mark(why)),
        })
        .collect();
    Table {
        footnotes: footnotes.into_texts(),
        ..columns().table("conditions", &rows)
    }
}

/// A row, with the mark of its footnote.
struct Line<'a> {
    judged: &'a Judged<'a>,
    mark: String,
}

fn columns<'a>() -> Columns<Line<'a>> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("fails_if", "fails if", Kind::Identifier),
        |row: &Line<'a>| Cell::words(row.judged.condition.text.clone()),
    );
    columns.add(Column::new("load", "load", Kind::Label), |row| {
        Cell::words(row.judged.load)
    });
    columns.add_known("quantity", |row| Some(row.judged.quantity?.name().into()));
    columns.add(Column::figure("value", "found"), |row| {
        Cell::shown_figure(row.judged.value, |value| found(row.judged, value))
    });
    columns.add_figure("low", |row| row.judged.low);
    columns.add_figure("limit", |row| Some(row.judged.condition.limit));
    columns.add_value("is_lower_bound", |row| row.judged.is_lower_bound);
    columns.add(Column::words("answer", "answer").facet(), |row| {
        let (name, words, emphasis) = match row.judged.answer {
            Answer::Passed => ("passed", "✓ passed", Emphasis::Good),
            Answer::Failed => ("failed", "✗ failed", Emphasis::Bad),
            Answer::Unknown(_) => ("unknown", "✗ cannot be judged", Emphasis::Caution),
        };
        Cell::value(name)
            .shown(format!("{words}{}", row.mark))
            .emphasised(emphasis)
    });
    columns
}

fn found(row: &Judged<'_>, value: f64) -> String {
    let of = match row.quantity {
        Some(Quantity::Response) => "response ",
        Some(Quantity::Service) => "service ",
        _ => "",
    };
    match row.condition.figure {
        Figure::Time(..) => match row.low {
            Some(low) => format!("{of}{}", spelled_range(low, value)),
            None => format!("{of}{}", spelled_ns(value, row.is_lower_bound)),
        },
        Figure::Throughput => rate(value),
        Figure::ErrorShare | Figure::OkShare => share(value),
        Figure::ErrorCount | Figure::OkCount => spell(value, 0),
    }
}

/// Why a condition could not be evaluated.
fn why(row: &Judged<'_>) -> Option<&'static str> {
    let Answer::Unknown(why) = row.answer else {
        return None;
    };
    Some(match why {
        Unknown::Refused(refusal) => refusal_reason(refusal),
        Unknown::ClosedLoad => "a load without --rate has no such time",
        Unknown::NoRequests => "no request has this figure",
        Unknown::TooFewRequests => "no request of so few lies beyond this percentile",
        Unknown::MachineLost => {
            "a machine that sent a part of the load was lost, so the load was smaller than requested"
        }
        Unknown::Range => {
            "the limit lies within the range: the generator's own lateness would decide"
        }
        Unknown::LowerBound => "requests without an end may have taken longer",
    })
}

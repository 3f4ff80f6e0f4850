//! The columns of the verdict table, for people and for machines.

use super::line::{Line, emphasis};
use super::section::Section;
use crate::case_fields::{CaseMetric, case_fields, slots, values};
use crate::charts::forest_row;
use crate::digits::spell_signed;
use crate::field::Field;
use crate::output::Verbosity;
use crate::quantity::{change, change_interval, probability, setting, share};
use crate::table::{Cell, Column, Kind};
use speedwell_analysis::Side;
use speedwell_model::Estimate;

type Fields<'a> = Vec<Field<Line<'a>>>;

/// What the headings say that are not the same in every table.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    names: String,
    baseline: String,
    candidate: String,
    confidence: f64,
}

impl Headers {
    /// Those of the table of `section`.
    pub fn of(section: &Section<'_>) -> Headers {
        Headers {
            names: section.names_header().to_owned(),
            baseline: section.baseline_header().to_owned(),
            candidate: section.candidate_header().to_owned(),
            confidence: section.first().confidence,
        }
    }
}

/// All columns of a table.
pub fn fields<'a>(headers: &Headers, verbosity: Verbosity) -> Fields<'a> {
    let names = Column::new("case", &*headers.names, Kind::Label);
    let mut fields = vec![Field::new(names, |line: &Line<'_>| {
        Cell::value(line.row.case.id()).named(&line.name)
    })];
    fields.extend(identity());
    fields.extend(sides(&headers.baseline, &headers.candidate));
    fields.extend(answer(headers.confidence));
    fields.extend(evidence());
    if verbosity == Verbosity::Verbose {
        fields.extend(spread(&headers.baseline, &headers.candidate));
    }
    fields.extend(figures());
    fields
}

fn people(key: &'static str, header: impl Into<String>, kind: Kind) -> Column {
    Column::new(key, header, kind).for_people()
}

/// What was compared, for machines.
fn identity<'a>() -> Fields<'a> {
    let mut fields: Fields<'a> = case_fields(|line: &Line<'a>| CaseMetric {
        case: &line.row.case,
        metric: &line.comparison.metric,
    });
    fields.push(Field::machine("baseline", |line: &Line<'_>| {
        Cell::value(line.comparison.baseline.clone())
    }));
    fields.push(Field::machine("candidate", |line: &Line<'_>| {
        Cell::value(line.comparison.candidate.clone())
    }));
    fields
}

/// Both sides in their common unit.
fn sides<'a>(baseline: &str, candidate: &str) -> Fields<'a> {
    let shown = |side: &Side, text: &str| Cell::figure(Some(side.location)).shown(text);
    vec![
        Field::new(
            people("baseline_shown", baseline, Kind::Figure),
            move |line: &Line<'_>| shown(&line.row.baseline, &line.sides()[0]),
        ),
        Field::new(
            people("candidate_shown", candidate, Kind::Figure),
            move |line: &Line<'_>| shown(&line.row.candidate, &line.sides()[1]),
        ),
        Field::new(
            people("unit_shown", "unit", Kind::Words),
            |line: &Line<'_>| Cell::text(&line.unit),
        ),
    ]
}

/// The change and what it means.
fn answer<'a>(confidence: f64) -> Fields<'a> {
    let interval = format!("{} interval", setting(confidence));
    vec![
        Field::new(
            people("change_shown", "change", Kind::Figure),
            |line: &Line<'_>| {
                let text = line
                    .row
                    .change
                    .map_or_else(|| "?".to_owned(), |c| change(&c));
                Cell::figure(line.row.change.map(|c| c.value))
                    .shown(text)
                    .emphasised(emphasis(line.row.verdict))
            },
        ),
        Field::new(
            people("interval_shown", interval, Kind::Figure),
            |line: &Line<'_>| {
                let change = line.row.change;
                Cell::figure(change.map(|c| c.low))
                    .shown(change.map(|c| change_interval(&c)).unwrap_or_default())
            },
        ),
        Field::new(
            people("change_drawn", "change in %", Kind::Drawn),
            |line: &Line<'_>| Cell::drawing(forest_row(line.row, String::new())),
        ),
        Field::new(
            Column::new("verdict", "verdict", Kind::Words).facet(),
            |line: &Line<'_>| {
                Cell::words(line.row.verdict.to_string())
                    .shown(line.verdict())
                    .emphasised(emphasis(line.row.verdict))
            },
        ),
    ]
}

/// How sure the answer is.
fn evidence<'a>() -> Fields<'a> {
    let probability_of =
        |p: Option<f64>| Cell::figure(p).shown(p.map(probability).unwrap_or_default());
    vec![
        Field::new(
            Column::new("p", "p", Kind::Figure).expendable(5),
            move |line: &Line<'_>| probability_of(line.row.p),
        ),
        Field::new(
            Column::new("q", "q", Kind::Figure).expendable(2),
            move |line: &Line<'_>| probability_of(line.row.q),
        ),
        Field::new(
            people("runs_shown", "runs", Kind::Figure).expendable(4),
            |line: &Line<'_>| {
                Cell::figure(Some(line.row.baseline.runs.len() as f64)).shown(&line.runs)
            },
        ),
        Field::new(
            Column::new("more_runs", "more runs", Kind::Figure).expendable(3),
            |line: &Line<'_>| {
                let more = line.row.more_runs;
                Cell::figure(more.map(f64::from))
                    .shown(more.map(|n| format!("~{n}")).unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("detectable", "detectable", Kind::Figure).expendable(6),
            |line: &Line<'_>| {
                let detectable = line.row.detectable;
                Cell::figure(detectable).shown(detectable.map(share).unwrap_or_default())
            },
        ),
    ]
}

/// The spread of the runs on both sides, for those who ask for more.
fn spread<'a>(baseline: &str, candidate: &str) -> Fields<'a> {
    let shown = |side: &Side| {
        Cell::figure(side.variation).shown(side.variation.map(share).unwrap_or_default())
    };
    let column = |key, side: &str| people(key, format!("CV {side}"), Kind::Figure).expendable(7);
    vec![
        Field::new(column("baseline_cv", baseline), move |line: &Line<'_>| {
            shown(&line.row.baseline)
        }),
        Field::new(column("candidate_cv", candidate), move |line: &Line<'_>| {
            shown(&line.row.candidate)
        }),
        Field::new(
            people("cliffs", "Cliff's delta", Kind::Figure).expendable(8),
            |line: &Line<'_>| {
                let delta = line.row.cliffs_delta;
                Cell::figure(delta).shown(delta.map(|d| spell_signed(d, 2)).unwrap_or_default())
            },
        ),
    ]
}

/// Every figure with all its digits, for machines.
fn figures<'a>() -> Fields<'a> {
    let value = |of: Option<Estimate>| of.map(|e| e.value);
    let low = |of: Option<Estimate>| of.map(|e| e.low);
    let high = |of: Option<Estimate>| of.map(|e| e.high);
    let mut fields: Fields<'a> = vec![
        figure("baseline_location", |line: &Line<'_>| {
            Some(line.row.baseline.location)
        }),
        figure("candidate_location", |line: &Line<'_>| {
            Some(line.row.candidate.location)
        }),
        figure("baseline_median", |line: &Line<'_>| {
            Some(line.row.baseline.median)
        }),
        figure("candidate_median", |line: &Line<'_>| {
            Some(line.row.candidate.median)
        }),
        figure("baseline_mean", |line: &Line<'_>| {
            Some(line.row.baseline.mean)
        }),
        figure("candidate_mean", |line: &Line<'_>| {
            Some(line.row.candidate.mean)
        }),
        figure("baseline_variation", |line: &Line<'_>| {
            line.row.baseline.variation
        }),
        figure("candidate_variation", |line: &Line<'_>| {
            line.row.candidate.variation
        }),
        figure("baseline_runs", |line: &Line<'_>| {
            Some(line.row.baseline.runs.len() as f64)
        }),
        figure("candidate_runs", |line: &Line<'_>| {
            Some(line.row.candidate.runs.len() as f64)
        }),
        figure("change", move |line: &Line<'_>| value(line.row.change)),
        figure("change_low", move |line: &Line<'_>| low(line.row.change)),
        figure("change_high", move |line: &Line<'_>| high(line.row.change)),
        figure("mean_change", move |line: &Line<'_>| {
            value(line.row.mean_change)
        }),
        figure("mean_change_low", move |line: &Line<'_>| {
            low(line.row.mean_change)
        }),
        figure("mean_change_high", move |line: &Line<'_>| {
            high(line.row.mean_change)
        }),
        figure("cliffs_delta", |line: &Line<'_>| line.row.cliffs_delta),
        figure("decided_at", |line: &Line<'_>| {
            line.row.decided_at.map(f64::from)
        }),
    ];
    fields.extend(remarks());
    fields
}

fn figure<'a>(
    key: &'static str,
    of: impl Fn(&Line<'a>) -> Option<f64> + 'static,
) -> Field<Line<'a>> {
    Field::machine(key, move |line: &Line<'_>| Cell::figure(of(line)))
}

fn remarks<'a>() -> Fields<'a> {
    vec![
        Field::machine("indicative", |line: &Line<'_>| {
            Cell::value(line.row.indicative)
        }),
        Field::machine("shape_changed", |line: &Line<'_>| {
            Cell::value(line.row.shape_changed)
        }),
        Field::machine("notes", |line: &Line<'_>| {
            Cell::value(line.row.notes.join(" "))
        }),
        Field::machine("baseline_values", |line: &Line<'_>| {
            Cell::value(values(&line.row.baseline.runs))
        }),
        Field::machine("candidate_values", |line: &Line<'_>| {
            Cell::value(values(&line.row.candidate.runs))
        }),
        Field::machine("baseline_slots", |line: &Line<'_>| {
            Cell::value(slots(&line.row.baseline.runs))
        }),
        Field::machine("candidate_slots", |line: &Line<'_>| {
            Cell::value(slots(&line.row.candidate.runs))
        }),
    ]
}

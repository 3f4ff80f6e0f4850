//! One row of the verdict table, with everything decided that concerns several cells at once: the
//! common unit of both sides, the digits shown, the marks of footnotes.

use crate::case_labels::{CaseMetric, case_fields, slots, values};
use crate::charts::forest_row;
use crate::comparison::Section;
use crate::document::Emphasis;
use crate::figure::{
    Uncertainty, change, change_interval, change_with_interval, probability, setting, share, spell,
    spell_signed, uncertainty_of_median,
};
use crate::output::Verbosity;
use crate::table::{Cell, Column, Field, Footnotes, Kind, Name};
use crate::unit::{Scale, UnitChoice};
use speedwell_analysis::{CaseComparison, Comparison, Side};
use speedwell_model::{Estimate, Verdict};

/// A case of a comparison.
pub type Place<'a> = (&'a Comparison, &'a CaseComparison);

/// Said of every verdict that rests on runs in fixed or unknown order.
const INDICATIVE: &str = "a hint only: the order of these runs is fixed or unknown, so that a drift \
                          of the machine may pass for a change";

/// A row of the table.
pub struct Line<'a> {
    /// The comparison it belongs to.
    pub comparison: &'a Comparison,
    /// Its figures.
    pub row: &'a CaseComparison,
    /// What it is called in its table.
    pub name: Name,
    /// How the figures of both sides are shown.
    pub scale: Scale,
    /// The last decimal place of the baseline and of the candidate.
    pub last_places: [i32; 2],
    /// The unit, unless the caption says it.
    pub unit: String,
    /// Runs a side, unless the caption says them.
    pub runs: String,
    /// Marks of the footnotes.
    pub marks: String,
}

impl Line<'_> {
    /// What is said below the row.
    pub fn remark(&self) -> Option<String> {
        let mean = self.row.mean_change.filter(|_| self.row.shape_changed)?;
        let mean = change_with_interval(&mean);
        Some(format!(
            "mean {mean} (sensitive to outliers): the shape or the tail changed"
        ))
    }

    /// The figures of the baseline and of the candidate, as they stand in the table.
    pub fn sides(&self) -> [String; 2] {
        let sides = [&self.row.baseline, &self.row.candidate];
        [0, 1].map(|at| self.scale.bare(sides[at].location, self.last_places[at]))
    }

    /// The verdict with its symbol and the marks of its footnotes.
    pub fn verdict(&self) -> String {
        let verdict = self.row.verdict;
        format!("{} {verdict} {}", symbol(verdict), self.marks)
            .trim_end()
            .to_owned()
    }
}

/// A symbol that tells verdicts apart without colour.
pub fn symbol(verdict: Verdict) -> char {
    match verdict {
        Verdict::Better => '▲',
        Verdict::Worse => '▼',
        Verdict::Same => '=',
        Verdict::Unclear => '?',
    }
}

/// The emphasis of a verdict.
pub fn emphasis(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Better => Emphasis::Good,
        Verdict::Worse => Emphasis::Bad,
        Verdict::Same => Emphasis::None,
        Verdict::Unclear => Emphasis::Caution,
    }
}

/// The lines of one table, in the order given. Names are filled in later.
pub fn prepare<'a>(
    places: Vec<Place<'a>>,
    choice: Option<UnitChoice>,
    footnotes: &mut Footnotes,
) -> Vec<Line<'a>> {
    let whole = common_scale(&places, choice);
    let shared = shared_remarks(&places);
    let line = |(comparison, row): Place<'a>| {
        let sides = [row.baseline.location, row.candidate.location];
        let own = || Scale::fitting(&comparison.metric.unit, &sides, choice);
        let scale = whole.clone().unwrap_or_else(own);
        Line {
            name: Name::default(),
            last_places: last_places(row, &scale),
            unit: scale.symbol.clone(),
            runs: runs(row),
            marks: marks(row, &shared, footnotes),
            comparison,
            row,
            scale,
        }
    };
    places.into_iter().map(line).collect()
}

/// Fewest significant digits of a figure that has a change: with fewer, who divides in his head finds another one.
const FEWEST_DIGITS: i32 = 3;
/// Sides up to this many times as large as each other end at the same decimal place.
const OF_ONE_SIZE: f64 = 10.0;

/// The last decimal places of both sides. They are those that the interval of the change supports, so that the printed
/// figures have the printed change: a side by itself may be known less well than its ratio to the other.
fn last_places(row: &CaseComparison, scale: &Scale) -> [i32; 2] {
    let half_width = row.change.and_then(|change| half_of_logs(&change));
    let place = |side: &Side| {
        let location = side.location;
        let known = match half_width {
            Some(half) => Uncertainty::Half(half * location.abs()),
            None => uncertainty_of_median(location, side.variation, side.runs.len()),
        };
        let place = scale.place(location, known);
        match (known, scale.first_place(location)) {
            (Uncertainty::Exact, _) | (_, None) => place,
            (_, Some(first)) => place.max(first + FEWEST_DIGITS - 1),
        }
    };
    let own = [&row.baseline, &row.candidate].map(place);
    let [one, other] = [&row.baseline, &row.candidate].map(|side| side.location.abs());
    if one.max(other) < OF_ONE_SIZE * one.min(other) {
        [own[0].max(own[1]); 2]
    } else {
        own
    }
}

/// Half the width of a bounded interval on the scale of logarithms: a share of either side.
fn half_of_logs(change: &Estimate) -> Option<f64> {
    let half = 0.5 * (change.high.ln_1p() - change.low.ln_1p());
    (half > 0.0 && half.is_finite()).then_some(half)
}

/// One scale for all rows, if their figures are of one metric and of similar size.
fn common_scale(places: &[Place<'_>], choice: Option<UnitChoice>) -> Option<Scale> {
    let metric = &places.first()?.0.metric;
    if places
        .iter()
        .any(|(comparison, _)| comparison.metric != *metric)
    {
        return None;
    }
    let sides = places
        .iter()
        .flat_map(|(_, row)| [row.baseline.location, row.candidate.location]);
    Scale::common(&metric.unit, sides, choice)
}

fn runs(row: &CaseComparison) -> String {
    let (baseline, candidate) = (row.baseline.runs.len(), row.candidate.runs.len());
    if baseline == candidate {
        return spell(baseline as f64, 0);
    }
    format!("{baseline}/{candidate}")
}

/// Everything that is to be said of a row.
fn row_notes(row: &CaseComparison) -> impl Iterator<Item = &str> {
    let indicative = row.indicative.then_some(INDICATIVE);
    indicative
        .into_iter()
        .chain(row.notes.iter().map(String::as_str))
}

/// What is true of every row of a longer table: a mark on all of them would tell nothing apart.
pub fn shared_remarks(places: &[Place<'_>]) -> Vec<String> {
    let Some(((_, first), others @ [_, ..])) = places.split_first() else {
        return Vec::new();
    };
    let is_shared = |text: &&str| {
        let mut others = others.iter();
        others.all(|(_, row)| row_notes(row).any(|other| other == *text))
    };
    row_notes(first).filter(is_shared).map(sentence).collect()
}

/// Words as a sentence of its own.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    let rest = letters.as_str();
    let end = if words.ends_with('.') { "" } else { "." };
    format!("{}{rest}{end}", first.unwrap_or_default())
}

fn marks(row: &CaseComparison, shared: &[String], footnotes: &mut Footnotes) -> String {
    row_notes(row)
        .filter(|text| !shared.contains(&sentence(text)))
        .map(|text| footnotes.mark(text))
        .collect::<Vec<_>>()
        .join(" ")
}

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
    fields.extend(note_columns());
    fields
}

fn figure<'a>(
    key: &'static str,
    of: impl Fn(&Line<'a>) -> Option<f64> + 'static,
) -> Field<Line<'a>> {
    Field::machine(key, move |line: &Line<'_>| Cell::figure(of(line)))
}

fn note_columns<'a>() -> Fields<'a> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_analysis::Settings;

    #[test]
    fn a_side_that_became_much_smaller_shows_its_own_digits() {
        let session = speedwell_results::formats::read(
            "f.csv",
            b"\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n\
              \"old\",\"g/a.js\",\"\",1000,1\n\"old\",\"g/a.js\",\"\",1600,1\n\
              \"new\",\"g/a.js\",\"\",15,1\n\"new\",\"g/a.js\",\"\",17,1\n",
        )
        .unwrap()
        .remove(0);
        let findings = speedwell_analysis::of(&session, &Settings::default());
        let found = &findings.comparisons[0];
        let lines = prepare(
            vec![(found, &found.rows[0])],
            None,
            &mut Footnotes::default(),
        );
        assert_eq!(lines[0].sides(), ["1,270", "16.0"]);
    }
}

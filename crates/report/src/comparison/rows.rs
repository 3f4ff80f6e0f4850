//! The rows and columns of the verdict table, for people and for machines.
//!
//! A row is prepared with everything that concerns several of its cells at once: the common unit of both sides, the
//! digits shown, the marks of footnotes. Start at [`prepare`] and [`columns`].

use super::machines;
use crate::case_labels::add_case_columns;
use crate::charts::forest_row;
use crate::figure::{
    Uncertainty, change, change_interval, change_with_interval, probability, setting, share, spell,
    spell_signed, uncertainty_of_median,
};
use crate::output::Verbosity;
use crate::table::{Cell, Column, Columns, Emphasis, Footnotes, Kind, Name, RunList};
use crate::unit::{Scale, UnitChoice};
use speedwell_analysis::{CaseComparison, Comparison};
use speedwell_model::{Better, Estimate, Figure as Recorded, Verdict};
use std::borrow::Cow;

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
        if let Some(withheld) = &self.row.withheld {
            return format!("- {withheld} {}", self.marks).trim_end().to_owned();
        }
        let verdict = self.row.verdict;
        let words = if self.has_no_direction() {
            "≠ differs".to_owned()
        } else {
            format!("{} {verdict}", symbol(verdict))
        };
        format!("{words} {}", self.marks).trim_end().to_owned()
    }

    /// Whether there is a change of which nobody knows whether it is good.
    fn has_no_direction(&self) -> bool {
        self.row.differs && self.comparison.metric.better == Better::Unknown
    }

    /// The change: in percent, or from zero to what it is now.
    fn change(&self) -> String {
        match self.row.change {
            Some(known) => change(&known),
            None if self.row.is_from_zero() => self.sides().join(" -> "),
            None => "?".to_owned(),
        }
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
        let unit = &comparison.metric.unit;
        let own =
            || Scale::fitting(unit, &sides, choice).keeping_counts(unit, figures(row), choice);
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
    let place = |(location, known): (f64, Uncertainty)| {
        let place = scale.place(location, known);
        match (known, scale.first_place(location)) {
            (Uncertainty::Exact, _) | (_, None) => place,
            (_, Some(first)) => place.max(first + FEWEST_DIGITS - 1),
        }
    };
    let own = figures(row).map(place);
    let [one, other] = [&row.baseline, &row.candidate].map(|side| side.location.abs());
    if one.max(other) < OF_ONE_SIZE * one.min(other) {
        [own[0].max(own[1]); 2]
    } else {
        own
    }
}

/// Both sides with what the change, or else their own runs, say of their uncertainty.
fn figures(row: &CaseComparison) -> [(f64, Uncertainty); 2] {
    let half_width = row.change.and_then(|change| half_of_logs(&change));
    [&row.baseline, &row.candidate].map(|side| {
        let known = match half_width {
            Some(half) => Uncertainty::Half(half * side.location.abs()),
            None => uncertainty_of_median(side.location, side.variation, side.runs.len()),
        };
        (side.location, known)
    })
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
    let scale = Scale::common(&metric.unit, sides, choice)?;
    let all = places.iter().flat_map(|(_, row)| figures(row));
    Some(scale.keeping_counts(&metric.unit, all, choice))
}

fn runs(row: &CaseComparison) -> String {
    let (baseline, candidate) = (row.baseline.runs.len(), row.candidate.runs.len());
    if baseline == candidate {
        return spell(baseline as f64, 0);
    }
    format!("{baseline}/{candidate}")
}

/// Everything that is to be said of a row.
fn row_notes(row: &CaseComparison) -> impl Iterator<Item = Cow<'_, str>> {
    let indicative = row.indicative.then_some(Cow::Borrowed(INDICATIVE));
    let by_machine = machines::remark(row).map(Cow::Owned);
    let own = row.notes.iter().map(|note| Cow::Borrowed(note.as_str()));
    indicative.into_iter().chain(by_machine).chain(own)
}

/// What is true of every row of a longer table: a mark on all of them would tell nothing apart.
pub fn shared_remarks(places: &[Place<'_>]) -> Vec<String> {
    let Some(((_, first), others @ [_, ..])) = places.split_first() else {
        return Vec::new();
    };
    let is_shared = |text: &Cow<'_, str>| {
        let mut others = others.iter();
        others.all(|(_, row)| row_notes(row).any(|other| other == *text))
    };
    row_notes(first)
        .filter(is_shared)
        .map(|text| sentence(&text))
        .collect()
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
        .map(|text| footnotes.mark(&text))
        .collect::<Vec<_>>()
        .join(" ")
}

/// All columns of a table, with the headings of the names, the baseline and the candidate.
pub fn columns<'a>(
    [names, baseline, candidate]: [&str; 3],
    confidence: f64,
    verbosity: Verbosity,
) -> Columns<Line<'a>> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", names, Kind::Label),
        |line: &Line<'a>| Cell::value(line.row.case.id()).named(&line.name),
    );
    add_case_columns(
        &mut columns,
        |line: &Line<'a>| &line.row.case,
        |line: &Line<'a>| &line.comparison.metric,
    );
    columns.add_value("baseline", |line| line.comparison.baseline.clone());
    columns.add_value("candidate", |line| line.comparison.candidate.clone());
    add_sides(&mut columns, baseline, candidate);
    add_answer(&mut columns, confidence);
    add_evidence(&mut columns);
    if verbosity == Verbosity::Verbose {
        add_spread(&mut columns, baseline, candidate);
    }
    add_figures(&mut columns);
    columns
}

/// Both sides in their common unit.
fn add_sides(columns: &mut Columns<Line<'_>>, baseline: &str, candidate: &str) {
    let column = |key, side: &str| Column::figure(key, side).for_people();
    columns.add(column("baseline_shown", baseline), |line| {
        Cell::figure(Some(line.row.baseline.location)).shown(&line.sides()[0])
    });
    columns.add(column("candidate_shown", candidate), |line| {
        Cell::figure(Some(line.row.candidate.location)).shown(&line.sides()[1])
    });
    columns.add_text(Column::words("unit_shown", "unit"), |line| {
        line.unit.clone()
    });
}

/// The change and what it means.
fn add_answer(columns: &mut Columns<Line<'_>>, confidence: f64) {
    columns.add(
        Column::figure("change_shown", "change").for_people(),
        |line| {
            Cell::figure(line.row.change.map(|c| c.value))
                .shown(line.change())
                .emphasised(emphasis(line.row.verdict))
        },
    );
    let interval = format!("{} interval", setting(confidence));
    columns.add(
        Column::figure("interval_shown", interval).for_people(),
        |line| {
            let change = line.row.change;
            Cell::figure(change.map(|c| c.low))
                .shown(change.map(|c| change_interval(&c)).unwrap_or_default())
        },
    );
    let drawn = Column::new("change_drawn", "change in %", Kind::Drawn).for_people();
    columns.add(drawn, |line| {
        Cell::drawing(forest_row(line.row, String::new()))
    });
    columns.add(Column::words("verdict", "verdict").facet(), |line| {
        let words = match &line.row.withheld {
            Some(withheld) => withheld.to_string(),
            None => line.row.verdict.to_string(),
        };
        Cell::words(words)
            .shown(line.verdict())
            .emphasised(emphasis(line.row.verdict))
    });
}

/// How sure the answer is.
fn add_evidence(columns: &mut Columns<Line<'_>>) {
    columns.add(Column::figure("p", "p").expendable(5), |line| {
        Cell::shown_figure(line.row.p, probability)
    });
    columns.add(Column::figure("q", "q").expendable(2), |line| {
        Cell::shown_figure(line.row.q, probability)
    });
    let runs = Column::figure("runs_shown", "runs").for_people();
    columns.add(runs.expendable(4), |line| {
        Cell::figure(Some(line.row.baseline.runs.len() as f64)).shown(&line.runs)
    });
    columns.add(
        Column::figure("more_runs", "more runs").expendable(3),
        |line| Cell::shown_figure(line.row.more_runs.map(f64::from), |n| format!("~{n}")),
    );
    columns.add(
        Column::figure("detectable", "detectable").expendable(6),
        |line| Cell::shown_figure(line.row.detectable, share),
    );
}

/// The keys of either side's median of a figure that the kernel told.
const RECORDED: [(&str, &str, Recorded); 12] = [
    ("baseline_steal", "candidate_steal", Recorded::Steal),
    (
        "baseline_pressure",
        "candidate_pressure",
        Recorded::Pressure,
    ),
    ("baseline_wait", "candidate_wait", Recorded::Wait),
    (
        "baseline_involuntary",
        "candidate_involuntary",
        Recorded::Involuntary,
    ),
    (
        "baseline_voluntary",
        "candidate_voluntary",
        Recorded::Voluntary,
    ),
    (
        "baseline_migrations",
        "candidate_migrations",
        Recorded::Migrations,
    ),
    (
        "baseline_minor_faults",
        "candidate_minor_faults",
        Recorded::MinorFaults,
    ),
    (
        "baseline_major_faults",
        "candidate_major_faults",
        Recorded::MajorFaults,
    ),
    (
        "baseline_frequency",
        "candidate_frequency",
        Recorded::Frequency,
    ),
    (
        "baseline_throttled",
        "candidate_throttled",
        Recorded::Throttled,
    ),
    ("baseline_load", "candidate_load", Recorded::Load),
    (
        "baseline_temperature",
        "candidate_temperature",
        Recorded::Temperature,
    ),
];

/// How often each side was disturbed, where that is often, and for machines what the kernel said of its runs.
pub fn add_disturbance(columns: &mut Columns<Line<'_>>) {
    let column = Column::figure("disturbed_shown", "disturbed").for_people();
    columns.add(column.expendable(6), |line| {
        let sides = [&line.row.baseline.exposure, &line.row.candidate.exposure];
        let shares = sides.map(|side| share(side.share()));
        let is_shown = sides.iter().any(|side| side.is_notable());
        Cell::figure(Some(sides[1].share())).shown(if is_shown {
            shares.join(" | ")
        } else {
            String::new()
        })
    });
    columns.add_figure("baseline_disturbed", |line| {
        line.row.baseline.exposure.known_share()
    });
    columns.add_figure("candidate_disturbed", |line| {
        line.row.candidate.exposure.known_share()
    });
    for (baseline, candidate, figure) in RECORDED {
        columns.add_figure(baseline, move |line| {
            line.row.baseline.exposure.median(figure)
        });
        columns.add_figure(candidate, move |line| {
            line.row.candidate.exposure.median(figure)
        });
    }
}

/// The spread of the runs on both sides, for those who ask for more.
fn add_spread(columns: &mut Columns<Line<'_>>, baseline: &str, candidate: &str) {
    let column = |key, header| Column::figure(key, header).for_people();
    columns.add(
        column("baseline_cv", format!("CV {baseline}")).expendable(7),
        |line| Cell::shown_figure(line.row.baseline.variation, share),
    );
    columns.add(
        column("candidate_cv", format!("CV {candidate}")).expendable(7),
        |line| Cell::shown_figure(line.row.candidate.variation, share),
    );
    columns.add(
        column("cliffs", "Cliff's delta".to_owned()).expendable(8),
        |line| Cell::shown_figure(line.row.cliffs_delta, |delta| spell_signed(delta, 2)),
    );
}

/// The key of a column for machines, and its figure.
type Figure = (&'static str, fn(&CaseComparison) -> Option<f64>);

/// Figures for machines with all their digits.
const FIGURES: [Figure; 18] = [
    ("baseline_location", |row| Some(row.baseline.location)),
    ("candidate_location", |row| Some(row.candidate.location)),
    ("baseline_median", |row| Some(row.baseline.median)),
    ("candidate_median", |row| Some(row.candidate.median)),
    ("baseline_mean", |row| Some(row.baseline.mean)),
    ("candidate_mean", |row| Some(row.candidate.mean)),
    ("baseline_variation", |row| row.baseline.variation),
    ("candidate_variation", |row| row.candidate.variation),
    ("baseline_runs", |row| Some(row.baseline.runs.len() as f64)),
    (
        "candidate_runs",
        |row| Some(row.candidate.runs.len() as f64),
    ),
    ("change", |row| Some(row.change?.value)),
    ("change_low", |row| Some(row.change?.low)),
    ("change_high", |row| Some(row.change?.high)),
    ("mean_change", |row| Some(row.mean_change?.value)),
    ("mean_change_low", |row| Some(row.mean_change?.low)),
    ("mean_change_high", |row| Some(row.mean_change?.high)),
    ("cliffs_delta", |row| row.cliffs_delta),
    ("decided_at", |row| row.decided_at.map(f64::from)),
];

/// Every figure, and all runs, for machines.
fn add_figures(columns: &mut Columns<Line<'_>>) {
    for (key, figure) in FIGURES {
        columns.add_figure(key, move |line| figure(line.row));
    }
    columns.add_value("indicative", |line| line.row.indicative);
    columns.add_value("shape_changed", |line| line.row.shape_changed);
    columns.add_value("notes", |line| line.row.notes.join(" "));
    columns.add_runs("baseline_values", |line| {
        RunList::Values(line.row.baseline.runs.clone())
    });
    columns.add_runs("candidate_values", |line| {
        RunList::Values(line.row.candidate.runs.clone())
    });
    columns.add_runs("baseline_slots", |line| {
        RunList::Slots(line.row.baseline.runs.clone())
    });
    columns.add_runs("candidate_slots", |line| {
        RunList::Slots(line.row.candidate.runs.clone())
    });
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
        let findings = speedwell_analysis::analyse(&session, &Settings::default());
        let found = &findings.comparisons[0];
        let lines = prepare(
            vec![(found, &found.rows[0])],
            None,
            &mut Footnotes::default(),
        );
        assert_eq!(lines[0].sides(), ["1,270", "16.0"]);
    }
}

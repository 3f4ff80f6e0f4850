//! One row of the verdict table, with everything decided that concerns several cells at once: the
//! common unit of both sides, the digits shown, the marks of footnotes.

use crate::digits::{Uncertainty, spell};
use crate::document::Emphasis;
use crate::footnotes::Footnotes;
use crate::quantity::{change_with_interval, uncertainty_of_median};
use crate::table::Name;
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
fn remarks(row: &CaseComparison) -> impl Iterator<Item = &str> {
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
        others.all(|(_, row)| remarks(row).any(|other| other == *text))
    };
    remarks(first).filter(is_shared).map(sentence).collect()
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
    remarks(row)
        .filter(|text| !shared.contains(&sentence(text)))
        .map(|text| footnotes.mark(text))
        .collect::<Vec<_>>()
        .join(" ")
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

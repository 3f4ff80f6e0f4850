//! One row of the verdict table, with everything decided that concerns several cells at once: the
//! common unit of both sides, the digits shown, the marks of footnotes.

use crate::analysis::{CaseComparison, Comparison, Side};
use crate::model::Verdict;
use crate::report::digits::{Uncertainty, spell};
use crate::report::document::Emphasis;
use crate::report::footnotes::Footnotes;
use crate::report::quantity::{change_with_interval, uncertainty_of_median};
use crate::report::table::Name;
use crate::report::unit::{Scale, UnitChoice};

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
    /// The last decimal place of both sides.
    pub place: i32,
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
    let line = |(comparison, row): Place<'a>| {
        let medians = [row.baseline.median, row.candidate.median];
        let own = || Scale::fitting(&comparison.metric.unit, &medians, choice);
        let scale = whole.clone().unwrap_or_else(own);
        let place_of = |side: &Side| scale.place(side.median, uncertainty(side));
        // A side that became much smaller still shows its first digit.
        let first_digits = medians
            .iter()
            .filter_map(|median| scale.first_place(*median));
        Line {
            name: Name::default(),
            place: place_of(&row.baseline)
                .min(place_of(&row.candidate))
                .max(first_digits.max().unwrap_or(i32::MIN)),
            unit: scale.symbol.clone(),
            runs: runs(row),
            marks: marks(row, footnotes),
            comparison,
            row,
            scale,
        }
    };
    places.into_iter().map(line).collect()
}

fn uncertainty(side: &Side) -> Uncertainty {
    uncertainty_of_median(side.median, side.variation, side.runs.len())
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
        .flat_map(|(_, row)| [row.baseline.median, row.candidate.median]);
    Scale::common(&metric.unit, sides, choice)
}

fn runs(row: &CaseComparison) -> String {
    let (baseline, candidate) = (row.baseline.runs.len(), row.candidate.runs.len());
    if baseline == candidate {
        return spell(baseline as f64, 0);
    }
    format!("{baseline}/{candidate}")
}

fn marks(row: &CaseComparison, footnotes: &mut Footnotes) -> String {
    let indicative = row.indicative.then_some(INDICATIVE);
    let texts = indicative
        .into_iter()
        .chain(row.notes.iter().map(String::as_str));
    texts
        .map(|text| footnotes.mark(text))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Settings;

    #[test]
    fn a_side_that_became_much_smaller_shows_its_first_digit() {
        let session = crate::exchange::read(
            "f.csv",
            b"\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n\
              \"old\",\"g/a.js\",\"\",1000,1\n\"old\",\"g/a.js\",\"\",1600,1\n\
              \"new\",\"g/a.js\",\"\",15,1\n\"new\",\"g/a.js\",\"\",17,1\n",
        )
        .unwrap()
        .remove(0);
        let findings = crate::analysis::of(&session, &Settings::default());
        let found = &findings.comparisons[0];
        let lines = prepare(
            vec![(found, &found.rows[0])],
            None,
            &mut Footnotes::default(),
        );
        let line = &lines[0];
        let shown = |side: &Side| line.scale.bare(side.median, line.place);
        assert_eq!(
            (shown(&line.row.baseline), shown(&line.row.candidate)),
            ("1,300".into(), "20".into())
        );
    }
}

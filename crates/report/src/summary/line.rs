//! One row of the summary: unit, digits and marks, decided for the whole row at once.

use crate::digits::{Uncertainty, spell};
use crate::footnotes::Footnotes;
use crate::metric_words::count;
use crate::quantity::{uncertainty_of, uncertainty_of_median};
use crate::table::Name;
use crate::unit::{Scale, UnitChoice, in_base_units};
use speedwell_analysis::CaseSummary;
use speedwell_model::{Better, Metric};

/// A row of the table.
pub struct Line<'a> {
    /// Its figures.
    pub summary: &'a CaseSummary,
    /// What it is called in its table.
    pub name: Name,
    /// How its figures are shown.
    pub scale: Scale,
    /// The last decimal place of its figures.
    pub place: i32,
    /// The unit, unless the caption says it.
    pub unit: String,
    /// The number of runs, unless the caption says it.
    pub runs: String,
    /// The variant, unless the caption says it.
    pub variant: String,
    /// Mean time of one iteration of one worker in nanoseconds and as text, where that can be told.
    pub time: Option<(f64, String)>,
    /// Marks of the footnotes.
    pub marks: String,
}

/// The lines of one table, in the order given; with one unit for all if they are `alike`.
pub fn prepare<'a>(
    section: &[&'a CaseSummary],
    alike: bool,
    choice: Option<UnitChoice>,
    footnotes: &mut Footnotes,
) -> Vec<Line<'a>> {
    let common = if alike {
        common_scale(section, choice)
    } else {
        None
    };
    let line = |summary: &&'a CaseSummary| {
        let own = || Scale::fitting(&summary.metric.unit, &[summary.center.value], choice);
        let scale = common.clone().unwrap_or_else(own);
        let notes = summary.notes.iter().map(|note| footnotes.mark(note));
        Line {
            summary,
            name: Name::default(),
            place: scale.place(summary.center.value, uncertainty(summary)),
            unit: scale.symbol.clone(),
            runs: spell(summary.runs.len() as f64, 0),
            variant: summary.variant.to_string(),
            time: time_per_iteration(summary, choice),
            marks: notes.collect::<Vec<_>>().join(" "),
            scale,
        }
    };
    section.iter().map(line).collect()
}

fn uncertainty(summary: &CaseSummary) -> Uncertainty {
    match uncertainty_of(&summary.center) {
        Uncertainty::Unknown => {
            uncertainty_of_median(summary.center.value, summary.variation, summary.runs.len())
        }
        known => known,
    }
}

fn common_scale(section: &[&CaseSummary], choice: Option<UnitChoice>) -> Option<Scale> {
    let unit = &section.first()?.metric.unit;
    let centres = section.iter().map(|summary| summary.center.value);
    Scale::common(unit, centres, choice)
}

/// Time per iteration and worker: the workers that share a throughput are counted by the parameter
/// `concurrency`, one without it.
fn time_per_iteration(summary: &CaseSummary, choice: Option<UnitChoice>) -> Option<(f64, String)> {
    let metric = &summary.metric;
    if metric.name != Metric::THROUGHPUT || metric.better != Better::Higher {
        return None;
    }
    let per_second =
        in_base_units(summary.center.value, &metric.unit).filter(|rate| *rate > 0.0)?;
    let workers = summary
        .case
        .value("concurrency")
        .and_then(|value| value.as_number());
    let time_ns = workers.filter(|number| *number >= 1.0).unwrap_or(1.0) / per_second * 1e9;
    let relative = match uncertainty(summary) {
        Uncertainty::Half(half) => Uncertainty::Half(half / summary.center.value * time_ns),
        Uncertainty::Exact | Uncertainty::Unknown => Uncertainty::Unknown,
    };
    let scale = Scale::fitting("ns", &[time_ns], choice);
    let text = scale.full(time_ns, scale.place(time_ns, relative));
    Some((time_ns, text))
}

/// The answer of a single summary: `g/a.js: 1.234 M/s [1.221, 1.240], 810 ns per iteration`.
pub fn sentence(summary: &CaseSummary, choice: Option<UnitChoice>) -> String {
    let scale = Scale::fitting(&summary.metric.unit, &[summary.center.value], choice);
    let place = scale.place(summary.center.value, uncertainty(summary));
    let mut sentence = format!(
        "{}: {}",
        summary.case.benchmark,
        scale.full(summary.center.value, place)
    );
    if summary.center.low < summary.center.high {
        let ends = [summary.center.low, summary.center.high].map(|end| scale.bare(end, place));
        sentence.push_str(&format!(" [{}, {}]", ends[0], ends[1]));
    }
    if let Some((_, time)) = time_per_iteration(summary, choice) {
        sentence.push_str(&format!(", {time} per iteration"));
    }
    let runs = count(summary.runs.len(), "run", "runs");
    format!("{sentence} ({runs}).")
}

/// The bare spelling of `stored` with the digits of the line.
pub fn shown(line: &Line<'_>, stored: f64) -> String {
    line.scale.bare(stored, line.place)
}

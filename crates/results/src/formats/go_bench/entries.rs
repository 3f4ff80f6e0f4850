//! Results and failures of a text become runs and failures of a session.
//!
//! Decides which lines are repetitions, and what is said of units and values. It must not know
//! lines. The entry point is [`add`].

use super::line::Figures;
use super::measure::{self, Measure};
use crate::formats::imported::{
    Imported, NOTE_ON_REPETITIONS, Process, REMARK_ON_REPETITIONS, sample,
};
use speedwell_model::{Case, Cause, Sample};
use std::collections::{BTreeSet, HashMap};

/// A result or a failure.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The package, where it is known.
    pub package: Option<&'a str>,
    /// The name as it is printed.
    pub name: &'a str,
    /// What came of it.
    pub outcome: Outcome<'a>,
}

/// What came of a benchmark.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Figures.
    Measured(Figures<'a>),
    /// None, for this reason.
    Stopped(Cause),
}

/// Adds all entries to a session. `directions` are those that the text itself gives to units. Gives
/// what the user should know.
pub fn add(
    entries: Vec<Entry<'_>>,
    directions: &HashMap<&str, bool>,
    imported: &mut Imported,
) -> Vec<String> {
    let cases: Vec<Case> = entries
        .iter()
        .map(|entry| measure::case(entry.package, entry.name))
        .collect();
    let mut counts: HashMap<String, u32> = HashMap::new();
    for (entry, case) in entries.iter().zip(&cases) {
        if matches!(entry.outcome, Outcome::Measured(_)) {
            *counts.entry(case.id()).or_default() += 1;
        }
    }
    let mut adding = Adding {
        directions,
        imported,
        guessed: BTreeSet::new(),
        not_finite: 0,
    };
    for (entry, case) in entries.into_iter().zip(cases) {
        let is_repeated = counts.get(&case.id()).is_some_and(|count| *count > 1);
        adding.entry(entry, case, is_repeated);
    }
    let mut remarks = Vec::new();
    if counts.values().any(|count| *count > 1) {
        remarks.push(REMARK_ON_REPETITIONS.to_owned());
    }
    remarks.extend(adding.remarks());
    remarks
}

struct Adding<'a> {
    directions: &'a HashMap<&'a str, bool>,
    imported: &'a mut Imported,
    /// Units whose good direction is a guess.
    guessed: BTreeSet<String>,
    not_finite: u32,
}

impl Adding<'_> {
    fn entry(&mut self, entry: Entry<'_>, case: Case, is_repeated: bool) {
        match entry.outcome {
            Outcome::Measured(figures) => {
                let mut process = self.process(&figures);
                if is_repeated {
                    process.notes.push(NOTE_ON_REPETITIONS.to_owned());
                }
                self.imported.run(case, process);
            }
            Outcome::Stopped(cause) => {
                let replay = measure::replay(entry.package, entry.name);
                self.imported.failure(&case, cause, replay);
            }
        }
    }

    fn process(&mut self, figures: &Figures<'_>) -> Process {
        let mut process = Process::default();
        for (value, unit) in &figures.values {
            if !value.is_finite() {
                self.not_finite += 1;
                continue;
            }
            let measure = Measure::of(unit, self.directions.get(unit).copied());
            if measure.is_guess {
                self.guessed.insert(format!("'{unit}'"));
            }
            let is_time = measure.metric.name == "time";
            let value = value * measure.factor;
            let total_ns = value * figures.iterations;
            if is_time {
                process.wall_ns = total_ns;
            }
            let metric = self.imported.metric(measure.metric);
            process.samples.push(Sample {
                elapsed_ns: is_time.then_some(total_ns as u64),
                iterations: is_time.then_some(figures.iterations),
                ..sample(&metric, value)
            });
        }
        process
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.guessed.is_empty() {
            let units: Vec<&str> = self.guessed.iter().map(String::as_str).collect();
            remarks.push(format!(
                "it does not tell whether more or less of {} is better; less is taken",
                units.join(", ")
            ));
        }
        if self.not_finite > 0 {
            remarks.push(match self.not_finite {
                1 => "1 value that is not finite was left out".to_owned(),
                count => format!("{count} values that are not finite were left out"),
            });
        }
        remarks
    }
}

//! What a trial (`--test`) found: how much works, and why the rest does not.

use super::document::{Block, Document};
use super::field::{Field, table_of};
use super::table::Cell;
use super::{Output, failures};
use speedwell_model::Failure;

/// The counts of a trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Benchmark files tried.
    pub files: usize,
    /// Files of which every case worked.
    pub working_files: usize,
    /// Cases that worked, under each of their variants where it is an experiment.
    pub cases: usize,
    /// Whether an experiment was tried.
    pub is_experiment: bool,
    /// What failed, and what cannot run here.
    pub failures: Vec<Failure>,
}

/// The report of a trial.
pub fn trial(trial: &Trial, output: &Output) -> Document {
    let failed = trial
        .failures
        .iter()
        .filter(|failure| !failure.cause.is_skip())
        .count();
    let skipped = trial.failures.len() - failed;
    let mut document = Document::new("trial");
    let text = if trial.is_experiment {
        format!(
            "{} of {} cases under their variants work",
            trial.cases,
            trial.cases + failed
        )
    } else {
        format!(
            "{} of {} benchmark files work: {} cases tried well, {failed} failed, {skipped} skipped",
            trial.working_files, trial.files, trial.cases
        )
    };
    document.push(Block::Headline(text));
    let table = table_of(
        "trial",
        fields(failed, skipped),
        std::slice::from_ref(trial),
    );
    document.push(Block::Table(table));
    document.append(failures(&trial.failures, output.verbosity));
    document
}

/// For machines alone: people have the headline.
fn fields(failed: usize, skipped: usize) -> Vec<Field<Trial>> {
    let count = |count: usize| Cell::value(count as u64);
    vec![
        Field::machine("files", move |trial: &Trial| count(trial.files)),
        Field::machine("working_files", move |trial: &Trial| {
            count(trial.working_files)
        }),
        Field::machine("cases", move |trial: &Trial| count(trial.cases)),
        Field::machine("failed", move |_: &Trial| count(failed)),
        Field::machine("skipped", move |_: &Trial| count(skipped)),
    ]
}

//! Do all variants of a case compute the same answer? A faster wrong answer is an error.

use speedwell_harness::Observation;
use speedwell_model::Cause;
use std::collections::HashMap;

/// The first answer of every case, to compare later ones with.
#[derive(Debug, Default)]
pub(super) struct Answers(HashMap<String, (String, String)>);

impl Answers {
    /// Takes note of an answer; what is wrong if it differs from the first one.
    pub fn check(&mut self, seen: &Observation, variant: &str) -> Option<Cause> {
        let answer = seen.check.as_ref()?;
        let (first, of) = self
            .0
            .entry(seen.case.id())
            .or_insert_with(|| (answer.clone(), variant.to_owned()));
        (first != answer).then(|| Cause::Invalid {
            reason: format!("computed '{answer}' where '{of}' had computed '{first}'"),
        })
    }
}

//! Parses `sample.json` of criterion: the number of iterations and the total time of each sample.
//!
//! In criterion's "linear" mode, each sample has more iterations than the previous sample; in
//! "flat" mode, all samples have the same number. In both modes, the value of a sample is its time
//! divided by its iterations.

use super::{ReportedResult, nanoseconds_measure};
use crate::foreign::json::{self, JsonNode};
use anyhow::{Context as _, Result, ensure};

/// Parses the file of one benchmark. The result has no name, because the name of the benchmark is
/// only in the path of the file.
///
/// # Errors
/// Fails if the file is not JSON, a required key is missing, a value is invalid, or the lists have
/// different lengths.
pub fn read(bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    let parsed = json::parse(bytes)?;
    let root = JsonNode::from_root(&parsed);
    let (iterations, times) =
        (root.require("iters")?.elements()?, root.require("times")?.elements()?);
    ensure!(
        iterations.len() == times.len(),
        "'iters' has length {}, but 'times' has length {}",
        iterations.len(),
        times.len()
    );
    let mut reported = ReportedResult::new(None);
    for (iterations, time) in iterations.iter().zip(&times) {
        let count = iterations.number()?;
        ensure!(count >= 1.0, "'{}' is {count}: expected at least 1", iterations.location());
        let per_iteration = time.number()? / count;
        (reported.add_value(&nanoseconds_measure(), per_iteration, Some(count)))
            .with_context(|| format!("'{}'", time.location()))?;
    }
    Ok(vec![reported])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_its_time_divided_by_its_iterations() {
        let read = |text: &str| read(text.as_bytes());
        let found =
            read(r#"{"sampling_mode":"Linear","iters":[10.0,20.0],"times":[50.0,90.0]}"#).unwrap();
        let samples = &found[0].samples;
        assert_eq!((samples[0].value, samples[1].value), (5.0, 4.5));
        assert_eq!((samples[1].iterations, samples[1].elapsed_ns), (Some(20.0), Some(90)));
        let error_message = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            error_message(r#"{"iters":[1],"times":[]}"#),
            "'iters' has length 1, but 'times' has length 0"
        );
        assert_eq!(
            error_message(r#"{"iters":[0],"times":[1]}"#),
            "'iters[0]' is 0: expected at least 1"
        );
        assert_eq!(error_message("{}"), "the key 'iters' is missing");
    }
}

//! `sample.json` of criterion: how many iterations each sample had, and how long they took together.
//!
//! Samples of the "linear" mode grow, those of the "flat" mode do not; a sample is its time divided by its iterations either way.

use super::{Reported, nanoseconds};
use crate::foreign::json::{self, Node};
use anyhow::{Result, ensure};

/// Reads the file of one benchmark. It does not name it: the folders that it lies in do.
///
/// # Errors
/// It is not JSON, has other keys, or lists of different lengths.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let parsed = json::parse(bytes)?;
    let root = Node::root(&parsed);
    let (iterations, times) = (
        root.need("iters")?.elements()?,
        root.need("times")?.elements()?,
    );
    ensure!(
        iterations.len() == times.len(),
        "'iters' has {} elements and 'times' {}",
        iterations.len(),
        times.len()
    );
    let mut reported = Reported::new(None);
    for (iterations, time) in iterations.iter().zip(&times) {
        let count = iterations.number()?;
        ensure!(
            count >= 1.0,
            "'{}' is {count}, not a number of iterations",
            iterations.place()
        );
        reported.add(&nanoseconds(), time.number()? / count, Some(count));
    }
    Ok(vec![reported])
}

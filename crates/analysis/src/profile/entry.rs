//! The function by which most of a difference enters: what a reader looks at first.
//!
//! Below it nothing is to be found that was there before, above it only callers that happen to be on the way.

use super::costs::costs;
use super::extra_cost::{CostRow, Sides};
use super::roots::Renamed;
use speedwell_model::Profile;

/// An old function counts as the place of the difference if it has at least this share of it.
const MOST: f64 = 0.5;
/// A new function counts as the place of the difference from this share on. Less of it can be what a
/// program does once, such as loading a module, while the work itself became slower.
const MOST_OF_NEW: f64 = 0.2;
/// New functions whose shares are nearer to the largest one than this part of it are one tower: of them the
/// one nearest to the root is the entry.
const ONE_TOWER: f64 = 0.05;
/// How many of the functions below it are told.
const BELOW: usize = 5;

/// The function by which most of the difference enters.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its row. Only if it is new did the cost enter here; else the cost grew in or below it.
    pub row: CostRow,
    /// What it called, directly or not, by share in the difference, the largest first.
    pub below: Vec<CostRow>,
}

/// Finds it: the new function nearest to the root that covers most of the difference. Where no function is new
/// that has a part worth telling, the innermost one with at least half of the difference.
pub fn of(
    rows: &[CostRow],
    sides: &Sides,
    profiles: (&Profile, &Profile),
    renamed: Option<&Renamed>,
) -> Option<Entry> {
    let row = newest(rows).or_else(|| innermost(rows))?.clone();
    let below = below(&row.frame, sides, profiles, renamed);
    Some(Entry { row, below })
}

fn newest(rows: &[CostRow]) -> Option<&CostRow> {
    let is_function = |row: &&CostRow| row.new && !row.frame.starts_with('[');
    let largest = rows.iter().find(is_function)?;
    if largest.share < MOST_OF_NEW {
        return None;
    }
    let tower = |row: &&CostRow| row.share >= largest.share * (1.0 - ONE_TOWER);
    rows.iter()
        .filter(is_function)
        .filter(tower)
        .min_by_key(|row| row.depth)
}

fn innermost(rows: &[CostRow]) -> Option<&CostRow> {
    rows.iter()
        .filter(|row| row.share >= MOST && row.depth > 0 && !row.frame.starts_with('['))
        .max_by_key(|row| row.depth)
}

/// What the function called, with the shares that lie below it.
fn below(
    frame: &str,
    sides: &Sides,
    (baseline, candidate): (&Profile, &Profile),
    renamed: Option<&Renamed>,
) -> Vec<CostRow> {
    let old = costs(baseline, None, |frames| behind(frame, frames));
    let new = costs(candidate, renamed, |frames| behind(frame, frames));
    let mut rows = sides.rows(&old, &new);
    rows.retain(|row| row.frame != frame);
    rows.truncate(BELOW);
    rows
}

/// The frames of a stack that are nearer to its end than `frame`.
fn behind<'a>(frame: &str, mut frames: Vec<&'a str>) -> Vec<&'a str> {
    match frames.iter().position(|name| *name == frame) {
        Some(at) => frames.split_off(at + 1),
        None => Vec::new(),
    }
}
